#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""SIGSTOP at random moments inside verbs calls; the long form is tests/soak/stop.py."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import freeze
import workers

dice = workers.seed()
for options in ("", "memfd=1", "events=1", "srq=1"):
    worst = freeze.freeze(dice, 8, options, hold=(0.02, 0.1))
    print(f"stopped 8 times, {options or 'polling'}: all went on within {worst:.3f} s", flush=True)
freeze.check_onesided(dice, 10)
freeze.check_onesided(dice, 10, "memfd=1")
freeze.behind_a_holder()
print("WRITE and READ go on beside a stopped process")
