# SPDX-License-Identifier: BSD-2-Clause
"""Tables of two-sided runs for the tests of unmodified programs (tests/lib/pair.sh)."""
import concurrent.futures
import os
import queue
import shutil
import subprocess
import sys
import time

SOURCE = os.environ.get("VB_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PAIR = os.path.join(SOURCE, "tests", "lib", "pair.sh")


def need(*programs):
    """Skip, with the reason as last line, where a program is not installed."""
    for program in programs:
        if not shutil.which(program):
            print(f"{program} is not installed")
            sys.exit(77)


def fast_clock(folder):
    """tests/soak/fast_clock.c in a folder of ours, where uid 65534 can read it."""
    os.chmod(folder, 0o755)
    return shutil.copy(os.path.join(os.environ["VB_BUILD"], "tests", "fast_clock.so"), folder)


def run_pair(argv, *options):
    """One run of both ends: (went as expected, what pair.sh said)."""
    done = subprocess.run([PAIR, *options, *argv], text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0, done.stdout


def run_table(cases, *options, give_up_after=3, jobs=1):
    """Run every case, say which failed and how; the exit status for the whole table.

    A case is (argv, extra pair.sh options...). After some failures in a row the rest is
    named and left out: where nothing works the first outputs say why. jobs pairs run at
    the same time: perftest's bandwidth tools sleep for most of a short run.
    """
    failed, in_a_row, tried = [], 0, 0
    slots = queue.SimpleQueue()
    for slot in range(jobs):
        slots.put(slot)

    def run_case(case):
        argv, *extra = case
        slot = slots.get()
        start = time.monotonic()
        good, output = run_pair(argv, *options, *extra,
                                *(("--slot", str(slot)) if jobs > 1 else ()))
        took = time.monotonic() - start
        slots.put(slot)
        return good, output, took

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        # In order; results come while later ones run.
        results = [pool.submit(run_case, case) for case in cases]
        for (argv, *extra), result in zip(cases, results):
            good, output, took = result.result()
            tried += 1
            name = " ".join(argv) + "".join(f" {option}" for option in extra)
            print(f"{'ok    ' if good else 'FAILED'} {took:6.2f} s  {name}", flush=True)
            in_a_row = 0 if good else in_a_row + 1
            if not good:
                print(output, flush=True)
                failed.append(name)
            if in_a_row == give_up_after:
                print(f"{in_a_row} failures in a row: {len(cases) - tried} cases not tried")
                pool.shutdown(cancel_futures=True)
                break
    print(f"{len(cases)} cases, {len(failed)} failed" + "".join(f"\n  {name}" for name in failed))
    return 1 if failed else 0
