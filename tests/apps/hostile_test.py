#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Surroundings that lack something: a working fallback or a clear error, nothing else."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import hostile

hostile.need("ibv_rc_pingpong", "ib_write_bw", "prlimit", "setpriv", "unshare")
bad = 0
dice = random.Random(os.urandom(8).hex() if "VB_SEED" not in os.environ else os.environ["VB_SEED"])
where = hostile.Surroundings(hostile.installed(), nobody=True)
try:
    for group in (hostile.limits, hostile.filters, hostile.steps, hostile.places):
        bad += group(where)
    bad += hostile.random_settings(where, dice, 15)
finally:
    where.close()
sys.exit(1 if bad else 0)
