#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs against Linux Soft-RoCE in a virtual machine, each side as server and
as client."""
import os
import subprocess
import sys
import time

import by_address
import guest as vm

LIMIT = 90
GROUP = "239.1.1.1"
VERBENA = [os.path.join(os.environ["VB_BUILD"], "bin", "verbena"), "run", "--"]


def perftest_gid(group):
    """An IPv4 group as perftest wants it."""
    return ":".join(["0"] * 10 + ["255", "255"] + group.split("."))


def cases():
    """Every operation of every service, sizes around the path MTU."""
    for gid in (0, 1):
        for size in (1, 1024, 1025, 4096):
            yield f"ibv_rc_pingpong -g {gid} -s {size} -n 20"
    for size in (1, 1024, 4097):
        yield f"ibv_uc_pingpong -g 1 -s {size} -n 20"
    for gid in (0, 1):
        yield f"ibv_ud_pingpong -g {gid} -s 1024 -n 20"
    yield "ibv_ud_pingpong -g 1 -s 1 -n 20"
    yield "ibv_srq_pingpong -g 1 -q 2 -n 20"
    for operation in ("send", "write", "read -o 16"):
        name, _, more = operation.partition(" ")
        for size in (1, 1000, 65536, 1048576):
            yield f"ib_{name}_bw -F -x 1 -u 18 -n 5 -s {size} {more}"
        yield f"ib_{name}_lat -F -x 1 -u 18 -n 20 -s 2 {more}"
    # Soft-RoCE takes 128 READs and atomics at a time: perftest asks as many of the other side.
    for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        yield f"ib_atomic_bw -F -x 1 -u 18 -n 20 -o 16 -A {kind}"
    yield "ib_atomic_lat -F -x 1 -u 18 -n 20 -o 16"
    for operation in ("send", "write"):
        yield f"ib_{operation}_lat -F -x 1 -u 18 -n 20 -s 60 -I 64"
        yield f"ib_{operation}_bw -F -x 1 -u 18 -n 5 -s 5000 -c UC"
    yield "ib_send_bw -F -x 1 -u 18 -n 5 -s 5000 --use-srq"
    yield "ib_send_bw -F -x 1 -u 18 -n 20 -s 1000 -c UD"
    yield "ib_send_lat -F -x 1 -u 18 -n 20 -e"
    yield "ib_write_bw -F -x 1 -u 18 -n 20 -q 4 -s 4096"
    # Each way on its own: who sends is in the group too, and would take its own for an answer.
    yield f"ib_send_bw -F -x 1 -n 20 -s 1000 -c UD -g -M {perftest_gid(GROUP)}"


def command(case, port, server, ours):
    """The words of one side."""
    device = "verbena0" if ours else "rxe0"
    words = [*case.split(), "-d", device, "-p", str(port)]
    return words + ([] if server else [vm.GUEST if ours else vm.HOST])


def server_here(guest, case, port):
    """Our server, their client. Returns what went wrong, or nothing."""
    server = subprocess.Popen(
        guest.on_host([*VERBENA, *command(case, port, True, True)]),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    code, said = None, ""
    try:
        listening = guest.on_host(["ss", "-Hltn", f"sport = :{port}"])
        vm.wait_for("server", LIMIT, lambda: subprocess.run(
            listening, check=True, stdout=subprocess.PIPE).stdout, server)
        code, said = guest.finish(guest.start(" ".join(command(case, port, False, False))))
        output, _ = server.communicate(timeout=LIMIT if not code else 2)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        server.kill()
        return (f"{error}\n--- client there: {code}\n{said}"
                f"--- server here:\n{server.communicate()[0]}")
    if code or server.returncode:
        return (f"--- client there: {code}\n{said}--- server here: {server.returncode}\n{output}")
    return ""


def server_there(guest, case, port):
    """Their server, our client."""
    # Soft-RoCE receives for a group what the machine has joined; nobody does that for perftest. As
    # long as it has the address, it cannot send to the group.
    joins = perftest_gid(GROUP) in case
    if joins:
        guest.run(f"ip addr add {GROUP}/32 dev eth0 autojoin")
    number = guest.start(f"timeout {LIMIT} " + " ".join(command(case, port, True, False)))
    guest.wait_listening(port)
    try:
        client = subprocess.run(
            guest.on_host([*VERBENA, *command(case, port, False, True)]), check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
        code, said = client.returncode, client.stdout
    except subprocess.TimeoutExpired as error:
        code, said = 124, str(error.stdout)
    if code:
        guest.run(f"pkill -f -- '-p {port}' || :")
    status, output = guest.finish(number)
    if joins:
        guest.run(f"ip addr del {GROUP}/32 dev eth0")
    if code or status:
        return f"--- client here: {code}\n{said}--- server there: {status}\n{output}"
    return ""


def exchanges():
    """(name, function of the guest) of every case in both directions."""
    port = 20000
    for case in cases():
        for way in (server_here, server_there):
            port += 1
            yield (f"{way.__name__}: {case}",
                   lambda guest, way=way, case=case, port=port: way(guest, case, port))
    for case in by_address.cases():
        for way in (by_address.server_here, by_address.server_there):
            yield (f"{way.__name__}: {case[1]}",
                   lambda guest, way=way, case=case: way(guest, case))


def main():
    """All of them, or those whose name has the argument in it."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    vm.need()
    failed, tried = [], 0
    with vm.Guest() as guest:
        for name, exchange in exchanges():
            if wanted not in name:
                continue
            tried += 1
            start = time.monotonic()
            wrong = exchange(guest)
            print(f"{'FAILED' if wrong else 'ok    '}  {time.monotonic() - start:5.2f} s  {name}",
                  flush=True)
            if wrong:
                failed.append(name)
                print(wrong)
    print(f"{tried} exchanges, {len(failed)} failed")
    return bool(failed) or not tried


if __name__ == "__main__":
    sys.exit(main())
