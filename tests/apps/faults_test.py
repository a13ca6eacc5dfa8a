#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs on a link that loses, doubles, delays and damages packets on demand, within
the host and between hosts: all data arrives."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netns
import pairs

pairs.need("ibv_rc_pingpong", "ib_write_bw", "ib_read_bw", "ib_atomic_lat")

# The last acknowledgement may be lost, and the other side gone when it is asked for again: each
# program ends with a word over TCP, but for ibv_rc_pingpong, which is not run where acknowledgements
# suffer.
PROGRAMS = [
    ["ib_write_bw", "-F", "-u", "15", "-n", "100", "-s", "20000"],
    ["ib_read_bw", "-F", "-u", "15", "-n", "100", "-s", "9000"],
    ["ib_send_bw", "-F", "-u", "15", "-n", "100", "-s", "3000"],
    ["ib_atomic_lat", "-F", "-u", "15", "-n", "100"],
]
FAULTS = [
    "drop=1%",
    "drop=10%,opcode=write;drop=10%,opcode=read;drop=5%,opcode=ack",
    "duplicate=10%",
    "reorder=10%",
    "delay=5%,ms=3",
    "corrupt=2%;truncate=2%",
    "rnr=20%",
    "down=/200,ms=20",
    "drop=2%;duplicate=2%;reorder=3%;corrupt=2%;delay=1%,ms=2;seed=9",
]


def cases():
    """Every program with every fault."""
    for faults in FAULTS:
        for program in PROGRAMS:
            yield program, "--env", f"VERBENA_FAULTS={faults}"
    yield (["ibv_rc_pingpong", "-g", "1", "-c", "-n", "200", "-s", "5000"],
           "--env", "VERBENA_FAULTS=drop=2%,opcode=send;rnr=10%")


def says_what_is_wrong():
    """A wrong specification is named, and nothing fails by it."""
    good, output = pairs.run_pair(["ib_write_lat", "-F", "-n", "5"], "--show", "--env",
                                  "VERBENA_EXPLAIN=1", "--env", "VERBENA_FAULTS=drop=1%;lose=2%")
    # Without packets nobody reads it.
    fine = good and ("[faults-spec]" in output and 'from "lose=2%" on' in output)
    print(f"{'ok    ' if fine else 'FAILED'} a wrong specification")
    return fine


bad = not says_what_is_wrong()
bad |= pairs.run_table(list(cases()))
if bad:
    sys.exit(1)
netns.need()
with netns.Link(1500) as link:
    bad |= pairs.run_table(list(cases())[::3], "--between", *link.names, "--host", "10.77.0.1")
sys.exit(bad)
