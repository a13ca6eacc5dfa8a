#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Processes of different users on one host: neither can open the other's memory, so packets are
handed over, and whoever has the port has it for all."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cmpairs
import netns
import pairs

pairs.need("ibv_rc_pingpong", "ibv_ud_pingpong", "ib_send_bw", "ib_read_lat", "setpriv",
           "rping")
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

PORT = ":12B7 "  # 4791


def read(name, path):
    """A file of a host's."""
    return subprocess.run(cmpairs.inside(name) + ["cat", path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def packets(name):
    """What the interface of a host has sent."""
    return int(read(name, "/proc/net/dev").split("eth0:")[1].split()[9])


def has_port(name, uid):
    """Whether a user has port 4791 there."""
    rows = [line.split() for line in read(name, "/proc/net/udp").splitlines() if PORT in line]
    return any(row[7] == str(uid) for row in rows)


def until(what, done):
    """Wait for it; any retry of the protocol is shorter."""
    end = time.monotonic() + 60
    while not done():
        if time.monotonic() > end:
            raise RuntimeError(what)
        time.sleep(0.02)


def goes_on(there, before):
    """A thousand packets more."""
    return packets(there) > before + 1000


def taken_over(here, there):
    """Who had the port for all users ends: another one's connection to another host goes on."""
    ends, why = [cmpairs.End(["rping", "-s", "-p", "9999"], here)], ""
    try:
        until("root has no port", lambda: has_port(here, 0))
        ends.append(cmpairs.End(["rping", "-s", "-P"], here, nobody=True))
        until("nobody listens", lambda: cmpairs.listens(here, cmpairs.TCP, 7174))
        ends.append(cmpairs.End(["rping", "-c", "-a", "10.77.0.1"], there))
        until("no ping", lambda: goes_on(there, 0))
        ends[0].kill()
        until("the port is nobody's", lambda: has_port(here, 65534))
        before = packets(there)
        until("no ping after that", lambda: goes_on(there, before))
        why = "".join(end.said() for end in ends[1:] if end.child.poll() is not None)
    except RuntimeError as err:
        why = f"{err}\n" + "".join(end.said() for end in ends)
    for end in ends:
        end.kill()
    print(f"FAILED the port is taken over\n{why}" if why else "ok     the port is taken over",
          flush=True)
    return why != ""


bad = 0
with netns.Link() as link:
    bad |= taken_over(*link.names)
    one, _ = link.names
    for root in ("--root-server", "--root-client"):
        bad |= pairs.run_table([(case,) for case in CASES], "--between", one, one, "--as-nobody",
                               root)
sys.exit(bad)
