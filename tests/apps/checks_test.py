#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each check of .ci finds what it is there to find, and passes what is in order."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("VB_SOURCE") or os.path.join(os.path.dirname(__file__), "..", "..")
C_LINE = "/* SPDX-License-Identifier: BSD-2-Clause */\n"
ROW = 'VB_RULE{kind}(BUSY, "busy", "verb", EBUSY, "A sentence.", "source", "advice")\n'


class Checks(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp(prefix="checks.")
        self.addCleanup(shutil.rmtree, self.tree)
        shutil.copytree(os.path.join(SOURCE, ".ci"), os.path.join(self.tree, ".ci"))
        for name in ("src", "tests"):
            os.mkdir(os.path.join(self.tree, name))

    def plant(self, name, text):
        path = os.path.join(self.tree, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self, name):
        done = subprocess.run([os.path.join(self.tree, ".ci", "check-" + name)], text=True,
                              env={**os.environ, "VB_BUILD": os.path.join(self.tree, "build")},
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def assert_passes(self, name):
        code, output = self.check(name)
        self.assertEqual(code, 0, output)

    def assert_finds(self, name, *words):
        code, output = self.check(name)
        self.assertEqual(code, 1, output)
        for word in words:
            self.assertIn(word, output)

    def test_layers(self):
        self.plant("src/base/a.h", C_LINE)
        self.plant("src/wire/b.c", C_LINE + '#include "base/a.h"\n')
        self.assert_passes("layers")
        for line in ('#include "wire/b.h"', '#include "a.h"', '#include "base/none.h"',
                     '#include "../base/a.h"', "#include <infiniband/verbs.h>",
                     '  #  include "object/x.h"'):
            self.plant("src/base/c.c", C_LINE + line + "\n")
            self.assert_finds("layers", "src/base/c.c")
        os.remove(os.path.join(self.tree, "src/base/c.c"))
        self.plant("src/tools/ibv_x.c", C_LINE + '#include "base/a.h"\n')
        self.assert_finds("layers", "src/tools/ibv_x.c")

    def test_pure_layers_know_no_system(self):
        for header in ("pthread.h", "sys/socket.h", "time.h", "infiniband/verbs.h"):
            self.plant("src/transport/a.c", C_LINE + f"#include <{header}>\n")
            self.assert_finds("layers", header)

    def build_wire(self, body):
        """A library of the wire layer in a build folder, from one C file."""
        self.plant("src/wire/a.c", C_LINE + body)
        self.plant("build/src/wire/x", "")
        where = os.path.join(self.tree, "build", "src", "wire")
        subprocess.run(["cc", "-O1", "-c", "-o", os.path.join(where, "a.o"),
                        os.path.join(self.tree, "src/wire/a.c")], check=True)
        subprocess.run(["ar", "rc", os.path.join(where, "libvb_wire.a"),
                        os.path.join(where, "a.o")], check=True)

    def test_purity(self):
        declare = "void *memcpy(void *, const void *, unsigned long); int vb_x(int);\n"
        self.build_wire(declare + "void f(void *a, void *b, long n) "
                        "{ memcpy(a, b, n * vb_x(1)); }\n")
        self.assert_passes("purity")
        self.build_wire("long time(long *); long g(void) { return time(0); }\n")
        self.assert_finds("purity", "imports time")
        self.plant("src/cm/a.c", C_LINE)
        self.assert_finds("purity", "libvb_cm.a: not built")

    def test_spdx(self):
        self.plant("src/base/a.c", C_LINE)
        self.plant("tests/b.py", "#!/usr/bin/env python3\n# SPDX-License-Identifier: "
                   "BSD-2-Clause\n")
        self.assert_passes("spdx")
        self.plant("src/base/b.c", "\n" + C_LINE)
        self.assert_finds("spdx", "src/base/b.c")

    def test_sizes(self):
        body = "int f(void)\n{\n" + "\tg();\n" * 70 + "}\n"
        self.plant("src/base/a.c", C_LINE + body)
        code, output = self.check("sizes")
        self.assertEqual(code, 0, output)
        self.assertIn("f() has 72 lines", output)
        self.plant("src/base/a.c", C_LINE + "\n" * 800)
        self.assert_finds("sizes", "src/base/a.c: 801 lines")

    def test_mirror(self):
        self.plant("src/object/a.c", C_LINE)
        self.assert_finds("mirror", "tests/unit/object/a_test.c")
        self.plant("tests/unit/object/a_test.c", C_LINE)
        self.plant("src/engine/b.c", C_LINE)
        self.assert_passes("mirror")

    def test_paths(self):
        self.plant("docs/a.md", "a network/worker, /dev/shm, https://host/home/x\n")
        self.assert_passes("paths")
        # In two pieces, so that the check does not find this file.
        self.plant("docs/a.md", "see /wo" + "rk/shared\n")
        self.assert_finds("paths", "docs/a.md:1")

    def test_bare_errors(self):
        self.plant("src/verbs/a.c", C_LINE + 'int f(int e)\n{\n\tif (e == EINVAL)\n\t\t'
                   'return vb_fail(VB_RULE_X, "return EINVAL;");\n'
                   '\t/* return EBUSY; */\n\treturn e != EBUSY;\n}\n')
        self.assert_passes("bare-errors")
        self.plant("src/verbs/c.c", C_LINE + "int f(void)\n{\n\treturn ENOENT; "
                   "/* no refusal: nothing left */\n}\n")
        self.plant("src/object/c.c", C_LINE + "int f(void)\n{\n\treturn -ENOMEM;\n}\n")
        self.assert_passes("bare-errors")
        for line in ("return EINVAL;", "return -EBUSY;", "return bad ? EINVAL : 0;",
                     "errno = ENOSYS;", "return (EPERM);"):
            self.plant("src/object/b.c", C_LINE + f"int f(void)\n{{\n\t{line}\n}}\n")
            self.assert_finds("bare-errors", "src/object/b.c:4")

    def test_rules(self):
        self.plant("src/base/rules/a.def", C_LINE + ROW.format(kind=""))
        self.plant("src/verbs/a.c", C_LINE + 'f() { return vb_fail(VB_RULE_BUSY, ""); }\n')
        self.assert_finds("rules", "no test names busy")
        for test in ("x = VB_RULE_BUSY;", 'rule_said("busy");', "grep '[busy]'"):
            self.plant("tests/a_test.sh", test + "\n")
            self.assert_passes("rules")
        self.plant("tests/a_test.sh", "the device is busy; VB_RULE_BUSY_LOOP\n")
        self.assert_finds("rules", "no test names busy")

    def test_rules_without_errno_do_not_fail_verbs(self):
        self.plant("src/base/rules/a.def", C_LINE + ROW.format(kind="_WC"))
        self.plant("src/verbs/a.c", C_LINE + 'f() { return vb_fail(VB_RULE_BUSY, ""); }\n')
        self.plant("tests/a_test.sh", "VB_RULE_BUSY\n")
        self.assert_finds("rules", "has no errno")


if __name__ == "__main__":
    sys.exit(unittest.main())
