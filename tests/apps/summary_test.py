#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What ./test says at its end, for every kind of run."""
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("VB_SOURCE") or os.path.join(os.path.dirname(__file__), "..", "..")
SUMMARY = os.path.join(SOURCE, "scripts", "summary")

GOOD = '<testcase name="unit/a" status="run"><system-out>fine</system-out></testcase>'
BAD = ('<testcase name="unit/b" status="fail"><failure message=""/>'
       '<system-out>it broke here</system-out></testcase>')
SKIP = ('<testcase name="apps/c_test" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
        '<system-out>looked around\nno such program\n</system-out></testcase>')
NOT_BUILT = ('<testcase name="unit/d" status="notrun">'
             '<skipped message="Unable to find executable"/><system-out/></testcase>')


class Summary(unittest.TestCase):
    def run_on(self, *cases, listed="other", ci=False):
        with tempfile.TemporaryDirectory() as folder:
            report, skips = os.path.join(folder, "r.xml"), os.path.join(folder, "SKIPS.md")
            if cases:
                with open(report, "w", encoding="utf-8") as file:
                    file.write("<testsuite>" + "".join(cases) + "</testsuite>")
            with open(skips, "w", encoding="utf-8") as file:
                file.write(f"| test | when |\n| --- | --- |\n| `{listed}` | sometimes |\n")
            done = subprocess.run([SUMMARY, report, skips], text=True, check=False,
                                  env={**os.environ, "CI": "true" if ci else ""},
                                  stdout=subprocess.PIPE)
        return done.returncode, done.stdout.splitlines()

    def test_all_good(self):
        self.assertEqual(self.run_on(GOOD), (0, ["1 passed, 0 failed, 0 skipped"]))

    def test_a_failure_is_shown(self):
        code, lines = self.run_on(GOOD, BAD)
        self.assertEqual(code, 1)
        self.assertIn("it broke here", lines)
        self.assertEqual(lines[-1], "1 passed, 1 failed, 0 skipped")

    def test_a_skip_says_why(self):
        code, lines = self.run_on(GOOD, SKIP)
        self.assertEqual(code, 0)
        self.assertIn("skipped: apps/c_test: no such program", lines)
        self.assertEqual(lines[-1], "1 passed, 0 failed, 1 skipped")

    def test_an_unlisted_skip_fails_in_ci(self):
        code, lines = self.run_on(GOOD, SKIP, ci=True)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_listed_skip_does_not(self):
        for listed in ("apps/c_test", "apps/*"):
            code, lines = self.run_on(GOOD, SKIP, ci=True, listed=listed)
            self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))

    def test_a_program_not_built_is_a_failure(self):
        code, lines = self.run_on(GOOD, NOT_BUILT)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_no_test_is_a_failure(self):
        code, lines = self.run_on()
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    sys.exit(unittest.main())
