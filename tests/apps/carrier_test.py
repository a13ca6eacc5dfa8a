#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of tests/conform over UDP, in a network namespace: what a program sees does not depend on how
messages travel. Left out is what counts on a message being there when its sender has completed."""
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netns

WHOLE = ("ah", "content", "device", "domain", "memory", "modify", "query", "sqd", "strict", "teardown",
         "rdmacm.bind", "rdmacm.connect", "rdmacm.event", "rdmacm.params", "rdmacm.sync",
         "rdmacm.threads", "rdmacm.ud", "rdmacm.wrong")
PARTS = {
    "mcast": ("rules", "limits", "group_v4", "group_v6", "own_copies", "come_and_go", "two_groups"),
    "errors": ("all_faults", "one_process", "two_processes", "write_imm_access", "empty_messages",
               "silence", "late_peer", "rnr", "after_error", "killed_peer"),
    "ud": ("headers", "late_receives", "qkeys", "sender_errors", "absent_memory", "solicited"),
    "uc": ("late_receives", "receive_errors", "sender_errors", "send_ops"),
}
# One packet, or buffer of packets, in a hundred is lost on its way in.
LOSS = """
table inet loss {
    chain input {
        type filter hook input priority 0
        udp dport 4791 numgen random mod 100 < 1 counter drop
    }
}
"""


def run(link, name, only=None, why=""):
    """One test program, or one test of it."""
    start = time.monotonic()
    program = os.path.join(os.environ["VB_BUILD"], "tests", f"conform.{name}_test")
    environment = dict(os.environ, VERBENA_CARRIER="udp")
    if only:
        environment["VB_TEST_ONLY"] = f"test_{only}"
    done = subprocess.run(["ip", "netns", "exec", link.names[0], program], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    # A name that no test has would pass, too; and a program that does not know how to leave out.
    ran = "PASSED  ] " in done.stdout and "PASSED  ] 0 " not in done.stdout
    ran = ran and (not only or "PASSED  ] 1 test(s)" in done.stdout)
    good = done.returncode == 0 and ran
    print(f"{'ok    ' if good else 'FAILED'} {time.monotonic() - start:6.2f} s  {name} "
          f"{only or ''} {why}", flush=True)
    if not good:
        print(done.stdout)
    return not good


def lost(link):
    """How many the rule has dropped."""
    rules = subprocess.run(["ip", "netns", "exec", link.names[0], "nft", "list", "ruleset"],
                           check=True, stdout=subprocess.PIPE, text=True).stdout
    return int(rules.split("counter packets ")[1].split()[0])


netns.need()
os.environ["PATH"] += ":/usr/sbin:/sbin"
if not shutil.which("nft"):
    print("nft is not installed")
    sys.exit(77)
bad = 0
with netns.Link(1500) as link:
    for test in WHOLE:
        bad |= run(link, test)
    for test, parts in PARTS.items():
        for part in parts:
            bad |= run(link, test, part)
with netns.Link(9000) as link:
    bad |= run(link, "content", why="at MTU 9000")
    subprocess.run(["ip", "netns", "exec", link.names[0], "nft", "-f", "-"], input=LOSS, text=True,
                   check=True)
    for test in ("content", "rdmacm.params", "rdmacm.ud"):
        bad |= run(link, test, why="with loss")
    print(f"{lost(link)} packets or buffers were lost")
    bad |= lost(link) == 0
sys.exit(bad)
