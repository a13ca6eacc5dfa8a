#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A segment filled with random bytes while in use, 1 000 times, both parts."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import scribbling
import workers

dice = workers.seed()
for options in ("", "memfd=1", "events=1", "srq=1", "events=1 memfd=1"):
    scribbling.run(dice, 250, options)
