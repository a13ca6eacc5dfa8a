#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Two clients and one server on a link that loses packets, for 10 minutes.

    tests/soak/fair.py [--seconds N] [--links N] [--loss PERCENT] [--rate RATE]
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import sharing

options = argparse.ArgumentParser()
options.add_argument("--seconds", type=float, default=600)
options.add_argument("--links", type=int, default=1, help="QPs of each client")
options.add_argument("--loss", type=int, default=1)
options.add_argument("--rate", default="200mbit", help="of the link to the server, as tc(8) writes it")
chosen = options.parse_args()
sharing.need()
with sharing.netns.Star(2, rate=chosen.rate) as star:
    for name in star.names:
        sharing.lossy(name, chosen.loss)
    sys.exit(sharing.endure(star, chosen.links, chosen.seconds))
