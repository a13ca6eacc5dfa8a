#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A packet that a QP refuses holds up no answer: the one before it, read together with it, is
acknowledged though nothing else happens."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netns
import roce

PYTHON = "/usr/bin/python3"  # pyverbs is built for the system's own
ACK_REQ = 1 << 31
PATIENCE = 30

# A QP that receives, and does nothing of its own. Prints its number; ends with its input.
RECEIVER = """
import sys
import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SGE
ctx = Context(name="verbena0")
pd, cq = PD(ctx), CQ(ctx, 100)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_recv_wr=50)), QPAttr())
mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
for i in range(50):
    qp.post_recv(RecvWR(wr_id=i, num_sge=1, sg=[SGE(mr.buf, 4096, mr.lkey)]))
attr = QPAttr(port_num=1)
attr.dest_qp_num, attr.rq_psn, attr.path_mtu = 77, 0, e.IBV_MTU_1024
route = GlobalRoute(dgid=GID("0000:0000:0000:0000:0000:ffff:0a4d:0002"), sgid_index=1)
attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
qp.to_rtr(attr)
print(qp.qp_num, flush=True)
sys.stdin.read()
"""

# For each line: sends its packets, says so, and prints the first that comes back.
PEER = f"""
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: no identification
out.bind(("10.77.0.2", {roce.SPORT}))
back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
back.bind(("10.77.0.2", {roce.PORT}))
back.settimeout({PATIENCE})
for line in sys.stdin:
    for word in line.split():
        to, packet = word.split("/")
        out.sendto(bytes.fromhex(packet), (to, {roce.PORT}))
    print("sent", flush=True)
    print(back.recv(2048).hex(), flush=True)
"""


class End:
    """A python3 in a network namespace that is asked by lines."""

    def __init__(self, *command):
        self.child = subprocess.Popen(["ip", "netns", "exec", *command], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)

    def line(self):
        """What it says; it has ended where that is nothing."""
        return self.child.stdout.readline().strip()

    def ask(self, line):
        """Tell it something."""
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def close(self):
        """End it, stopped or not."""
        self.child.stdin.close()
        self.child.send_signal(signal.SIGCONT)
        self.child.terminate()
        self.child.wait()


def stop(pid):
    """Until all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    for thread in os.listdir(f"/proc/{pid}/task"):
        while True:
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "T":
                    break
            time.sleep(0.001)


def packets(qpn, psn):
    """One that is good, and one to another address of the port, which the QP refuses."""
    good = roce.packet("10.77.0.2", "10.77.0.1", roce.RC_SEND_ONLY, qpn, ACK_REQ | psn)
    other = roce.packet("10.77.0.2", "10.77.0.3", roce.RC_SEND_ONLY, qpn, psn + 1)
    return f"10.77.0.1/{good.hex()} 10.77.0.3/{other.hex()}"


def answers(receiver, peer):
    """Whether the answer to each good one comes."""
    qpn = int(receiver.line())
    for psn in range(20):
        stop(receiver.child.pid)
        peer.ask(packets(qpn, psn))
        if peer.line() != "sent":
            return f"the peer ended at {psn}"
        os.kill(receiver.child.pid, signal.SIGCONT)
        back = bytes.fromhex(peer.line())
        if not back:
            return f"no answer to {psn}"
        if back[0] != roce.RC_ACK or int.from_bytes(back[8:12], "big") & 0xffffff != psn:
            return f"to {psn} came {back.hex()}"
    return ""


if subprocess.run([PYTHON, "-c", "import pyverbs.device"], check=False,
                  stderr=subprocess.DEVNULL).returncode:
    print("pyverbs is not installed (python3-pyverbs)")
    sys.exit(77)
netns.need()
VERBENA = os.path.join(os.environ["VB_BUILD"], "bin", "verbena")
with netns.Link() as LINK:
    LINK.ip("-n", LINK.names[0], "addr", "add", "10.77.0.3/24", "dev", "eth0")
    ENDS = [End(LINK.names[0], VERBENA, "run", "--", PYTHON, "-c", RECEIVER),
            End(LINK.names[1], PYTHON, "-c", PEER)]
    try:
        wrong = answers(*ENDS)
    finally:
        for end in ENDS:
            end.close()
print(f"FAILED {wrong}" if wrong else "ok     answers before refused packets")
sys.exit(bool(wrong))
