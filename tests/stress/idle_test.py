#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""No busy threads: who polls uses a CPU, the engine does not; who sleeps uses none."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import workers


def ticks(pid):
    """User and system time of a process, threads that have ended included, in clock ticks"""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def threads(pid):
    """{thread id: name}, without the one that the thread sanitizer has for itself

    That one uses some time whenever it likes.
    """
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as comm:
            name = comm.read().strip()
        if int(thread) == pid or not name.startswith("stress.worker"):
            found[int(thread)] = name
    return found


def total(pid):
    """Time of the process in clock ticks, where the thread sanitizer has none in it; or None"""
    sanitized = len(os.listdir(f"/proc/{pid}/task")) > len(threads(pid))
    return None if sanitized else ticks(pid)


def spent(pid, thread):
    """Exact run time of a thread in seconds."""
    with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="utf-8") as stat:
        return int(stat.read().split()[0]) / 1e9


def polling(options):
    """Two processes that poll: beside the program's own thread only a sleeping engine."""
    with workers.Bench() as bench:
        ends = bench.pair(options)
        # No SENDs: a receiver that is not ready has to be waited for, by the engine too.
        for end in ends:
            end.say("busy ops=wrf")
        time.sleep(1)
        for end in ends:
            others = {thread: name for thread, name in threads(end.pid).items()
                      if thread != end.pid}
            if sorted(others.values()) not in ([], ["verbena"]):
                raise AssertionError(f"threads beside the program's own: {others}")
            own = spent(end.pid, end.pid)
            for thread in others:
                used = spent(end.pid, thread)
                print(f"{options}: the program {own:.3f} s, its engine {used:.6f} s")
                if used > own / 20:
                    raise AssertionError(f"the engine is busy: {used} s of {own} s")
        for end in ends:
            end.ask("result")
            workers.good(end.hear()[1])
        for end in ends:
            end.quit()


def idle(options):
    """An open device, connected QPs, messages behind it, and now asleep."""
    with workers.Bench() as bench:
        ends = bench.pair(options)
        for end in ends:
            end.say("busy rounds=20")
        for end in ends:
            end.hear()
        if "events" not in options:
            for end in ends:
                end.ask("result")
                end.hear()
        time.sleep(0.2)
        before = {end.pid: {thread: spent(end.pid, thread) for thread in threads(end.pid)}
                  for end in ends}
        sums = {end.pid: total(end.pid) for end in ends}
        time.sleep(1)
        for end in ends:
            after = {thread: spent(end.pid, thread) for thread in threads(end.pid)}
            # What does not run is not even scheduled.
            if after != before[end.pid] or total(end.pid) != sums[end.pid]:
                raise AssertionError(f"{options}: idle, yet {before[end.pid]} -> {after}")
        print(f"{options}: idle for a second, nothing used")


polling("links=1")
polling("links=4 memfd=1")
idle("links=4")
idle("links=4 events=1")
