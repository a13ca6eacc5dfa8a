#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The tables of pingpong and perftest between two hosts, as uid 65534: network namespaces joined by
a veth, IPv4 and IPv6 GIDs, MTU 1500 and 9000.

    tests/soak/hosts.py [--times N] [--jobs N] [--mtu N] [--only pingpong|bw|lat] [--skip N]

perftest's table is the one in which any two options meet. --skip leaves out the first N lines of
each.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import netns
import pairs

AMOUNT = {"-n": "1600", "-a": "64", "-D": "2"}

pairs.need("ibv_rc_pingpong", "ib_send_bw", "ib_write_lat", "setpriv")
netns.need()
options = argparse.ArgumentParser()
options.add_argument("--times", default="20")
options.add_argument("--jobs", type=int, default=2, help="of the bandwidth tools")
options.add_argument("--mtu", type=int)
options.add_argument("--only", choices=("pingpong", "bw", "lat"))
options.add_argument("--skip", type=int, default=0)
chosen = options.parse_args()


def tables():
    """Name and lines. What is for the loopback device is left out."""
    yield "pingpong", [case for case in app_cases.pingpong()
                       if not set(app_cases.LARGE_MTU) & set(case[1:])]
    for measure in ("bw", "lat"):
        yield measure, app_cases.perftest(measure, AMOUNT)


bad = 0
for mtu in (1500, 9000) if not chosen.mtu else (chosen.mtu,):
    for name, cases in tables():
        if chosen.only not in (None, name):
            continue
        with netns.Link(mtu) as link:
            print(f"== {name}, MTU {mtu}", flush=True)
            bad |= pairs.run_table(cases[chosen.skip:], "--as-nobody", "--timeout", "600",
                                   "--between", *link.names, "--host", "10.77.0.1",
                                   "--repeat", chosen.times,
                                   jobs=chosen.jobs if name == "bw" else 1)
sys.exit(bad)
