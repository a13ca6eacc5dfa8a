#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of tests/conform with their two processes on two hosts, and what programs of the field do there
with sizes, path MTUs, and a server that dies."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cmpairs
import netns
import pairs

pairs.need("ibv_rc_pingpong", "ibv_uc_pingpong", "ib_write_bw", "ib_write_lat", "tshark",
           "rping")
BUILD = os.environ["VB_BUILD"]
VERBENA = [os.path.join(BUILD, "bin", "verbena"), "run", "--"]
# Program, test, and the case of the public reports that it is.
PARTS = (
    ("gid_holes", "holes", "5"),
    ("content", "two_processes", "16, 17: RC"), ("content", "mtus", "16: RC"),
    ("content", "key_bases", ""), ("content", "atomics", ""), ("content", "many", ""),
    ("uc", "two_processes", "17: UC"),
    ("errors", "two_processes", "47"), ("errors", "write_imm_access", "47"),
    ("errors", "empty_messages", ""), ("errors", "silence", ""), ("errors", "late_peer", ""),
    ("errors", "rnr", ""), ("errors", "after_error", ""), ("errors", "killed_peer", "23"),
    ("cq_overrun", "receives", "42"),
)
# Who dies there, with connections of librdmacm in every state; the names of the tests as they are.
DEATHS = (
    *(("rdmacm.processes", part) for part in (
        "the_other_rejects", "the_other_is_killed", "the_other_is_killed_while_a_child_holds_on",
        "the_other_exits", "one_of_two_is_killed", "clients_die", "datagrams_between_processes")),
    ("rdmacm.kill", "askers_die"), ("rdmacm.kill", "those_asked_die"),
)
SIZES = (1023, 1024, 1025, 1900, 2000, 65535, 65536, 65537)


def inside(name):
    """What runs a command in a namespace."""
    return ["ip", "netns", "exec", name]


def say(good, what, why=""):
    """One line; 1 where it is not good."""
    print(f"{'ok    ' if good else 'FAILED'} {what}{'' if good else f': {why}'}", flush=True)
    return not good


def run_part(link, program, part, case):
    """One test whose second process is on the other host."""
    start = time.monotonic()
    environment = dict(os.environ, VB_TEST_ONLY=part, VB_ROUNDS="5",
                       VB_TEST_OTHER=f"/run/netns/{link.names[1]}")
    # The device as files, too.
    done = subprocess.run([*inside(link.names[0]), *VERBENA,
                           os.path.join(BUILD, "tests", f"conform.{program}_test")],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return say(done.returncode == 0 and "PASSED  ] 1 test(s)" in done.stdout,
               f"{time.monotonic() - start:6.2f} s  {program} {part}"
               f"{case and f'  case {case}'}",
               done.stdout)


def sizes():
    """Cases 16 and 17 with the programs they were reported with; pingpong looks at what comes."""
    for mtu in ("256", "512", "1024"):
        for size in SIZES:
            yield (["ibv_rc_pingpong", "-g", "1", "-m", mtu, "-c", "-s", str(size), "-n", "5"],)
    for size in SIZES:
        for service in ("RC", "UC"):
            yield (["ib_write_lat", "-F", "-c", service, "-s", str(size), "-n", "5"],)
    for service in ("RC", "UC"):
        for size in ("65536", "65537", "8388608"):
            yield (["ib_write_bw", "-F", "-c", service, "-s", size, "-n", "5", "-u", "18"],)


def beyond(link):
    """Case 16: a path MTU larger than the interface's is refused, at once and with the reason."""
    between = ("--between", *link.names, "--host", "10.77.0.1")
    program = ["ibv_rc_pingpong", "-g", "1", "-m", "4096", "-n", "5"]
    good, output = pairs.run_pair(program, *between, "--because", "modify-qp-value")
    return say(good, "path MTU 4096 on an interface of 1500", output)


class Ends:
    """ib_write_bw that goes on until it is told otherwise; the server on the first host."""

    def __init__(self, link, *more):
        argv = ["ib_write_bw", "-F", "-D", "60", "-s", "65536", "-u", "12", *more]
        self.server = self.start(inside(link.names[0]) + VERBENA + argv)
        self.pid = self.server.pid
        until = time.monotonic() + 30
        listens = [*inside(link.names[0]), "sh", "-c",
                   "grep -q ':4971 .* 0A ' /proc/net/tcp /proc/net/tcp6"]
        while subprocess.run(listens, check=False).returncode and time.monotonic() < until:
            time.sleep(0.02)
        self.client = self.start(inside(link.names[1]) + VERBENA + argv + ["10.77.0.1"])

    @staticmethod
    def start(argv):
        """One end."""
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=dict(os.environ, VERBENA_EXPLAIN="1"))


def packets(link):
    """What the second host's interface has sent."""
    done = subprocess.run([*inside(link.names[1]), "cat", "/proc/net/dev"], check=True,
                          stdout=subprocess.PIPE, text=True)
    return int(re.search(r"eth0:\s*(.*)", done.stdout).group(1).split()[9])


