#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Multicast between two hosts, network namespaces with a veth between them, and between users."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netns
import pairs

PROGRAM = os.path.join(os.environ["VB_BUILD"], "tests", "conform.mcast_test")
GROUPS = ("239.7.7.7", "ff0e::7:7", "ff02::77")
NOBODY = 65534
COUNT = 60
# perftest's way of writing a group, and the index of an address of its protocol.
PERFTEST = (("255.14.0.0.0.0.0.0.0.0.0.0.0.0.0.9", "2"), ("0.0.0.0.0.0.0.0.0.0.255.255.239.1.1.1", "1"))
MANY = 50  # more than a socket can be in (net.ipv4.igmp_max_memberships)


class End:
    """A process that does what tests/lib/mcast_end.h says."""

    ends = []

    def __init__(self, link, host, qps=1, uid=None, **environment):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["ip", "netns", "exec", link.names[host], PROGRAM, "--end",
             *(["--uid", str(uid)] if uid is not None else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, **environment))
        End.ends.append(self)
        self.say("open", qps)

    def say(self, *words):
        """One line, until it is done."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ok\n":
            raise RuntimeError(" ".join(map(str, words)))

    def close(self):
        """Have it close everything and end."""
        self.say("close")
        self.process.stdin.close()
        if self.process.wait():
            raise RuntimeError("close")
        End.ends.remove(self)


def all_say(ends, *words):
    """The same to each."""
    for end in ends:
        end.say(*words)


def exchange(ends, group, burst=COUNT, **environment):
    """Each sends in turn, and each member gets every message once, its own too.

    burst: how many at a time. What is handed to a process of another user waits in a queue of ten.
    """
    all_say(ends, "attach", group)
    for sender, end in enumerate(ends):
        for first in range(0, COUNT, burst):
            end.say("send", group, sender, first, burst, 1000)
            all_say(ends, "wait", sender, first + burst)
    # A copy that came late would count twice now.
    for sender, end in enumerate(ends):
        end.say("send", group, sender, COUNT, 1, 8)
        all_say(ends, "wait", sender, COUNT + 1)
    all_say(ends, "detach", group)
    for end in list(ends):
        end.close()
    print(f"ok     {len(ends)} processes, {group} {environment}", flush=True)


def two_hosts(link, group, **environment):
    """Several processes on each; a fresh process for each group."""
    exchange([End(link, host, qps, **environment) for host, qps in ((0, 1), (0, 2), (1, 1), (1, 3))],
             group, **environment)


def two_users(link):
    """Of different users on one host, in either order of coming."""
    for first, second in ((None, NOBODY), (NOBODY, None)):
        exchange([End(link, 0, 2, first), End(link, 0, 1, second), End(link, 0, 1, first)],
                 GROUPS[0], 5)


def many_groups(link):
    """One process in more groups than one socket can join."""
    member, sender = End(link, 0), End(link, 1)
    for i in range(MANY):
        member.say("attach", f"239.1.2.{i}")
    for i in range(MANY):
        # The member looks for the group it attached to last.
        member.say("attach", f"239.1.2.{i}")
        sender.say("send", f"239.1.2.{i}", 1, i, 1, 64)
        member.say("wait", 1, i + 1)
    # One more process, in one of them only: what is sent to the others is not for it.
    other = End(link, 0)
    other.say("attach", "239.1.2.49")
    sender.say("send", "239.1.2.7", 2, 0, 5, 64)
    sender.say("send", "239.1.2.49", 3, 0, 1, 64)
    other.say("wait", 3, 1)
    other.say("wait", 2, 0)
    for i in range(MANY):
        member.say("detach", f"239.1.2.{i}")
    other.say("detach", "239.1.2.49")
    for end in (member, sender, other):
        end.close()
    print(f"ok     one process in {MANY} groups", flush=True)


def perftest(link):
    """Its own multicast test, between hosts and on one. (In that of latency each side is in the group,
    and takes its own messages for answers.)"""
    cases = [(["ib_send_bw", "-F", "-c", "UD", "-g", "-n", "200", "-x", index, "-M",
               group.replace(".", ":")], "--between", link.names[0], to, "--host", "10.77.0.1")
             for group, index in PERFTEST for to in link.names]
    return pairs.run_table(cases)


def left(link):
    """Nobody has joined any more: the interface is in no group that was ours."""
    shown = subprocess.run(["ip", "-n", link.names[0], "maddress", "show", "dev", "eth0"],
                           check=True, stdout=subprocess.PIPE, text=True).stdout
    if "239." in shown or "ff0e" in shown:
        raise RuntimeError(shown)
    print("ok     no group is left joined", flush=True)


pairs.need("ib_send_bw")
netns.need()
BAD = 1
try:
    with netns.Link(1500) as link_of_two:
        for name in GROUPS:
            two_hosts(link_of_two, name)
        for name in GROUPS[:2]:
            two_hosts(link_of_two, name, VERBENA_CARRIER="udp")
        two_users(link_of_two)
        many_groups(link_of_two)
        left(link_of_two)
        BAD = perftest(link_of_two)
finally:
    for still in End.ends:
        still.process.kill()
        still.process.wait()
sys.exit(BAD)
