#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""All combinations of perftest's options, 20 times each, as uid 65534.

    tests/soak/perftest.py [--times N] [--jobs N] [--pairs] [--part K/N] [--skip N] [--only bw|lat]
                           [--quick] [--match REGEX]

The whole takes hours: --part does every Nth case from the Kth, --pairs only those of
tests/apps/perftest_test.py, in which any two options meet. --skip leaves out the first N of the
bandwidth cases, or with --only of that measure's, where an earlier run ended; --match does the
lines of these that match. --quick leaves out what perftest does for its own figures alone, the most
of a short run: a clock that runs fast while the frequency of the processor is measured
(fast_clock.c), and no search for the peak (-N).
"""
import argparse
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import pairs

pairs.need("ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_lat", "setpriv")
options = argparse.ArgumentParser()
options.add_argument("--times", default="20")
options.add_argument("--jobs", type=int, help="3 of the bandwidth tools, 1 of the latency tools")
options.add_argument("--pairs", action="store_true")
options.add_argument("--part", default="1/1")
options.add_argument("--skip", type=int, default=0)
options.add_argument("--only", choices=("bw", "lat"))
options.add_argument("--match", default="")
options.add_argument("--quick", action="store_true")
chosen = options.parse_args()
first, step = (int(number) for number in chosen.part.split("/"))
AMOUNT = {"-n": "1600", "-a": "64", "-D": "2"}
common = ["--as-nobody", "--timeout", "600", "--repeat", chosen.times]
bad = 0

spare = tempfile.TemporaryDirectory()
if chosen.quick:
    common += ["--preload", pairs.fast_clock(spare.name)]
for measure, at_once in (("bw", 3), ("lat", 1)):
    if chosen.only not in (None, measure):
        continue
    cases = app_cases.perftest(measure, AMOUNT, everything=not chosen.pairs)[first - 1::step]
    cases = cases[chosen.skip if measure == (chosen.only or "bw") else 0:]
    cases = [case for case in cases if re.search(chosen.match, " ".join(case[0]))]
    if chosen.quick:
        cases = [app_cases.without_peak(case) for case in cases]
    bad |= pairs.run_table(cases, *common, jobs=chosen.jobs or at_once)
sys.exit(bad)
