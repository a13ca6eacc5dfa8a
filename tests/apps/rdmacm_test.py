#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs that find each other by address: within a host and between two."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cm_cases
import cmpairs
import netns
import pairs

pairs.need("rping", "ucmatose", "udaddy", "cmtime", "ib_send_bw", "qperf", "fio")
netns.need()

table = cmpairs.Table()
with netns.Link() as link:
    one, two = link.names
    for address in ("127.0.0.1", "::1", "10.77.0.1", "fd77::1"):
        for name, server, client, options in cm_cases.cases(address):
            table.run(f"{name} at {address}", server, client, where=(one, one), **options)
    for address, other in (("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")):
        for name, server, client, options in cm_cases.cases(address, other):
            table.run(f"{name} to {address}", server, client, where=(one, two), **options)
    for where, kind in (((one, one), "within a host"), ((one, two), "between hosts")):
        for name, server, client, options in cm_cases.others("10.77.0.1"):
            table.run(f"{name}, {kind}", server, client, where=where, **options)
    for carrier in ("local", "udp"):
        table.run(f"rping within a host by {carrier}", ["rping", "-s", "-a", "10.77.0.1", "-C", "5"],
                  ["rping", "-c", "-a", "10.77.0.1", "-C", "5", "-V"], where=(one, one),
                  port=cm_cases.RPING, env={"VERBENA_CARRIER": carrier})
    # Another host's address is not taken for a listener of this one's.
    alone = {"VERBENA_CARRIER": "local", "VERBENA_EXPLAIN": "1"}
    server = cmpairs.End(["rping", "-s", "-a", "0.0.0.0"], one, env=alone)
    client = cmpairs.End(["ucmatose", "-s", "10.77.0.2", "-p", str(cm_cases.RPING)], one, env=alone)
    client.wait(60)
    table.say("no way to another host by the local carrier", "" if "[cm-no-route]" in client.said()
              else client.said())
    server.kill()
    # As an ordinary user, from an installed copy.
    for name, server, client, options in cm_cases.cases("10.77.0.1", "10.77.0.2"):
        table.run(f"{name}, both as nobody", server, client, where=(one, two), nobody=True,
                  **options)
table.finish()
