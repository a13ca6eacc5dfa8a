# SPDX-License-Identifier: BSD-2-Clause
"""The programs of rdmacm-utils, each with its ways to run: for tests/apps and tests/soak."""
import re

import cmpairs

RPING, UCMA, PERFTEST, FIO = 7174, 7471, 18515, 7000
IB = 0x13f
JOB = ["--thread", "--ioengine=rdma", f"--port={FIO}", "--bs=64k", "--size=16m", "--iodepth=8"]


def cases(address, other=None):
    """(name, server, client, options of cmpairs.run) for one address of the server

    other: the client's, where that is another host
    """
    def rping(*more):
        return (f"rping {' '.join(more)}", ["rping", "-s", "-a", address, *more],
                ["rping", "-c", "-a", address, *more], {"port": RPING})

    yield rping("-C", "10")
    yield rping("-C", "10", "-V", "-v")
    yield rping("-C", "5", "-V", "-S", "23")
    yield rping("-C", "5", "-V", "-S", "65000")
    yield rping("-C", "10", "-V", "-q")
    yield ("rping, the server persistent", ["rping", "-s", "-P", "-a", address],
           ["rping", "-c", "-C", "10", "-V", "-a", address], {"port": RPING, "serves_on": True})
    for more in ([], ["-c", "10"], ["-C", "100", "-S", "4096"], ["-P", "ib"], ["-m"],
                 ["-t", "32"], ["-a", "14"]):
        both = [word for word in more if word not in ("-t", "32", "-a", "14")]
        yield (f"ucmatose {' '.join(more)}", ["ucmatose", "-b", address, *both],
               ["ucmatose", "-s", address, *more],
               {"port": UCMA, "space": IB if "ib" in more else cmpairs.TCP})
    for more in ([], ["-c", "4"], ["-C", "20", "-S", "1000"], ["-p", "0x2"]):
        yield (f"udaddy {' '.join(more)}", ["udaddy", "-b", address, *more],
               ["udaddy", "-s", address, *more],
               {"port": RPING, "space": 2 if "0x2" in more else cmpairs.UDP})
    if address not in ("127.0.0.1", "::1"):
        group = "ff05::7:1" if ":" in address else "239.1.2.1"
        mckey = ["mckey", "-m", group, "-b"]
        for more in ([], ["-c", "2", "-C", "20"], ["-o"]):
            yield (f"mckey {' '.join(more)}", [*mckey, address, *(more if "-o" not in more else [])],
                   [*mckey, other or address, "-s", *more], {"ready": cmpairs.takes_part})
    yield ("cmtime -c 50", ["cmtime", "-b", address, "-c", "50"],
           ["cmtime", "-s", address, "-c", "50"], {"port": UCMA, "serves_on": True})
    yield ("rdma_client", ["rdma_server", "-s", address], ["rdma_client", "-s", address],
           {"port": UCMA})
    if ":" in address:
        return  # rdma_xserver takes the first wildcard address, which is IPv4's
    yield ("rdma_xclient", ["rdma_xserver"], ["rdma_xclient", "-s", address], {"port": UCMA})


def others(address):
    """perftest with -R, qperf with -cm1, fio's rdma engine; as above, for an IPv4 address"""
    for operation in ("send", "write", "read", "atomic"):
        for measure in ("bw", "lat"):
            both = [f"ib_{operation}_{measure}", "-F", "-R", "-n", "200"]
            yield (" ".join(both), both, [*both, address], {"port": PERFTEST})
    for more in (["-q", "8"], ["-b", "-e", "-q", "4"]):
        both = ["ib_send_bw", "-F", "-R", "-n", "200", *more]
        yield (" ".join(both), both, [*both, address], {"port": PERFTEST})
    both = ["ib_send_bw", "-F", "-R", "-c", "UD", "-s", "1024", "-n", "200"]
    yield (" ".join(both), both, [*both, address], {"port": PERFTEST})
    for test in ("rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_write_lat", "rc_rdma_read_bw",
                 "rc_compare_swap_mr", "ver_rc_fetch_add"):
        yield (f"qperf -cm1 {test}", ["qperf"], ["qperf", "-cm1", "-t", "1", address, test],
               {"port": 19765, "ready": cmpairs.accepts, "serves_on": True})
    for verb in ("write", "read", "send"):
        yield (f"fio, {verb}", ["fio", "--name=receiver", "--rw=read", *JOB],
               ["fio", "--name=sender", "--rw=write", *JOB, f"--verb={verb}",
                f"--hostname={address}"],
               {"port": FIO, "check": same_amount if verb == "send" else whole_amount})


def same_amount(server, client):
    """What is wrong where fio's two ends have not moved the same number of bytes"""
    found = [re.search(r"(?:READ|WRITE):.* io=(\S+)", said) for said in (server, client)]
    if not all(found):
        return "no summary"
    one, other = (match.group(1) for match in found)
    return "" if one == other else f"{one} and {other}"


def whole_amount(_, client):
    """The same where only the client counts: of WRITEs and READs the server sees nothing"""
    found = re.search(r"(?:READ|WRITE):.* io=16.0MiB", client)
    return "" if found else "not 16 MiB"
