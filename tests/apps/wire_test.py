#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs over RC, UC and UD between two hosts: network namespaces with a veth between them."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netns
import pairs

pairs.need("ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "ib_send_bw", "ib_read_lat")
netns.need()

SIZES = (1, 255, 256, 1023, 1024, 1025, 2048, 4097, 65537)


def cases():
    """Both GIDs, every operation, sizes around the path MTU, several QPs."""
    pingpong = "ibv_rc_pingpong"
    for gid in ("0", "1", "2"):
        yield ([pingpong, "-g", gid, "-c", "-n", "200"],)
    yield ([pingpong, "-g", "1", "-e", "-n", "200"],)
    yield ([pingpong, "-g", "1", "-m", "256", "-c", "-n", "100"],)
    for size in SIZES:
        yield ([pingpong, "-g", "1", "-c", "-s", str(size), "-n", "50"],)
    yield (["ibv_srq_pingpong", "-g", "1", "-c", "-n", "100"],)
    for gid in ("0", "1"):
        yield (["ibv_ud_pingpong", "-g", gid, "-s", "1024", "-c", "-n", "100"],)
    yield (["ibv_ud_pingpong", "-g", "1", "-s", "1", "-e", "-c", "-n", "100"],)
    for gid in ("0", "1"):
        yield (["ibv_uc_pingpong", "-g", gid, "-s", "1024", "-c", "-n", "100"],)
    for size in SIZES:
        yield (["ibv_uc_pingpong", "-g", "1", "-s", str(size), "-e", "-c", "-n", "50"],)
    for operation in ("send", "write"):
        for measure in ("bw", "lat"):
            yield ([f"ib_{operation}_{measure}", "-F", "-c", "UC", "-n", "200"],)
    yield (["ib_send_lat", "-F", "-c", "UD", "-n", "100"],)
    yield (["ib_send_bw", "-F", "-c", "UD", "-n", "100"],)
    for operation in ("send", "write", "read", "atomic"):
        for measure in ("bw", "lat"):
            # Long timers: CPUs are shared with whatever else the machine does.
            yield ([f"ib_{operation}_{measure}", "-F", "-u", "18", "-n", "200"],)
    yield (["ib_write_bw", "-F", "-u", "18", "-q", "4", "-n", "200"],)
    yield (["ib_send_bw", "-F", "-u", "18", "-b", "-n", "100"],)
    yield (["ib_read_bw", "-F", "-u", "18", "-s", "1048577", "-n", "5"],)


bad = 0
for mtu in (1500, 9000):
    with netns.Link(mtu) as link:
        bad |= pairs.run_table(list(cases()), "--between", *link.names, "--host", "10.77.0.1")
sys.exit(bad)
