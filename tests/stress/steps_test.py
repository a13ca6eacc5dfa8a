#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Killed and stopped at every step by name; the long form is tests/soak/steps.py."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import steps

sys.exit(steps.table(steps.names(), ("kill", "stop"), (1,), ("events=1",)))
