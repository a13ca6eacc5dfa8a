# SPDX-License-Identifier: BSD-2-Clause
"""What the checks share: where the tree is, which files are ours, how to report."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("VB_BUILD", os.path.join(ROOT, "build"))

FOLDERS = ("src", "tests", "bench", "scripts", "cmake", "man", "docs", ".ci")
TOP = ("run", "test", "CMakeLists.txt", "CMakePresets.json", "README.md", "CONTRIBUTING.md",
       "CHANGELOG.md", ".clang-format", ".clang-tidy")


def files(*folders, ext=None):
    """Our files under the folders (all of them where none is named), relative to ROOT."""
    found = []
    for folder in folders or FOLDERS:
        for where, inner, names in os.walk(os.path.join(ROOT, folder)):
            inner[:] = sorted(name for name in inner if name != "__pycache__")
            found += [os.path.relpath(os.path.join(where, name), ROOT) for name in sorted(names)]
    if not folders:
        found += [name for name in TOP if os.path.exists(os.path.join(ROOT, name))]
    return [name for name in found if ext is None or name.endswith(ext)]


def text(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def is_binary(name):
    with open(os.path.join(ROOT, name), "rb") as file:
        return b"\0" in file.read(4096)


def without_comments(source):
    """C source with comments and string contents blanked, line numbers kept."""
    def blank(match):
        found = match.group(0)
        if found.startswith(('"', "'")):
            return found[0] + found[-1]
        return "\n" * found.count("\n")
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, blank, source, flags=re.S)


def finish(problems, done):
    """Print every problem, or what was checked; exit 1 or 0."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{os.path.basename(sys.argv[0])}: {len(problems)} problem(s)")
    else:
        print(f"{os.path.basename(sys.argv[0])}: {done}")
    sys.exit(1 if problems else 0)
