#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A process stopped at a random moment inside verbs calls, 1 000 times."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import freeze
import workers

dice = workers.seed()
for options, times in (("", 400), ("memfd=1", 300), ("events=1", 200), ("events=1 memfd=1", 100)):
    worst = freeze.freeze(dice, times, options)
    print(f"stopped {times} times, {options or 'polling'}: all went on within {worst:.3f} s",
          flush=True)
for options in ("", "memfd=1"):
    freeze.check_onesided(dice, 100, options)
print("WRITE and READ go on beside a process stopped 200 times")
