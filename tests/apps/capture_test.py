#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Captures of unmodified programs, within the host and between hosts, as tshark reads them."""
import collections
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netns
import pairs

pairs.need("ibv_rc_pingpong", "ibv_ud_pingpong", "ib_read_lat", "tshark")
FIELDS = ("infiniband.bth.opcode", "infiniband.invariant.crc", "frame.time_epoch")
# What tshark takes a payload of this size or that for.
NOT_THERE = ("smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "infiniband_sdp")


def opcodes(file):
    """How often each opcode stands in a capture; every packet is whole and none before its time."""
    read = subprocess.run(
        ["tshark", "-r", file, "-T", "fields", *(word for f in FIELDS for word in ("-e", f)),
         *(word for name in NOT_THERE for word in ("--disable-protocol", name))],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    count, last = collections.Counter(), 0.0
    for line in read.stdout.splitlines():
        opcode, icrc, time = line.split("\t")
        assert icrc and float(time) >= last, line
        last = float(time)
        count[int(opcode)] += 1
    return dict(count)


# 20 messages of each way; a middle packet for every full MTU between the first and the last.
CASES = [
    (["ibv_rc_pingpong", "-g", "1", "-n", "20", "-s", "1024"], {4: 40, 17: 40}),
    (["ibv_rc_pingpong", "-g", "0", "-n", "20", "-s", "4000"], {0: 40, 1: 80, 2: 40, 17: 40}),
    (["ibv_uc_pingpong", "-g", "1", "-n", "20", "-s", "2048"], {32: 40, 34: 40}),
    (["ibv_ud_pingpong", "-g", "1", "-n", "20", "-s", "512"], {100: 40}),
    (["ib_read_lat", "-F", "-n", "20", "-x", "1", "-s", "8"], {12: 20, 16: 20}),
    (["ib_atomic_lat", "-F", "-n", "20", "-x", "1"], {18: 20, 20: 20}),
]


def run(argv, want, *options, copies=1):
    """One pair into one file. @copies: of each packet, where both ends see it."""
    with tempfile.NamedTemporaryFile(suffix=".pcapng") as file:
        good, output = pairs.run_pair(argv, *options, "--env", f"VERBENA_PCAP={file.name}")
        if not good:
            print(output)
            return False
        got = opcodes(file.name)
    fine = set(got) == set(want)
    for opcode in want:
        # RC asks again where an answer is late, and an acknowledgement may stand for several.
        fine = fine and (got[opcode] == want[opcode] * copies or opcode == 17 or
                         (opcode < 32 and got[opcode] > want[opcode] * copies))
    print(f"{'ok    ' if fine else 'FAILED'} {' '.join(argv)} {' '.join(options)}: {got}")
    return fine


def run_without():
    """A file that holds something else stays as it is; the program runs, and is told."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(b"something else")
        file.flush()
        good, output = pairs.run_pair(CASES[0][0], "--show", "--env", "VERBENA_EXPLAIN=1",
                                      "--env", f"VERBENA_PCAP={file.name}")
        with open(file.name, "rb") as again:
            fine = good and "[capture-file]" in output and again.read() == b"something else"
    print(f"{'ok    ' if fine else 'FAILED'} a file that is no capture")
    return fine


bad = not run_without()
for command, expected in CASES:
    bad |= not run(command, expected)
if bad:
    sys.exit(1)
netns.need()
with netns.Link(1500) as link:
    for command, expected in CASES:
        bad |= not run(command, expected, "--between", *link.names, "--host", "10.77.0.1",
                       copies=2)
sys.exit(bad)
