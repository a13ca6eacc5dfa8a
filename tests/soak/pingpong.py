#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The pingpong table, 20 times each, as uid 65534 from an installed copy."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import pairs

pairs.need("ibv_rc_pingpong", "setpriv")
sys.exit(pairs.run_table(app_cases.pingpong(), "--as-nobody", "--repeat", "20"))
