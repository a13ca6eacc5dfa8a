#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""UCX's ucx_perftest, unchanged, over its verbs transports: datagrams (ud_verbs), connections with
datagrams to set them up (rc_verbs), at GIDs of both IP versions."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cmpairs
import pairs

PORT = 18399

pairs.need("ucx_perftest")
table = cmpairs.Table()
for transports in ("ud_verbs", "rc_verbs,ud_verbs"):
    # Index 0 is the link-local address of IPv6, 1 the address of IPv4, which is the default.
    for more in ({}, {"UCX_IB_GID_INDEX": "0"}):
        for test, size in (("tag_lat", 8), ("tag_bw", 20000), ("ucp_put_bw", 100), ("ucp_get", 100),
                           ("ucp_fadd", 8)):
            both = ["ucx_perftest", "-t", test, "-s", str(size), "-n", "200", "-w", "10",
                    "-p", str(PORT)]
            table.run(f"{test} {size} over {transports} {more}", both, [*both, "127.0.0.1"],
                      port=PORT, ready=cmpairs.accepts,
                      env={"UCX_TLS": transports, "UCX_WARN_UNUSED_ENV_VARS": "n", **more},
                      check=lambda _, client: "" if "Final:" in client else "no figures")
table.finish()
