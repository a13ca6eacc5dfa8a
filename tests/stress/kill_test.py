#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""SIGKILL at random moments; the long form is tests/soak/kill.py."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import killing
import workers

dice = workers.seed()
for options in ("", "memfd=1", "events=1", "srq=1"):
    worst = killing.kill(dice, 8, options, lifetime=8)
    print(f"killed 8 times, {options or 'polling'}: ended within {worst:.3f} s", flush=True)
killing.kill_idle(dice)
killing.kill_all(dice, 4)
print("all killed: swept")
