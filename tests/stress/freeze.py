# SPDX-License-Identifier: BSD-2-Clause
"""Processes stopped at random moments inside verbs calls: short and long form."""
import time

import workers

def ring(bench, options, count):
    """Workers in a ring, each joined with both neighbours by half its links."""
    ends = [bench.worker(options) for _ in range(count)]
    for i, end in enumerate(ends):
        workers.connect(end, ends[(i + 1) % count], first=2, count=2, at=0)
    return ends


def measure(ends, busy):
    """Every end's rounds: the busy command ends with its result and begins anew."""
    rounds = []
    for end in ends:
        word, facts = end.ask("result")
        if word != "done":
            raise AssertionError(f"busy ended with {word} {facts}")
        end.hear()
        workers.good(facts, "while others stopped")
        rounds.append(int(facts["sent"]))
        end.say(busy)
    return rounds


# 8 times 134 ms of silence are longer than any stop: no request fails.
def freeze(dice, times, options="", hold=(0.05, 0.3), processes=3, busy="busy"):
    """Stop one of the processes, time and again. All must go on, with right contents."""
    worst = 0.0
    with workers.Bench() as bench:
        ends = ring(bench, f"links=4 timeout=15 {options}", processes)
        for end in ends:
            end.say(busy)
        before = measure(ends, busy)
        for turn in range(times):
            victim = dice.choice(ends)
            time.sleep(dice.uniform(0, 0.01))
            victim.stop()
            begun = time.monotonic()
            rest = [end for end in ends if end is not victim]
            # The others answer at once although the victim may be anywhere.
            measure(rest, busy)
            slow = time.monotonic() - begun
            time.sleep(max(0.0, dice.uniform(*hold) - slow))
            victim.resume()
            begun = time.monotonic()
            while True:
                now = measure(ends, busy)
                if all(a > b for a, b in zip(now, before)):
                    break
                if time.monotonic() - begun > workers.PATIENCE:
                    raise AssertionError(f"turn {turn}: no progress after SIGCONT: "
                                         f"{before} -> {now}")
            worst = max(worst, time.monotonic() - begun)
            before = now
        for end in ends:
            end.ask("result")
            end.hear()
        finish(ends)
    return worst


def finish(ends):
    """All rounds begun complete, then everybody closes."""
    for end in ends:
        end.say("busy rounds=1")
    for end in ends:
        word, facts = end.hear()
        if word != "finished":
            raise AssertionError(f"{word} {facts}")
    for end in ends:
        end.ask("result")
        end.hear()
    for end in ends:
        end.quit()


def check_onesided(dice, times, options=""):
    """While one is stopped, those that only WRITE and READ to it make progress."""
    with workers.Bench() as bench:
        one, two = bench.pair(f"links=4 {options}")
        for _ in range(times):
            for end in (one, two):
                end.say("busy ops=wrf")
            time.sleep(dice.uniform(0, 0.01))
            two.stop()
            first = measure([one], "busy ops=wrf")[0]
            until = time.monotonic() + workers.PATIENCE
            while measure([one], "busy ops=wrf")[0] < first + 20:
                if time.monotonic() > until:
                    raise AssertionError("no progress towards a stopped process")
            two.resume()
            for end in (one, two):
                workers.good(end.ask("result")[1])
                end.hear()


def behind_a_holder():
    """A process stops in the middle of an atomic: others end by their timers, not later."""
    with workers.Bench() as bench:
        target = bench.worker("links=2")
        holder = bench.worker("links=1", VERBENA_TEST_STEP="ATOMIC_HELD:stop")
        other = bench.worker("links=1 timeout=11 retry=3")
        workers.connect(holder, target, first=0, count=1, at=0)
        workers.connect(other, target, first=0, count=1, at=1)
        holder.say("one ops=a link=0")
        holder.stopped()
        _, facts = other.ask("one ops=a link=0")
        silence = 4 * 4096e-3 * 2 ** 11
        if facts["status"] != "12" or not silence <= int(facts["us"]) < silence + 5e6:
            raise AssertionError(f"behind a stopped holder: {facts}, silence {silence} us")
        _, result = other.ask("busy ops=wrf until=1 rounds=1")
        holder.resume()
        _, facts = holder.hear()
        if facts["status"] != "0" or facts["bad"] != "0":
            raise AssertionError(f"the holder after SIGCONT: {facts} {result}")
        for end in (target, other):
            end.remake()
        workers.connect(other, target, first=0, count=1, at=1)
        workers.good(other.ask("busy ops=a rounds=3 until=1")[1], "after the holder went on")
