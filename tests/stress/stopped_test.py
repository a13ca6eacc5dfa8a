#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Messages to a stopped process complete, and the data is where it belongs."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import workers


def onesided(options, contact):
    """WRITE, READ, FETCH_ADD towards a process that runs no instruction meanwhile."""
    with workers.Bench() as bench:
        active, passive = bench.pair(options)
        if contact:
            workers.good(active.ask("busy rounds=3 until=1")[1], "contact")
        passive.stop()
        for what in ("w", "r", "a", "f", "wrf"):
            word, facts = active.ask(f"one ops={what} link=0")
            if (word, facts["done"], facts["status"], facts["bad"]) != ("one", "1", "0", "0"):
                raise AssertionError(f"{options} {what} to a stopped process: {facts}")
        word, facts = active.ask("busy rounds=40 ops=wraf until=1")
        if facts["dead"] != "0" or facts["statuses"]:
            raise AssertionError(f"{options} rounds to a stopped process: {facts}")
        passive.resume()
        word, facts = passive.ask("look link=0 round=39")
        if facts["inbox"] != "1":
            raise AssertionError(f"{options}: what was written is not there: {facts}")


def send(options):
    """A SEND with a receive posted completes at once; the data is seen after SIGCONT."""
    with workers.Bench() as bench:
        active, passive = bench.pair(options)
        passive.stop()
        for _ in range(6):
            word, facts = active.ask("one ops=s link=0")
            if (word, facts["done"], facts["status"], facts["bad"]) != ("one", "1", "0", "0"):
                raise AssertionError(f"{options} SEND to a stopped process: {facts}")
        passive.resume()
        word, facts = passive.ask("receive count=6")
        if word != "received" or facts["received"] != "6" or facts["bad"] != "0":
            raise AssertionError(f"{options} receives after SIGCONT: {facts}")
        active.quit()
        passive.quit()


def main():
    """Both kinds of memory, small and large, with and without an earlier message."""
    for memfd in (0, 1):
        for size in (64, 16384, 1 << 20):
            options = f"links=1 size={size} memfd={memfd}"
            onesided(options, contact=False)
            onesided(options, contact=True)
            send(options)
            print(f"ok {options}", flush=True)


main()
