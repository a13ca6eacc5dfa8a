#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kill -9 of either side at random moments, 500 times."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import killing
import workers

dice = workers.seed()
for options, times in (("", 200), ("memfd=1", 150), ("events=1", 100), ("events=1 memfd=1", 50)):
    worst = killing.kill(dice, times, options)
    print(f"killed {times} times, {options or 'polling'}: ended within {worst:.3f} s", flush=True)
killing.kill_all(dice, 50)
print("all killed, 50 times: swept")
