#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own tests, from python3-pyverbs, on our library.

Everything in the modules named runs. A test may be skipped only where SKIPS says so,
and may end differently from what it wants only where DEVIATIONS says so; a row of either
table that applies to nothing is a failure too, so that the tables shrink as things land.
With arguments: the modules to run instead, without the check for unused rows.
"""
import collections
import fnmatch
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ["VB_BUILD"]
SUITE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"  # the modules are built for the system's own

MODULES = ["addr", "atomic", "cq", "cq_events", "cqex", "device", "mr", "odp", "pd",
           "parent_domain", "qp", "qpex", "relaxed_ordering", "shared_pd"]

# Test, by its name within the suite, and why it may be skipped.
XRC = "XRC is not offered yet"
WINDOWS = "memory windows are not offered yet"
RAW = "raw packet QPs are not offered"
DMABUF = "needs a DRM render node whose driver hands out buffers"
HUGE = "needs huge pages set aside on the machine"
SKIPS = {
    "test_atomic.*.test_xrc_*": XRC,
    "test_cqex.*.test_xrc_*": XRC,
    "test_mr.DmaBuf*": DMABUF,
    "test_mr.MWTest.*": WINDOWS,
    "test_odp.*_huge_*": HUGE,
    "test_odp.*_xrc_*": XRC,
    "test_parent_domain.*.test_huge_page_traffic": HUGE,
    "test_qp.*.test_*raw_qp*": RAW,
    "test_qpex.*_xrc_*": XRC,
    "test_qpex.*_bind_mw": WINDOWS,
    "test_qpex.*_atomic_write": "ATOMIC WRITE is not offered yet",
    "test_relaxed_ordering.*_xrc_*": XRC,
}
# These depend on the machine: they may run as well.
MAY_RUN = {DMABUF, HUGE}

# Test, and why it does not end as it wants to; under the strict profile it does.
RESET = "posting in RESET returns 0 and never completes, as most drivers do"
DEVIATIONS = {
    "test_qpex.*.test_post_receive_qp_state_bad_flow": RESET,
    "test_qpex.*.test_post_send_qp_state_bad_flow": RESET,
}

# Runs inside: reports each result as a line of its own on descriptor 3.
RUNNER = """
import json, os, sys, unittest, warnings
sys.path.insert(0, os.path.join(os.getcwd(), "tests"))
sys.path.insert(0, os.getcwd())
modules = sys.argv[1:]
sys.argv[1:] = []
from args_parser import parser
parser.parse_args()
warnings.simplefilter("ignore")
out = os.fdopen(3, "w", buffering=1)

class Result(unittest.TestResult):
    def say(self, test, how, why=""):
        out.write(json.dumps([test.id(), how, str(why)]) + "\\n")
    def startTest(self, test):
        super().startTest(test)
        self.say(test, "started")
    def addSuccess(self, test):
        self.say(test, "passed")
    def addSkip(self, test, reason):
        self.say(test, "skipped", reason)
    def addError(self, test, err):
        self.say(test, "failed", self._exc_info_to_string(err, test))
    addFailure = addError
    def addSubTest(self, test, subtest, err):
        if err:
            self.addError(test, err)

for name in modules:
    module = __import__("tests.test_" + name, fromlist=["x"])
    unittest.defaultTestLoader.loadTestsFromModule(module).run(Result())
"""


def unpack(folder):
    """The suite as it can be run: Debian compresses most of its files."""
    tests = os.path.join(folder, "tests")
    shutil.copytree(SUITE, tests)
    for name in os.listdir(tests):
        path = os.path.join(tests, name)
        if name.endswith(".gz"):
            with gzip.open(path) as packed, open(path[:-3], "wb") as file:
                shutil.copyfileobj(packed, file)
            os.unlink(path)
    # The package loads every module; only those asked for are to be.
    with open(os.path.join(tests, "__init__.py"), "w", encoding="utf-8"):
        pass


def run(folder, modules, *options):
    """[(test, "passed" | "skipped" | "failed", why)] in the order run."""
    results = collections.OrderedDict()
    log = os.path.join(folder, "results")
    with open(log, "w", encoding="utf-8") as file:
        done = subprocess.run(
            ["sh", "-c", 'exec 3>"$0"; exec "$@"', log, f"{BUILD}/bin/verbena", "run",
             *options, "--", PYTHON, "-c", RUNNER, *modules],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=250, check=False)
        del file
    with open(log, encoding="utf-8") as file:
        for line in file:
            name, how, why = json.loads(line)
            name = name.removeprefix("tests.")
            # A failure stands, whatever tearing down says after it.
            if results.get(name, ("",))[0] != "failed":
                results[name] = (how, why)
    if done.returncode or not results:
        results["the run as a whole"] = ("failed", f"status {done.returncode}\n{done.stdout}")
    return [(name, "failed" if how == "started" else how, why or "did not end")
            for name, (how, why) in results.items()]


def row_of(table, name):
    return next((row for row in table if fnmatch.fnmatchcase(name, row)), None)


def judge(results, whole, deviations):
    used, bad = set(), []
    counts = collections.Counter()
    for name, how, why in results:
        table = {"skipped": SKIPS, "failed": deviations}.get(how, {})
        row = row_of(table, name)
        counts[how if how != "failed" or not row else "deviated"] += 1
        if row:
            used.add(row)
            print(f"{how}: {name}: {table[row]}")
        elif how != "passed":
            bad.append(name)
            print(f"FAILED ({how}): {name}\n{why}")
    for table in (SKIPS, deviations):
        for row in table:
            if whole and row not in used and table[row] not in MAY_RUN:
                bad.append(row)
                print(f"FAILED: the row {row} applies to no test any more: take it out")
    print(", ".join(f"{count} {how}" for how, count in sorted(counts.items())))
    return 1 if bad else 0


def main():
    modules = sys.argv[1:] or MODULES
    if not os.path.isdir(SUITE) or not os.path.exists(PYTHON):
        print(f"rdma-core's tests are not installed (python3-pyverbs, {SUITE})")
        return 77
    if subprocess.run([PYTHON, "-c", "import pyverbs.device"], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        print("pyverbs is not installed (python3-pyverbs)")
        return 77
    folder = tempfile.mkdtemp(prefix="pyverbs.")
    try:
        unpack(folder)
        bad = judge(run(folder, modules, "--no-sysfs"), not sys.argv[1:], DEVIATIONS)
        # These look for the interface, and its address, in the device's sysfs.
        bad |= judge(run(folder, ["rdmacm"]), False, {})
        return bad | judge(run(folder, ["qpex"], "--no-sysfs", "--profile", "strict"), False, {})
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
