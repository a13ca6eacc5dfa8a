#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Surroundings that lack something, as root and as uid 65534, and many random ones."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import hostile
import workers

hostile.need("ibv_rc_pingpong", "ib_write_bw", "prlimit", "setpriv", "unshare")
bad = 0
dice = workers.seed()
for nobody in (True, False):
    where = hostile.Surroundings(hostile.installed(), nobody)
    try:
        for group in (hostile.limits, hostile.filters, hostile.steps, hostile.places):
            bad += group(where)
        bad += hostile.random_settings(where, dice, 300)
        bad += hostile.random_filters(where, dice, 100)
    finally:
        where.close()
print(f"{bad} bad")
sys.exit(1 if bad else 0)
