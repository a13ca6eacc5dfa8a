#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs that find each other by address, 20 times each as uid 65534, within a host and between
two; and connections made and ended by the thousand, with one message of a hundred lost.

    tests/soak/rdmacm.py [--times N] [--cycles N] [--only REGEX] [--part K/N]

--only does the lines whose name matches, --part every Nth from the Kth. Several may run at a time:
each has network namespaces of its own.
"""
import argparse
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cm_cases
import cmpairs
import netns
import pairs

# Connections of one run of cmtime.
AT_ONCE = 64

pairs.need("rping", "ucmatose", "udaddy", "cmtime", "mckey", "ib_send_bw", "qperf", "fio",
           "setpriv")
netns.need()
options = argparse.ArgumentParser()
options.add_argument("--times", type=int, default=20)
options.add_argument("--cycles", type=int, default=10000)
options.add_argument("--only", default="")
options.add_argument("--part", default="1/1")
chosen = options.parse_args()
first, step = (int(number) for number in chosen.part.split("/"))


def lines(one, two):
    """All there are: name, server, client, options of Table.run()"""
    for where, kind in (((one, one), "within a host"), ((one, two), "between hosts")):
        for address, other in (("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")):
            if where == (one, one):
                other = address
            for name, server, client, more in cm_cases.cases(address, other):
                yield (f"{name} {address}, {kind}", server, client,
                       {"where": where, "times": chosen.times, **more})
        for name, server, client, more in cm_cases.others("10.77.0.1"):
            yield f"{name}, {kind}", server, client, {"where": where, "times": chosen.times, **more}
        both = ["cmtime", "-c", str(AT_ONCE)]
        yield (f"cmtime with loss, {kind}", [*both, "-b", "10.77.0.1"],
               [*both, "-s", "10.77.0.1"],
               {"where": where, "port": cm_cases.UCMA, "serves_on": True,
                "times": (chosen.cycles + AT_ONCE - 1) // AT_ONCE,
                "env": {"VERBENA_FAULTS": "drop=1%;seed={number}"}})


table = cmpairs.Table()
with netns.Link() as link:
    for number, (name, server, client, more) in enumerate(lines(*link.names)):
        if number % step == first - 1 and re.search(chosen.only, name):
            table.run(name, server, client, nobody=True, **more)
table.finish()
