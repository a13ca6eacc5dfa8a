#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Killed and stopped at every step by name; the long form is tests/soak/steps.py."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import steps

plain = [name for name in steps.names() if name not in steps.SHARED]
sys.exit(steps.table(plain, ("kill", "stop"), (1,), ("events=1",)) +
         steps.table(["ARRIVAL_TAKEN"], ("kill", "stop"), (1, 3), ("events=1 srq=1",)))
