#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs under valgrind: no error of ours at either end."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import pairs

pairs.need("valgrind", "ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")
UNDER = ["valgrind", "-q", "--error-exitcode=9"]
PROGRAMS = (["ibv_rc_pingpong", "-g", "1", "-c", "-n", "50"],
            ["ibv_rc_pingpong", "-g", "1", "-e", "-n", "50"],
            ["ibv_ud_pingpong", "-g", "1", "-s", "1024", "-c", "-n", "50"],
            ["ibv_srq_pingpong", "-g", "1", "-c", "-q", "2", "-n", "50"])
sys.exit(pairs.run_table([(UNDER + program,) for program in PROGRAMS], "--timeout", "120"))
