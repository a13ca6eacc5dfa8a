#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The pingpong table, 20 times each, as uid 65534 from an installed copy."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import app_cases
import pairs

pairs.need("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "setpriv")
times = sys.argv[1] if len(sys.argv) > 1 else "20"
sys.exit(pairs.run_table(app_cases.pingpong(iterations="100000"), "--as-nobody",
                         "--timeout", "120", "--repeat", times))
