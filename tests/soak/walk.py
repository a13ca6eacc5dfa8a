#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Random walks of verbs against a model for 30 minutes, more processes and longer.

    tests/soak/walk.py [--seconds N] [--steps N] [--processes N] [--seed N]
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import walking

sys.exit(walking.main(seconds=1800, steps=10000, processes=5))
