#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's pingpong programs, unchanged, between two processes."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import pairs

pairs.need("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")
sys.exit(pairs.run_table(app_cases.pingpong(), "--timeout", "120"))
