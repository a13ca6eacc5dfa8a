#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Killed and stopped at every step by name, at several of its turns, on every path."""
import os
import sys

# This file has the name of the module it uses: the folder of the module comes first.
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import steps

sys.exit(steps.table(steps.names(), ("kill", "stop"), (1, 2, 5, 17),
                     ("events=1", "", "memfd=1", "events=1 memfd=1", "events=1 srq=1")))
