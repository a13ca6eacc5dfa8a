#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Processes of different users on one host: neither can open the other's memory, so packets are
handed over."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netns
import pairs

pairs.need("ibv_rc_pingpong", "ibv_ud_pingpong", "ib_send_bw", "ib_read_lat", "setpriv")
netns.need()

CASES = [
    ["ibv_rc_pingpong", "-g", "0", "-c", "-n", "200"],
    ["ibv_rc_pingpong", "-g", "1", "-e", "-c", "-s", "65537", "-n", "50"],
    ["ibv_uc_pingpong", "-g", "1", "-c", "-n", "100"],
    ["ibv_ud_pingpong", "-g", "1", "-s", "1024", "-c", "-n", "100"],
    ["ibv_srq_pingpong", "-g", "1", "-c", "-n", "50"],
    ["ib_send_bw", "-F", "-c", "UD", "-n", "1000"],
    ["ib_write_bw", "-F", "-u", "18", "-q", "4", "-n", "200"],
    *(["ib_" + operation + "_" + measure, "-F", "-u", "18", "-n", "200"]
      for operation in ("send", "write", "read", "atomic") for measure in ("bw", "lat")),
]

bad = 0
with netns.Link() as link:
    one, _ = link.names
    for root in ("--root-server", "--root-client"):
        bad |= pairs.run_table([(case,) for case in CASES], "--between", one, one, "--as-nobody",
                               root)
sys.exit(bad)
