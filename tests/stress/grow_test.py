#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Segments grow while peers are connected: thousands of QPs, MRs and CQs."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import killing
import workers

TIMES = 3000


def grow(options):
    """One grows while the other writes to it and reads from it; then new QPs, far out."""
    with workers.Bench() as bench:
        active, growing = bench.pair(options)
        killing.rounds(active, growing)
        for turn in range(3):
            active.say("busy ops=wraf")
            begun = time.monotonic()
            _, facts = growing.ask(f"grow times={TIMES}", 60)
            took = time.monotonic() - begun
            if facts["made"] != str(TIMES):
                raise AssertionError(f"turn {turn}: grew by {facts}")
            workers.good(active.ask("result")[1], "while the peer grew")
            active.hear()
            for end in (active, growing):
                end.remake()
            workers.connect(active, growing)
            killing.rounds(active, growing)
        print(f"{options}: 3 times {TIMES} QPs, CQs, MRs; the last in {took:.2f} s", flush=True)
        # A third process maps the grown segment at once.
        third = bench.worker(options)
        growing.remake()
        workers.connect(third, growing)
        killing.rounds(third, growing)


grow("links=2")
grow("links=2 memfd=1 events=1")
