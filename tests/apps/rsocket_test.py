#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs over rsockets: rdmacm-utils' own, and socket programs with librspreload."""
import hashlib
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cmpairs
import netns
import pairs

pairs.need("rstream", "riostream", "rcopy", "udpong")
PRELOAD = os.path.join(cmpairs.BUILD, "lib", "rsocket", "librspreload.so.1")
RSTREAM, UDPONG, RCOPY = 7471, 7174, 7427

# An echo over Python's sockets: many clients of one server that waits with select or epoll.
ECHO_SERVER = """
import selectors, socket, sys
want = int(sys.argv[2])
at = socket.socket()
at.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
at.bind((sys.argv[1], 7790))
at.listen(16)
at.setblocking(False)
waiting = getattr(selectors, sys.argv[3])()
waiting.register(at, selectors.EVENT_READ)
ended = 0
while ended < want:
    for key, _ in waiting.select():
        if key.fileobj is at:
            got, _ = at.accept()
            got.setblocking(True)
            waiting.register(got, selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(65536)
        if data:
            key.fileobj.sendall(data)
        else:
            waiting.unregister(key.fileobj)
            key.fileobj.close()
            ended += 1
"""
ECHO_CLIENT = """
import os, socket, sys, threading
def one(number):
    data = bytes([number]) * 300000
    with socket.create_connection((sys.argv[1], 7790), timeout=60) as end:
        def send():
            end.sendall(data)
            end.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        got = b''.join(iter(lambda: end.recv(50000), b''))
        sender.join()
        if got != data:
            os._exit(1)
threads = [threading.Thread(target=one, args=(n,)) for n in range(int(sys.argv[2]))]
[t.start() for t in threads]
[t.join() for t in threads]
"""


def streams(address):
    """rstream and riostream, in every way to run them"""
    ways = (["-T", "b"], ["-T", "b", "-T", "v"], ["-T", "n", "-T", "v"],
            ["-T", "a", "-T", "b", "-T", "v"], ["-T", "a", "-T", "n"], ["-T", "r", "-T", "b"])
    for program in ("rstream", "riostream"):
        for way in ways:
            if program == "riostream" and "r" in way:
                continue
            more = ["-S", "50000", "-C", "20", "-I", "3", *way]
            yield program, more, [program, *more, "-b", address], [program, *more, "-s", address]
        for more in (["-S", "1", "-C", "100", "-I", "2", "-T", "b"],
                     ["-S", "3000000", "-C", "2", "-I", "1", "-T", "b", "-T", "v"],
                     ["-B", "4096", "-S", "20000", "-C", "10", "-I", "2", "-T", "b"],
                     ["-i", "0", "-S", "100", "-C", "20", "-I", "2", "-T", "b"],
                     ["-f", "ip", "-S", "100", "-C", "20", "-T", "b", "-I", "2"],
                     ["-k", "1", "-S", "100", "-C", "20", "-T", "b", "-I", "2"]):
            if program == "riostream" and more[0] in ("-k", "-i"):
                continue
            yield program, more, [program, *more, "-b", address], [program, *more, "-s", address]


def datagrams(address):
    """udpong; its client asks again for what is lost"""
    for more in (["-S", "1000", "-C", "200", "-T", "e", "-T", "b"],
                 ["-S", "64", "-C", "200", "-T", "b"], ["-S", "1500", "-C", "50", "-T", "b"],
                 ["-S", "200", "-C", "50", "-T", "a", "-T", "b"],
                 ["-S", "200", "-C", "50", "-T", "n"], ["-B", "100000", "-C", "50", "-T", "b"]):
        yield more, ["udpong", *more, "-b", address], ["udpong", *more, "-s", address]


def copied(folder):
    """A check that what came is what went"""
    def check(*_):
        digests = []
        for name in ("in", "out"):
            with open(os.path.join(folder, name), "rb") as file:
                digests.append(hashlib.sha256(file.read()).hexdigest())
        return "" if digests[0] == digests[1] else "the copy differs"
    return check


def preloaded(*argv):
    """A program on rsockets that knows nothing of them"""
    return ["env", f"LD_PRELOAD={PRELOAD}", *argv]


def sockets(table, where, address, note):
    """Ordinary socket programs"""
    for kind in ("SelectSelector", "EpollSelector", "PollSelector"):
        table.run(f"python3, {kind}{note}",
                  preloaded("python3", "-c", ECHO_SERVER, address, "5", kind),
                  preloaded("python3", "-c", ECHO_CLIENT, address, "5"), port=7790, where=where)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "in"), "wb") as file:
            file.write(random.Random(7).randbytes(3000001))
        if shutil.which("nc"):
            table.run(f"nc{note}",
                      ["sh", "-c", f"LD_PRELOAD={PRELOAD} exec nc -l {address} 7791 "
                       f">{folder}/out"],
                      ["sh", "-c", f"LD_PRELOAD={PRELOAD} exec nc -N {address} 7791 "
                       f"<{folder}/in"], port=7791, where=where, check=copied(folder))
    if shutil.which("iperf3"):
        for more in (["-n", "50M"], ["-n", "50M", "-R"], ["-n", "20M", "-P", "3"]):
            table.run(f"iperf3 {' '.join(more)}{note}",
                      preloaded("iperf3", "-s", "-1", "-B", address, "-p", "7792"),
                      preloaded("iperf3", "-c", address, "-p", "7792", *more), port=7792,
                      where=where)


def everything(table, address, where=(None, None), note="", nobody=False):
    """All of it, at one address"""
    for program, more, server, client in streams(address):
        table.run(f"{program} {' '.join(more)}{note}", server, client, port=RSTREAM, where=where,
                  nobody=nobody)
    for more, server, client in datagrams(address):
        table.run(f"udpong {' '.join(more)}{note}", server, client, port=UDPONG, where=where,
                  nobody=nobody, serves_on=True, ready=cmpairs.receives)
    if nobody:
        return
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "in"), "wb") as file:
            file.write(random.Random(8).randbytes(5000003))
        table.run(f"rcopy{note}", ["rcopy"],
                  ["rcopy", f"{folder}/in", f"{address}:{folder}/out"], port=RCOPY, where=where,
                  serves_on=True, check=copied(folder))
    sockets(table, where, address, note)


def main():
    """Within a host, as an ordinary user too, and between two"""
    table = cmpairs.Table()
    everything(table, "127.0.0.1")
    everything(table, "127.0.0.1", note=" (nobody)", nobody=True)
    if os.getuid() == 0:
        netns.need()
        with netns.Link() as link:
            everything(table, "10.77.0.1", tuple(link.names), " (two hosts)")
    table.finish()


main()
