# SPDX-License-Identifier: BSD-2-Clause
"""The programs of rdmacm-utils, each with its ways to run: for tests/apps and tests/soak."""
import cmpairs

RPING, UCMA = 7174, 7471


def cases(address):
    """(name, server, client, options of cmpairs.run) for one address of the server"""
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
               {"port": UCMA, "space": 0x13f if "ib" in more else cmpairs.TCP})
    for more in ([], ["-c", "4"], ["-C", "20", "-S", "1000"], ["-p", "0x2"]):
        yield (f"udaddy {' '.join(more)}", ["udaddy", "-b", address, *more],
               ["udaddy", "-s", address, *more],
               {"port": RPING, "space": 2 if "0x2" in more else cmpairs.UDP})
    yield ("cmtime -c 50", ["cmtime", "-b", address, "-c", "50"],
           ["cmtime", "-s", address, "-c", "50"], {"port": UCMA, "serves_on": True})
    yield ("rdma_client", ["rdma_server", "-s", address], ["rdma_client", "-s", address],
           {"port": UCMA})
    yield ("rdma_xclient", ["rdma_xserver"], ["rdma_xclient", "-s", address], {"port": UCMA})
