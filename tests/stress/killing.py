# SPDX-License-Identifier: BSD-2-Clause
"""Processes killed at random moments: what the other side sees, and what is left."""
import os
import time

import workers

# 8 times 16.8 ms of silence, then the error; a loaded machine may take longer.
TIMERS = "timeout=12 retry=7"
SILENCE = 8 * 4096e-9 * 2 ** 12
OPS = ("wrafs", "wrafs", "s", "wrf", "a", "w")


def ended(end, wait=workers.PATIENCE, of="busy"):
    """A busy end whose peer is dead: every link ends by its timers, all is flushed."""
    word, facts = end.hear(SILENCE + wait, of)
    if word != "finished":
        raise AssertionError(f"{word} {facts}")
    end.ask("result")
    end.hear()
    check_ends(facts)
    return facts


def check_ends(facts):
    """First the request that found silence, then flushes, nothing outstanding."""
    links = facts["first"].split(",")
    statuses = dict(pair.split(":") for pair in facts["statuses"].split(","))
    if (facts["bad"] != "0" or facts["outstanding"] != "0"
            or any(first not in ("12/5", "12/0") for first in links)
            or set(statuses) - {"12", "5"} or int(statuses["12"]) != len(links)):
        raise AssertionError(f"completions after the peer's death: {facts}")


def descriptors(end):
    """How many a process has open."""
    return len(os.listdir(f"/proc/{end.pid}/fd"))


def rounds(one, two):
    """A fresh pair works."""
    for end in (one, two):
        end.say("busy rounds=3")
    for end in (one, two):
        word, facts = end.hear()
        if word != "finished" or facts["bad"] != "0" or facts["dead"] != "0":
            raise AssertionError(f"a new pair: {word} {facts}")
    for end in (one, two):
        end.ask("result")
        end.hear()


def kill(dice, times, options="", lifetime=25):
    """Kill one side, time and again; the other goes on with a new process."""
    worst, killed = 0.0, 0
    with workers.Bench() as bench:
        while killed < times:
            survivor = bench.worker(f"links=3 {TIMERS} {options}")
            first_fds = None
            for turn in range(min(lifetime, times - killed)):
                victim = bench.worker(f"links=3 {TIMERS} {options}")
                workers.connect(survivor, victim)
                rounds(survivor, victim)
                survivor.say(f"busy ops={dice.choice(OPS)}")
                victim.say(f"busy ops={dice.choice(OPS + ('-',))}")
                time.sleep(dice.uniform(0, 0.02))
                victim.kill()
                begun = time.monotonic()
                ended(survivor)
                worst = max(worst, time.monotonic() - begun)
                survivor.remake()
                killed += 1
                if turn == 4:
                    first_fds = descriptors(survivor)
                # Now and then the survivor is the next victim.
                if dice.random() < 0.1 and turn > 5:
                    break
            if first_fds and descriptors(survivor) > first_fds + 2:
                raise AssertionError(f"descriptors {first_fds} -> {descriptors(survivor)}")
            if dice.random() < 0.5:
                survivor.kill()
                bench.swept()
            else:
                survivor.quit()
            if bench.leftovers():
                raise AssertionError(f"left in the runtime directory: {bench.leftovers()}")
            bench.clear()
    return worst


def kill_idle(dice):
    """A peer dies while nothing is on its way: the next request finds out."""
    with workers.Bench() as bench:
        survivor, victim = bench.pair(f"links=2 {TIMERS}")
        rounds(survivor, victim)
        victim.kill()
        survivor.say("busy")
        ended(survivor)
        survivor.remake()
        rounds_with = bench.worker(f"links=2 {TIMERS}")
        workers.connect(survivor, rounds_with)
        rounds(survivor, rounds_with)


def kill_all(dice, times):
    """All die at once: the next start sweeps what they left."""
    with workers.Bench() as bench:
        for _ in range(times):
            ends = bench.pair("links=2")
            for end in ends:
                end.say("busy")
            time.sleep(dice.uniform(0, 0.02))
            for end in ends:
                end.process.kill()
            bench.clear()
            bench.swept()
