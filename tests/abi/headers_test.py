#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every header of ours compiles alone, included first, twice, by gcc's and clang's rules."""
import glob
import os
import shutil
import subprocess
import sys

SOURCE = os.environ["VB_SOURCE"]
FLAGS = ["-D_GNU_SOURCE", "-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
         "-Wno-unused-parameter", f"-I{SOURCE}/src", "-x", "c", "-"]


def main():
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    headers = sorted(os.path.relpath(path, f"{SOURCE}/src")
                     for path in glob.glob(f"{SOURCE}/src/**/*.h", recursive=True))
    failed = not headers or not compilers
    for header in headers:
        text = f'#include "{header}"\n' * 2
        for compiler in compilers:
            done = subprocess.run([compiler, *FLAGS], input=text, text=True,
                                  stderr=subprocess.PIPE)
            if done.returncode:
                failed = True
                print(f"{header} with {compiler}:\n{done.stderr}")
    print(f"{len(headers)} headers with {', '.join(compilers) or 'no compiler'}")
    sys.exit(1 if failed else 0)


main()
