#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The perftest table with the tools' own numbers, 20 times each, as uid 65534."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import pairs

pairs.need("ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_lat", "setpriv")
sys.exit(pairs.run_table(app_cases.perftest(sizes_iterations="1000"),
                         "--as-nobody", "--repeat", "20", "--timeout", "120"))
