#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Counters as files, after programs whose packets are known: within the host and between hosts."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cmpairs
import hosts
import netns
import pairs
import roce

pairs.need("ibv_asyncwatch", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
           "ib_read_lat", "ib_write_bw", "ib_atomic_lat", "rping")
netns.need()
failed = 0


def check(what, got, **want):
    """Each counter as it should be."""
    global failed
    wrong = hosts.wrong(got, **want)
    print(f"{'FAILED' if wrong else 'ok    '} {what} {wrong}")
    failed += bool(wrong)


def run(*argv, between):
    """One pair; the server first."""
    good, output = pairs.run_pair(argv, "--between", *between, "--host", "10.77.0.1")
    if not good:
        print(output)
        sys.exit(1)


MANY = 1 << 40
with netns.Link() as link:
    one, two = (hosts.Host(name) for name in link.names)
    try:
        one.grown()
        two.grown()
        # 20 messages of two packets each way, and nothing else.
        run("ibv_uc_pingpong", "-g", "1", "-n", "20", "-s", "2048", between=link.names)
        for host in (one, two):
            check("UC between hosts", host.grown(), sent_pkts=40, rcvd_pkts=40, rdma_sends=20,
                  rdma_recvs=20, port_xmit_data=10240, port_rcv_data=10240, port_xmit_packets=40,
                  port_rcv_packets=40, rx_icrc_encapsulated=0, duplicate_request=0)
        run("ibv_ud_pingpong", "-g", "1", "-n", "20", "-s", "512", between=link.names)
        for host in (one, two):
            check("UD between hosts", host.grown(), sent_pkts=20, rcvd_pkts=20, rdma_sends=20,
                  rdma_recvs=20, port_xmit_data=2560, port_xmit_discards=0)
        # RC repeats what is late; each message counts once all the same.
        run("ibv_rc_pingpong", "-g", "1", "-n", "20", "-s", "2048", between=link.names)
        for host in (one, two):
            check("RC between hosts", host.grown(), sent_pkts=(60, MANY), rcvd_pkts=(60, MANY),
                  rdma_sends=20, rdma_recvs=20, port_xmit_data=(10240, MANY))
        run("ib_read_lat", "-F", "-n", "20", between=link.names)
        check("READs", one.grown(), rx_read_requests=20, rx_write_requests=0, rdma_recvs=0)
        check("READs", two.grown(), rx_read_requests=0)
        run("ib_atomic_lat", "-F", "-n", "20", between=link.names)
        check("atomics", one.grown(), rx_atomic_requests=20)
        two.grown()
        run("ib_write_bw", "-F", "-n", "20", "-s", "8", between=link.names)
        check("WRITEs", one.grown(), rx_write_requests=20)
        # By calls within the host both ends count in one place.
        two.grown()
        run("ibv_rc_pingpong", "-g", "1", "-n", "20", "-s", "2048",
            between=(link.names[0], link.names[0]))
        check("RC within the host", one.grown(), sent_pkts=120, rcvd_pkts=120, rdma_sends=40,
              rdma_recvs=40, port_xmit_data=20480)
        check("the other host", two.grown(), sent_pkts=0, rcvd_pkts=0)
        # Two WRITEs that their receiver refuses: it fails with its sender, whatever carries them.
        program = os.path.join(os.environ["VB_BUILD"], "tests", "conform.errors_test")
        for carrier in ("local", "udp"):
            subprocess.run(["ip", "netns", "exec", link.names[0], program], check=True,
                           env=dict(os.environ, VERBENA_CARRIER=carrier,
                                    VB_TEST_ONLY="test_write_imm_access"),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            check(f"refused, carrier {carrier}", one.grown(), req_cqe_error=2,
                  req_remote_access_errors=2, resp_cqe_error=2, resp_remote_access_errors=2)
        # What is damaged, and what is whole and no packet.
        server = cmpairs.End(["rping", "-s", "-P"], link.names[0])
        while not cmpairs.listens(link.names[0], cmpairs.TCP, 7174):
            time.sleep(0.02)
        one.grown()
        bad = [roce.packet("10.77.0.2", "10.77.0.1", opcode, 5).hex() for opcode in (0xff, 0x3f)]
        bad.append(bad[0][:-2] + f"{int(bad[0][-2:], 16) ^ 1:02x}")
        subprocess.run(["ip", "netns", "exec", link.names[1], sys.executable, "-c", roce.SEND,
                        "10.77.0.2", "10.77.0.1", *bad], check=True)
        got = one.grown()
        while got["port_rcv_errors"] < 3 and server.child.poll() is None:
            time.sleep(0.02)
            got = {name: got[name] + more for name, more in one.grown().items()}
        check("bad packets", got, port_rcv_errors=3, rx_icrc_encapsulated=1, rcvd_pkts=0)
        server.kill()
    finally:
        one.close()
        two.close()
sys.exit(1 if failed else 0)
