#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fork, clone, vfork, exec and exit beside working threads, 100 times each."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stress"))
import workers

program = os.path.join(workers.BUILD, "tests", "stress.fork_test")
os.execv(program, [program, "all", "100"])
