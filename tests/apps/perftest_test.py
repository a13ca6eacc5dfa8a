#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""perftest's tools, unchanged, between two processes; few iterations.

Any two options meet; tests/soak/perftest.py runs all combinations.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import pairs

pairs.need("ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_lat")
AMOUNT = {"-n": "96", "-a": "16", "-D": "1"}
# The bandwidth tools sleep a second each; those of latency need both CPUs.
bad = pairs.run_table(app_cases.perftest("bw", AMOUNT), "--timeout", "120", jobs=3)
bad |= pairs.run_table(app_cases.perftest("lat", AMOUNT), "--timeout", "120")
sys.exit(bad)
