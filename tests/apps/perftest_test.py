#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""perftest's RC tools, unchanged, between two processes; few iterations.

tests/soak/perftest.py runs the same table with the tools' own numbers.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import pairs

pairs.need("ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_lat")
sys.exit(pairs.run_table(app_cases.perftest(iterations=200), "--timeout", "30"))
