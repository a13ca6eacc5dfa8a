#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A random walk of verbs against a model; the long form is tests/soak/walk.py."""
import argparse
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import walking

options = argparse.ArgumentParser()
options.add_argument("--seed", type=int)
options.add_argument("--steps", type=int, default=1500)
options.add_argument("--processes", type=int, default=3)
options.add_argument("--seconds", type=float, default=8)
chosen = options.parse_args()
if chosen.seed is not None:
    sys.exit(not walking.walk(chosen.seed, chosen.steps, chosen.processes))
until = time.monotonic() + chosen.seconds
while True:
    if not walking.walk(random.SystemRandom().randrange(1 << 32), chosen.steps, chosen.processes):
        sys.exit(1)
    if time.monotonic() > until:
        sys.exit(0)
