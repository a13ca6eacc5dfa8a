#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A segment overwritten while in use; the long form is tests/soak/scribble.py."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scribbling
import workers

dice = workers.seed()
for options in ("", "memfd=1", "events=1", "srq=1"):
    scribbling.run(dice, 10, options)
for garbage in (0, 1, 0x7fffffff):
    scribbling.dead_unmarked(garbage)
print("a dead process whose word does not say so is found dead")
