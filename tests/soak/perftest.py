#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""All combinations of perftest's options, 20 times each, as uid 65534.

    tests/soak/perftest.py [TIMES [PAIRS AT A TIME]]
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import pairs

pairs.need("ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_lat", "setpriv")
AMOUNT = {"-n": "1600", "-a": "64", "-D": "2"}
times = sys.argv[1] if len(sys.argv) > 1 else "20"
jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
bad = 0
for measure, at_once in (("bw", jobs), ("lat", 1)):
    bad |= pairs.run_table(app_cases.perftest(measure, AMOUNT, everything=True), "--as-nobody",
                           "--timeout", "600", "--repeat", times, jobs=at_once)
sys.exit(bad)
