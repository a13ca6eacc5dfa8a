#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A process that closes its socket on port 4791 hands over what waits there for others.

It is held just before that. Meanwhile packets come for a process of which only the socket is there
that such packets are handed to.
"""
import ctypes
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]
import netns
import roce
import workers

PACKETS = 100
BLOCK = 0x777
BLOCK_BITS = 12
NAMESPACE = 0x40000000  # CLONE_NEWNET


def block_socket(namespace):
    """Bound to the name that stands for a block (vb_block_address()), in a namespace."""
    with open(f"/run/netns/{namespace}", encoding="utf-8") as there, \
            open("/proc/self/ns/net", encoding="utf-8") as here:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(there.fileno(), NAMESPACE):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            end.bind(f"\0verbena/block/{BLOCK}")
        finally:
            libc.setns(here.fileno(), NAMESPACE)
    return end


netns.need()
with netns.Link() as link, workers.Bench() as bench:
    inside = ("ip", "netns", "exec", link.names[0])
    leaving = bench.worker(prefix=inside, VERBENA_CARRIER="udp",
                           VERBENA_TEST_STEP="WIRE_CLOSES:stop:1")
    leaving.open("links=2")
    # So that it has its socket.
    workers.connect(leaving, leaving, count=1, at=1)
    other = block_socket(link.names[0])
    leaving.say("quit")
    if not leaving.stopped():
        raise AssertionError(f"not held: {leaving.printed()}")
    packets = [roce.packet("10.77.0.2", "10.77.0.1", roce.RC_SEND_ONLY, BLOCK << BLOCK_BITS | 5, psn)
               for psn in range(PACKETS)]
    subprocess.run(["ip", "netns", "exec", link.names[1], sys.executable, "-c", roce.SEND,
                    "10.77.0.2", "10.77.0.1", *(packet.hex() for packet in packets)], check=True)
    leaving.resume()
    other.settimeout(workers.PATIENCE)
    came = b""
    while packets[-1] not in came:
        came += other.recv(1 << 16)
    missing = [psn for psn, packet in enumerate(packets) if packet not in came]
    if missing:
        raise AssertionError(f"not handed over: {missing}")
    if leaving.process.wait(workers.PATIENCE):
        raise AssertionError(f"leaving: {leaving.process.returncode} {leaving.printed()}")
print(f"{PACKETS} packets that waited for another were handed over")
