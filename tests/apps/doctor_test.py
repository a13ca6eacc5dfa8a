#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""verbena doctor on what stands between hosts: firewalls, routes, narrow ways."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netns

VERBENA = os.path.join(os.environ["VB_BUILD"], "bin", "verbena")
FAILED = []
# A receiver as a program of ours is one, and doctor beside it.
HOLD = """
import socket, subprocess, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("", 4791))
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
CHAIN = """
table inet t {{
    chain c {{
        type filter hook {} priority 0
        {}
    }}
}}
"""


def ns(name, *argv, **more):
    """A command in a namespace."""
    return subprocess.run(["ip", "netns", "exec", name, *argv], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def rules(name, text):
    """These nftables rules and no others."""
    done = ns(name, "nft", "-f", "-", input="flush ruleset\n" + text)
    assert done.returncode == 0, done.stdout


def says(what, name, status, *wanted, never=(), peer=None, before=()):
    """The doctor's lines of firewall and peer, and its status."""
    done = ns(name, *before, VERBENA, "doctor", *(("--peer", peer) if peer else ()))
    wrong = [row for row in wanted if not re.search(row, done.stdout, re.M)]
    wrong += [f"not {row}" for row in never if re.search(row, done.stdout, re.M)]
    if done.returncode != status:
        wrong.append(f"status {done.returncode}")
    print(f"{'FAILED' if wrong else 'ok    '} {what}", flush=True)
    if wrong:
        FAILED.append(what)
        print(f"{wrong}\n{done.stdout}")


def firewalls(one):
    """Rules that concern this host's own packets."""
    everywhere = [rf"^ok +firewall +{end}: UDP 4791 of {address} is open"
                  for end, address in (("lo", "127.0.0.1"), ("eth0", "10.77.0.1"),
                                       ("eth0", "fd77::1"))]
    dropped = [r"^warn +firewall +a firewall drops UDP 4791 on eth0 \(10\.77\.0\.1\): ",
               r"^warn +firewall +a firewall drops UDP 4791 on eth0 \(fd77::1\): ",
               r"^warn +firewall +a firewall drops UDP 4791 on lo "]
    says("no firewall", one, 0, *everywhere, never=["a firewall"])
    says("no firewall, and a program has the port", one, 0, *everywhere, never=["a firewall"],
         before=(sys.executable, "-c", HOLD))
    rules(one, CHAIN.format("input", "udp dport 4791 drop"))
    says("what comes is dropped", one, 0, *dropped)
    rules(one, CHAIN.format("input", "ip daddr 10.77.0.1 udp dport 4791 drop"))
    says("to one address only", one, 0, dropped[0], everywhere[0], everywhere[2])
    rules(one, CHAIN.format("output", "udp dport 4791 drop"))
    says("what goes is dropped", one, 0,
         r"^warn +firewall +a firewall drops UDP 4791 on eth0 \(10.77.0.1\) on its way out")
    rules(one, CHAIN.format("input", "udp dport 4790 drop"))
    says("another port", one, 0, *everywhere, never=["a firewall"])
    rules(one, "")


def peers(one, two):
    """A peer that is there or not, and what is on the way."""
    way = r"^ok +peer +the way to \S+ begins at 10.77.0.1 of eth0: verbena0 index 1$"
    idle = r"^ok +peer +10.77.0.2 is there, and no program has UDP 4791 now$"
    wide = r"^ok +peer +1500 bytes fit through to \S+: path MTU 1024$"
    says("a peer without a program", one, 0, way, idle, wide, peer="10.77.0.2")
    says("the same over IPv6", one, 0, r"begins at fd77::1 of eth0: verbena0 index \d",
         r"fd77::2 is there, and no", r"1500 bytes fit .* path MTU 1024", peer="fd77::2")
    rules(two, CHAIN.format("input", "udp dport 4791 drop"))
    says("one that says nothing", one, 0, way, "nothing on the way to 10.77.0.2 refuses", wide,
         peer="10.77.0.2")
    rules(two, CHAIN.format("input", "udp dport 4791 reject with icmp type admin-prohibited"))
    says("one behind a firewall that says so", one, 1, way,
         "^fail +peer +UDP 4791 to 10.77.0.2: No route to host|"
         "^fail +peer +a firewall refuses UDP 4791 to 10.77.0.2", peer="10.77.0.2")
    rules(two, "")
    rules(one, CHAIN.format("output", "ip daddr 10.77.0.2 udp dport 4791 drop"))
    says("a firewall on the way out", one, 1,
         "^fail +peer +a firewall refuses UDP 4791 to 10.77.0.2", peer="10.77.0.2")
    rules(one, "")
    says("no way", one, 1, "^fail +peer +no way to 192.0.2.1: Network is unreachable",
         peer="192.0.2.1")
    says("no address", one, 1, "^fail +peer +no:address: ", peer="no:address")
    says("another interface", one, 0,
         "^warn +peer +the way to 127.0.0.2 begins at 127.0.0.1 of lo, which is no GID",
         peer="127.0.0.2")


def narrow(link):
    """A host behind the second one, over a link of a smaller MTU."""
    one, two = link.names
    third = f"{one}-c"
    link.ip("netns", "add", third)
    try:
        link.ip("link", "add", "eth1", "netns", two, "type", "veth", "peer", "name", "eth0",
                "netns", third)
        link.ip("-n", two, "addr", "add", "10.78.0.1/24", "dev", "eth1")
        link.ip("-n", third, "addr", "add", "10.78.0.2/24", "dev", "eth0")
        for name, interface in ((two, "eth1"), (third, "eth0")):
            link.ip("-n", name, "link", "set", interface, "mtu", "700", "up")
        link.ip("-n", third, "route", "add", "10.77.0.0/24", "via", "10.78.0.1")
        link.ip("-n", one, "route", "add", "10.78.0.0/24", "via", "10.77.0.2")
        ns(two, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        says("a narrow way", one, 0, "10.78.0.2 is there, and no program",
             r"^warn +peer +700 bytes fit through to 10.78.0.2: .*path MTU of 1024 .*; 512 fits",
             peer="10.78.0.2")
        link.ip("-n", one, "route", "add", "10.78.0.2/32", "via", "10.77.0.2", "mtu", "lock",
                "300")
        says("one too narrow", one, 1, "^fail +peer +300 bytes fit through .*: too few",
             peer="10.78.0.2")
    finally:
        subprocess.run(["ip", "netns", "del", third], check=False)


netns.need()
os.environ["PATH"] += ":/usr/sbin:/sbin"
if not shutil.which("nft"):
    print("nft is not installed")
    sys.exit(77)
with netns.Link(1500) as hosts:
    firewalls(hosts.names[0])
    peers(*hosts.names)
    narrow(hosts)
sys.exit(1 if FAILED else 0)
