#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Many connections between hosts on a link that loses packets: two clients and one server, and 64
QPs with all kinds of requests. Long form: tests/soak/fair.py."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import sharing

sharing.need()
# The link is to be what is slow, and not the programs.
RATE, PART = ("40mbit", 5) if sharing.workers.sanitized() else ("200mbit", 1)
bad = 0
for per_cent in (0, 1, 10):
    with sharing.netns.Star(2, rate=RATE) as star:
        if per_cent:
            for name in star.names:
                sharing.lossy(name, per_cent)
        print(f"{per_cent}% lost")
        bad |= sharing.race(star, 1, 2000 // PART)
        bad |= sharing.race(star, 8, 400 // PART)
        bad |= bool(per_cent) and not sharing.lost(star.names[0])
for per_cent, rounds in ((1, 40), (10, 5)):
    with sharing.netns.Star(1) as star:
        for name in star.names:
            sharing.lossy(name, per_cent)
        sharing.mixed(star, 64, rounds)
        bad |= not sharing.lost(star.names[0])
sys.exit(bad)
