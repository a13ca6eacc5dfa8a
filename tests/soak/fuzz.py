#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An hour of processor time for each libFuzzer target, in the build build/fuzz.

    tests/soak/fuzz.py [--seconds N] [--only NAME] [--jobs N]

What is found on the way is kept in build/fuzz/corpus/NAME, where the next run goes on; an input
that breaks something is named, and repeated by running the target on it.
"""
import argparse
import concurrent.futures
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.join(ROOT, "build", "fuzz")
SEEDS = os.path.join(ROOT, "tests", "fuzz", "corpus")

options = argparse.ArgumentParser()
options.add_argument("--seconds", type=int, default=3600, help="of processor time, for each")
options.add_argument("--only", choices=sorted(os.listdir(SEEDS)))
options.add_argument("--jobs", type=int, default=os.cpu_count())
chosen = options.parse_args()


def build():
    """The targets, as every other build is made."""
    for command in (["cmake", "--preset", "fuzz"], ["cmake", "--build", "--preset", "fuzz"]):
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def limit():
    """The kernel ends it at its time."""
    resource.setrlimit(resource.RLIMIT_CPU, (chosen.seconds, chosen.seconds + 10))


def fuzz(name):
    """One target until its time is over: (went well, what to say)"""
    corpus = os.path.join(BUILD, "corpus", name)
    os.makedirs(corpus, exist_ok=True)
    child = subprocess.Popen(
        [os.path.join(BUILD, "tests", f"{name}_fuzz"), f"-artifact_prefix={BUILD}/found-{name}-",
         "-print_final_stats=1", "-rss_limit_mb=2048", corpus, os.path.join(SEEDS, name)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        preexec_fn=limit)
    last, tail = "", []
    for line in child.stdout:
        tail = [*tail[-60:], line]
        if re.match(r"#\d+\s.*cov:", line):
            last = line.strip()
    _, status, used = os.wait4(child.pid, 0)
    good = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
    said = f"{name}: {used.ru_utime + used.ru_stime:.0f} s of CPU, {last}"
    return good, said + ("" if good else "\n" + "".join(tail))


if not shutil.which("clang"):
    print("clang is not installed")
    sys.exit(77)
build()
names = [chosen.only] if chosen.only else sorted(os.listdir(SEEDS))
bad = False
with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
    for went_well, what in pool.map(fuzz, names):
        print(f"{'ok    ' if went_well else 'FAILED'} {what}", flush=True)
        bad |= not went_well
sys.exit(bad)