def killed(link):
    """Case 23: the server of a running ib_write_bw is killed: status 12 first."""
    ends = Ends(link)
    try:
        before = packets(link)
        while packets(link) < before + 1000 and ends.client.poll() is None:
            time.sleep(0.02)
        ends.server.send_signal(signal.SIGKILL)
        output, _ = ends.client.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        ends.client.kill()
        output, _ = ends.client.communicate()
        return say(False, "a killed server", f"the client goes on\n{output}")
    finally:
        ends.server.kill()
        ends.server.communicate()
    # perftest says the first status and ends.
    good = ends.client.returncode > 0 and "Failed status 12" in output
    good = good and output.count("[wc-retry-exceeded]") <= 1
    return say(good, "a killed server of ib_write_bw, case 23", output)


def migration_bits(link):
    """Case 51: MigReq is set in requests and acknowledgements, as adapters send it."""
    with tempfile.NamedTemporaryFile(suffix=".pcapng") as file:
        good, output = pairs.run_pair(["ibv_rc_pingpong", "-g", "1", "-n", "20", "-s", "3000"],
                                      "--between", *link.names, "--host", "10.77.0.1", "--env",
                                      f"VERBENA_PCAP={file.name}")
        read = subprocess.run(["tshark", "-r", file.name, "-T", "fields", "-e",
                               "infiniband.bth.opcode", "-e", "infiniband.bth.m"], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    seen = set(read.stdout.split("\n")) - {""}
    # First, middle, last, acknowledgement; tshark writes 1 or True.
    good = good and {line.split("\t")[0] for line in seen} == {"0", "1", "2", "17"}
    good = good and all(line.split("\t")[1] in ("1", "True") for line in seen)
    return say(good, f"MigReq, case 51: {sorted(seen)}", output)


def udp_ports(name):
    """Those that connection management may send from, on a host."""
    rows = subprocess.run([*inside(name), "cat", "/proc/net/udp"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.splitlines()[1:]
    ports = {int(row.split()[1].split(":")[1], 16) for row in rows}
    return [port for port in ports if port >= 0xc000]


# Says by ICMP, to the host of argv[1], that nobody has port 4791 at argv[2], of packets from the ports
# that follow: as who has not seen one would.
FORGE = """
import socket, struct, sys
def check(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    return 0xffff - (total % 0xffff or 0xffff)
to, peer = (socket.inet_aton(word) for word in sys.argv[1:3])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
for port in map(int, sys.argv[3:]):
    data = bytes.fromhex("64ffffff0000000180000000") + bytes(268)
    quote = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(data), 0, 0x4000, 64, 17, 0, to, peer)
    quote += struct.pack("!HHHH", port, 4791, 8 + len(data), 0) + data
    sum16 = check(struct.pack("!BBHI", 3, 3, 0, 0) + quote)
    raw.sendto(struct.pack("!BBHI", 3, 3, sum16, 0) + quote, (sys.argv[1], 0))
"""


def forged_refusals(link):
    """Who says that a living host is dead ends nobody's connections to it."""
    one, two = link.names
    server = cmpairs.End(["rping", "-s", "-P"], one)
    client = None
    try:
        while not cmpairs.listens(one, cmpairs.TCP, 7174) and server.child.poll() is None:
            time.sleep(0.02)
        client = cmpairs.End(["rping", "-c", "-a", "10.77.0.1"], two)
        # As long as two messages of management take, and the same again.
        until = time.monotonic() + 4
        while time.monotonic() < until and client.child.poll() is None:
            subprocess.run([*inside(one), sys.executable, "-c", FORGE, "10.77.0.2", "10.77.0.1",
                            *map(str, udp_ports(two))], check=True)
            time.sleep(0.1)
        before = packets(link)
        while client.child.poll() is None and packets(link) < before + 1000:
            time.sleep(0.02)
        good = client.child.poll() is None
    finally:
        for end in (server, client):
            if end:
                end.kill()
    return say(good, "forged refusals", client.said() if client else server.said())


netns.need()
bad = 0
with netns.Link(1500) as between_hosts:
    for name, test, report in PARTS:
        bad += run_part(between_hosts, name, f"test_{test}", report)
    # A kernel refuses what one host sends it once a second; here so many die.
    for name in between_hosts.names:
        subprocess.run([*inside(name), "sh", "-c", "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit"],
                       check=True)
    bad += forged_refusals(between_hosts)
    for name, test in DEATHS:
        bad += run_part(between_hosts, name, test, "")
    bad += pairs.run_table(list(sizes()), "--between", *between_hosts.names, "--host",
                           "10.77.0.1")
    bad += beyond(between_hosts)
    bad += killed(between_hosts)
    bad += migration_bits(between_hosts)
sys.exit(1 if bad else 0)
