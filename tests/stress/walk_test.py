#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Random walks of verbs against a model; the long form is tests/soak/walk.py."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import walking

sys.exit(walking.main(seconds=8, steps=1500, processes=3))
