#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Buffers that are cut into datagrams on the way: peers that then find the ICRC wrong but for the
first of each, and ours, which do not.

The former as where an interface writes identifications of its own, and the peer believes the header.
Here the kernel writes 0, 1, 2 ..., and an independent rule throws away what is not 0.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import hosts
import netns
import pairs

RULES = """
table ip cutting {
    counter lost { }
    chain arriving {
        type filter hook prerouting priority raw;
        udp dport 4791 ip id != 0 counter name lost drop
    }
}
"""
# Some 9000 packets each. Until it is noticed a few windows are lost, of 50 packets at most, and for
# each QP; before it was, more were lost than came through, and READs did not end.
TRAFFIC = (
    ["ib_write_bw", "-F", "-s", "65536", "-n", "200"],
    ["ib_send_bw", "-F", "-s", "65536", "-n", "200", "-b"],
    ["ib_read_bw", "-F", "-s", "65536", "-n", "200"],
    ["ib_read_bw", "-F", "-s", "8192", "-n", "2000"],
    ["ib_atomic_bw", "-F", "-n", "2000"],
    ["ib_write_bw", "-F", "-s", "65536", "-n", "50", "-q", "4"],
)
MOST = 1500


def inside(name, *words, text=None):
    """What a command in a namespace prints."""
    return subprocess.run(["ip", "netns", "exec", name, *words], input=text, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def lost(names):
    """How many the rule has thrown away since it was asked."""
    return sum(int(re.search(r"packets (\d+)", inside(name, "nft", "reset", "counters"))[1])
               for name in names)


def prepare(name):
    """The rule, and an interface before which the kernel cuts."""
    inside(name, "ip", "link", "set", "eth0", "gso_max_segs", "1")
    inside(name, "nft", "-f", "-", text=RULES)


def run(link, argv):
    """One line; 1 where it is not good."""
    good, output = pairs.run_pair(argv, "--between", *link.names, "--host", "10.77.0.1")
    count = lost(link.names)
    good = good and 0 < count < MOST
    print(f"{'ok    ' if good else 'FAILED'} {' '.join(argv)}: {count} packets lost", flush=True)
    if not good:
        print(output)
    return not good


def ours(attribute, value):
    """Of what our own peers sent nothing is wrong, whatever the kernels make of the buffers."""
    wrong = 0
    with netns.Link(1500) as link:
        for end in link.names:
            inside(end, "ip", "link", "set", "eth0", attribute, value)
        two = [hosts.Host(name) for name in link.names]
        for host in two:
            host.grown()
        for argv in TRAFFIC[0], TRAFFIC[2], ["ib_send_bw", "-F", "-c", "UC", "-s", "4096", "-n",
                                             "50"]:
            good, output = pairs.run_pair(argv, "--between", *link.names, "--host", "10.77.0.1")
            bad_ones = [host.grown()["rx_icrc_encapsulated"] for host in two]
            good = good and not any(bad_ones)
            print(f"{'ok    ' if good else 'FAILED'} {' '.join(argv)}, {attribute} {value}: "
                  f"{bad_ones} ICRC errors", flush=True)
            if not good:
                print(output)
            wrong += not good
        for host in two:
            host.close()
    return wrong


pairs.need("ib_write_bw", "nft")
netns.need()
bad = 0
with netns.Link(1500) as between_hosts:
    for end in between_hosts.names:
        prepare(end)
    for line in TRAFFIC:
        bad += run(between_hosts, line)
bad += ours("gso_max_segs", "1")
bad += ours("gso_max_segs", "5")
bad += ours("gso_max_size", "20000")
sys.exit(1 if bad else 0)
