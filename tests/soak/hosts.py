#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The tables of pingpong and perftest between two hosts, as uid 65534: network namespaces joined by
a veth, IPv4 and IPv6 GIDs, MTU 1500 and 9000.

    tests/soak/hosts.py [--times N] [--jobs N] [--mtu N] [--only pingpong|bw|lat] [--skip N]

perftest's table is the one in which any two options meet, without what it does for its own figures
alone (tests/soak/perftest.py --quick), and with several QPs 4 KiB where no size is said. --skip
leaves out the first N lines of each.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import netns
import pairs

AMOUNT = {"-n": "1600", "-a": "64", "-D": "2"}

pairs.need("ibv_rc_pingpong", "ib_send_bw", "ib_write_lat", "setpriv")
netns.need()
options = argparse.ArgumentParser()
options.add_argument("--times", default="20")
options.add_argument("--jobs", type=int, default=2)
options.add_argument("--mtu", type=int)
options.add_argument("--only", choices=("pingpong", "bw", "lat"))
options.add_argument("--skip", type=int, default=0)
chosen = options.parse_args()


def tables():
    """Name and lines. What is for the loopback device is left out."""
    yield "pingpong", [case for case in app_cases.pingpong()
                       if not set(app_cases.LARGE_MTU) & set(case[1:])]
    for measure in ("bw", "lat"):
        yield measure, [less(app_cases.without_peak(case))
                        for case in app_cases.perftest(measure, AMOUNT)]


def less(case):
    """Sixteen QPs with 64 KiB each take a packet's way ten seconds, with 1 MiB at the pace of UC nine
    minutes."""
    argv, *extra = case
    plain = argv[0] != "ib_atomic_bw" and not {"-s", "-a", "UD"} & set(argv)
    if "-q" in argv and plain:
        return ([*argv, "-s", "4096"], *extra)
    if {"-q", "-n", "UC", "1048576"} <= set(argv):
        argv = [*argv, "-n", "64"]
    return (argv, *extra)


spare = tempfile.TemporaryDirectory()
clock = pairs.fast_clock(spare.name)
bad = 0
for mtu in (1500, 9000) if not chosen.mtu else (chosen.mtu,):
    for name, cases in tables():
        if chosen.only not in (None, name):
            continue
        with netns.Link(mtu) as link:
            print(f"== {name}, MTU {mtu}", flush=True)
            bad |= pairs.run_table(cases[chosen.skip:], "--as-nobody", "--timeout", "600",
                                   "--preload", clock, "--between", *link.names,
                                   "--host", "10.77.0.1", "--repeat", chosen.times,
                                   jobs=chosen.jobs)
sys.exit(bad)
