# SPDX-License-Identifier: BSD-2-Clause
"""Exchanges of programs that find each other by address (librdmacm), with Linux Soft-RoCE."""
import os
import sys

import guest as vm

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cmpairs

LIMIT = 90
RPING, UCMA, PERFTEST = 7174, 7471, 18515


def cases():
    """(server's words, client's words, port, its space); ADDRESS is the server's."""
    for more in ("-C 5 -V", "-C 3 -V -S 4000", "-C 3 -V -q"):
        yield f"rping -s -a ADDRESS {more}", f"rping -c -a ADDRESS {more}", RPING, cmpairs.TCP
    for more in ("", "-c 5 -C 20 -S 3000", "-P ib"):
        yield (f"ucmatose -b ADDRESS {more}", f"ucmatose -s ADDRESS {more}", UCMA,
               0x13f if "ib" in more else cmpairs.TCP)
    for more in ("", "-c 3 -C 10 -S 1000"):
        yield f"udaddy -b ADDRESS {more}", f"udaddy -s ADDRESS {more}", RPING, cmpairs.UDP
    for tool in ("ib_send_bw -s 65536", "ib_write_lat -s 2", "ib_read_bw -o 16 -s 5000"):
        both = f"{tool} -F -R -x 1 -n 10"
        yield both, f"{both} ADDRESS", PERFTEST, cmpairs.TCP
    # Rsockets, theirs with ours. Not rstream -T a: rdma-core's rpoll says POLLHUP beside data that
    # is still to be read, and rstream takes that for a failure.
    for more in ("-S 1 -C 20 -I 2 -T b", "-S 5000 -C 20 -I 2 -T b -T v",
                 "-S 300000 -C 3 -I 1 -T b -T v", "-S 50000 -C 5 -I 2 -T n -T v",
                 "-B 8192 -S 20000 -C 10 -I 1 -T b -T v"):
        yield f"rstream {more} -b ADDRESS", f"rstream {more} -s ADDRESS", UCMA, cmpairs.TCP
    for more in ("-S 5000 -C 20 -I 2 -T b -T v", "-S 300000 -C 3 -I 1 -T b -T v"):
        yield f"riostream {more} -b ADDRESS", f"riostream {more} -s ADDRESS", UCMA, cmpairs.TCP


def patiently(once):
    """perftest's server listens anew for its second connection: its client may come before, is
    rejected ("error: 8") and gives up. Of a server in the slow guest that is four times of five."""
    def way(guest, case):
        for _ in range(40):
            wrong = once(guest, case)
            if "EVENT_REJECTED; error: 8" not in wrong:
                break
        return wrong
    way.__name__ = once.__name__
    return way


@patiently
def server_here(guest, case):
    """Our server, their client. What went wrong, or nothing"""
    server_words, client_words, port, space = case
    server = cmpairs.End(server_words.replace("ADDRESS", vm.HOST).split(), guest.netns)
    try:
        vm.wait_for("server", LIMIT, lambda: cmpairs.listens(guest.netns, space, port),
                    server.child)
        code, said = guest.finish(guest.start(client_words.replace("ADDRESS", vm.HOST)))
        status = server.wait(LIMIT if not code else 2)
    except RuntimeError as error:
        code, said, status = 1, str(error), 0
    finally:
        server.end()
    if code or status:
        return f"--- client there: {code}\n{said}--- server here: {status}\n{server.said()}"
    return ""


@patiently
def server_there(guest, case):
    """Their server, our client"""
    server_words, client_words, port, _ = case
    number = guest.start(f"timeout {LIMIT} {server_words.replace('ADDRESS', vm.GUEST)}")
    guest.run(f"until rdma resource show cm_id | grep LISTEN | grep -q ':{port}'; "
              "do sleep 0.05; done")
    client = cmpairs.End(client_words.replace("ADDRESS", vm.GUEST).split(), guest.netns)
    code = client.wait(LIMIT)
    if code:
        guest.run(f"pkill -x {server_words.split()[0]} || :")
    status, output = guest.finish(number)
    if code or status:
        return f"--- client here: {code}\n{client.said()}--- server there: {status}\n{output}"
    return ""
