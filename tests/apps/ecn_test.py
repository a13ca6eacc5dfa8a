#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Marks of congestion between hosts: packets of RC may be marked, who gets one tells the sender, and
the sender slows down; counted at both ends."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import hosts
import netns
import pairs
import roce

MANY = 1 << 40
# Of the packets that leave here and may be marked, some are. What may not is counted beside them.
RULES = """
table inet marks {
    counter marked { }
    counter class { }
    counter other { }
    chain output {
        type filter hook output priority 0
        udp dport 4791 ip dscp 26 counter name class
        udp dport 4791 ip ecn not-ect counter name other
        udp dport 4791 ip ecn ect0 numgen random mod 10 < 3 counter name marked ip ecn set ce
        udp dport 4791 ip6 ecn ect0 numgen random mod 10 < 3 counter name marked ip6 ecn set ce
    }
}
"""
failed = 0


def check(what, wrong):
    """One line of the result."""
    global failed
    print(f"{'FAILED' if wrong else 'ok    '} {what} {wrong or ''}", flush=True)
    failed += bool(wrong)


def inside(name, *argv, **options):
    """Run a command in a namespace."""
    return subprocess.run(["ip", "netns", "exec", name, *argv], check=True, text=True,
                          stdout=subprocess.PIPE, **options).stdout


def counter(name, which):
    """What a rule of a namespace has counted since the last time."""
    return int(re.search(r"packets (\d+)", inside(
        name, "nft", "reset", "counter", "inet", "marks", which)).group(1))


def run(*argv, extra=()):
    """One pair; the server first."""
    good, output = pairs.run_pair(argv, "--between", *link.names, "--host", "10.77.0.1", *extra)
    if not good:
        print(output)
        sys.exit(1)


def expect(what, marked, **counters):
    """What the last run left at the server and at the client: the counters' names begin with s_
    and c_; marked says whether the rules were to mark anything."""
    wrong = []
    for host, end, name in ((server, "s_", link.names[0]), (client, "c_", link.names[1])):
        grown = host.grown()
        wrong.append(hosts.wrong(grown, **{k[2:]: v for k, v in counters.items()
                                           if k.startswith(end)}))
        # None is told of more often than it was marked, none is heard that was not sent.
        if grown["np_cnp_sent"] > grown["np_ecn_marked_roce_packets"]:
            wrong.append("more answers than marks")
        seen = counter(name, "marked")
        if end == "c_" and bool(seen) != marked:
            wrong.append(f"{seen} marked")
    check(what, "; ".join(filter(None, wrong)))


NONE = {end + name: 0 for end in ("s_", "c_")
        for name in ("np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled",
                     "rp_cnp_ignored")}


def programs():
    """Marks on the way there, on the way back, and none where nobody would slow down."""
    some = (1, MANY)
    run("ib_write_bw", "-F", "-x", "1", "-u", "18", "-s", "65536", "-n", "300")
    expect("WRITEs", True, **{**NONE, "s_np_cnp_sent": some, "s_np_ecn_marked_roce_packets": some,
                              "c_rp_cnp_handled": some, "c_np_ecn_marked_roce_packets": (0, MANY)})
    # The other way the data are the server's, whose QP asks for nothing and has no window.
    run("ib_read_bw", "-F", "-x", "1", "-u", "18", "-s", "65536", "-n", "300")
    expect("READs", True, **{**NONE, "c_np_cnp_sent": some, "c_np_ecn_marked_roce_packets": some,
                             "s_rp_cnp_ignored": some, "s_np_ecn_marked_roce_packets": (0, MANY)})
    run("ib_send_bw", "-F", "-b", "-x", "0", "-u", "18", "-s", "65536", "-n", "200")
    expect("SENDs over IPv6", True, s_np_cnp_sent=some, c_np_cnp_sent=some,
           s_rp_cnp_handled=some, c_rp_cnp_handled=some)
    run("ib_write_bw", "-F", "-x", "1", "-s", "65536", "-n", "100", "-c", "UC")
    expect("UC", False, **NONE)
    run("ib_write_bw", "-F", "-x", "1", "-u", "18", "-s", "65536", "-n", "100",
        extra=("--env", "VERBENA_ECN=0"))
    expect("switched off", False, **NONE)
    for name in link.names:
        counter(name, "other")
    # The class is the program's, but for the two bits.
    run("ib_write_bw", "-F", "-x", "1", "-u", "18", "-s", "4096", "-n", "100", "--tclass=107")
    client.grown()
    server.grown()
    check("the class stays", not counter(link.names[1], "class") or
          f"{counter(link.names[1], 'other')} left unmarkable" * (
              counter(link.names[1], "other") > 0))


def alive(ends):
    """Whether all of these processes run."""
    return all(end.poll() is None for end in ends)


def by_hand():
    """From others: to a QP from its peer it counts, from somebody else it does not, and to no QP
    there is nobody."""
    one, two = link.names
    command = [os.path.join(os.environ["VB_BUILD"], "bin", "verbena"), "run", "--", "stdbuf", "-oL",
               "ib_send_lat", "-F", "-x", "1", "-u", "18", "-n", "50000000", "-p", "18600"]
    link.ip("-n", two, "addr", "add", "10.77.0.3/24", "dev", "eth0")
    ends = [subprocess.Popen(["ip", "netns", "exec", one, *command], stdout=subprocess.PIPE,
                             text=True)]
    try:
        while inside(one, "ss", "-Hltn", "sport", "=", ":18600") == "" and alive(ends):
            pass
        ends.append(subprocess.Popen(["ip", "netns", "exec", two, *command, "10.77.0.1"],
                                     stdout=subprocess.DEVNULL))
        line = ""
        while "local address" not in line and alive(ends):
            line = ends[0].stdout.readline()
        qpn = int(re.search(r"QPN (0x[0-9a-f]+)", line).group(1), 16)
        # Connected.
        while server.read()["rcvd_pkts"] == 0 and alive(ends):
            pass
        for what, source, to, want in (
                ("from the peer", "10.77.0.2", qpn, {"rp_cnp_handled": 1, "rp_cnp_ignored": 0}),
                ("from another", "10.77.0.3", qpn, {"rp_cnp_handled": 0, "rp_cnp_ignored": 1}),
                ("to no QP", "10.77.0.2", qpn ^ 0x40, {"rp_cnp_handled": 0, "rp_cnp_ignored": 0})):
            server.grown()
            packets = server.before["rcvd_pkts"]
            inside(two, sys.executable, "-c", roce.SEND, source, "10.77.0.1",
                   roce.packet(source, "10.77.0.1", roce.CNP, to, rest=bytes(16), flags=0x40).hex())
            # What was sent after it has come, so it has too.
            while server.read()["rcvd_pkts"] < packets + 2000 and alive(ends):
                pass
            check(f"one {what}", hosts.wrong(server.grown(), rx_icrc_encapsulated=0, **want))
        check("the connection lives", not alive(ends))
    finally:
        for end in ends:
            end.kill()
            end.wait()


pairs.need("ib_send_lat", "ib_send_bw", "ibv_asyncwatch", "ib_write_bw", "ib_read_bw", "ss", "stdbuf")
netns.need()
os.environ["PATH"] += ":/usr/sbin:/sbin"
if not shutil.which("nft"):
    print("nft is not installed")
    sys.exit(77)
with netns.Link(1500) as link:
    server, client = (hosts.Host(name) for name in link.names)
    try:
        by_hand()
        for end in link.names:
            inside(end, "nft", "-f", "-", input=RULES)
        server.grown()
        client.grown()
        programs()
    finally:
        server.close()
        client.close()
sys.exit(1 if failed else 0)
