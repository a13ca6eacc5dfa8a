#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""libfabric's fi_pingpong, unchanged, over its verbs providers with every default: connections by
address (msg), datagrams on the GID of index 0 (dgram, ofi_rxd), messages on both (rdm). Contents are
checked at both ends."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cmpairs
import pairs

KINDS = (("verbs", "msg"), ("verbs", "dgram"), ("verbs;ofi_rxm", "rdm"), ("verbs;ofi_rxd", "rdm"))

pairs.need("fi_pingpong")
table = cmpairs.Table()
for number, (provider, kind) in enumerate(KINDS):
    port = str(17592 + number)
    both = ["fi_pingpong", "-c", "-p", provider, "-e", kind]
    table.run(f"{provider}, {kind}", [*both, "-B", port], [*both, "-P", port, "127.0.0.1"],
              port=int(port), ready=cmpairs.accepts,
              # It says so and leaves 0 where a provider has nothing to offer.
              check=lambda server, client: "" if "usec/xfer" in server and "usec/xfer" in client
              else "no figures")
table.finish()
