#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The built libraries export the names, versions and types of the lists, and nothing else."""
import os
import re
import sys

import elf

LIBRARIES = {"libibverbs": "1", "librdmacm": "1", "libmlx5": "1", "libmlx4": "1", "libefa": "1",
             "libmana": "1", "libibumad": "3"}


def check_symbols(library, path):
    want, want_nodes = elf.wanted(library)
    have = elf.exported(path)
    for key in sorted(want.keys() - have.keys()):
        yield f"missing {elf.show(key)}"
    for key in sorted(have.keys() - want.keys()):
        yield f"not in the lists {elf.show(key)}"
    for key in sorted(want.keys() & have.keys()):
        if want[key] != have[key]:
            yield f"{elf.show(key)} is {have[key]}, listed as {want[key]}"
    have_nodes = elf.nodes(path)
    for node in sorted(want_nodes - have_nodes):
        yield f"missing node {node}"
    for node in sorted(have_nodes - want_nodes):
        yield f"node {node} is not in the lists"


def check_lists(library):
    """The private table and the lists speak of the same names."""
    if library != "libibverbs":
        return
    table = {(name, node) for name, node, _ in elf.private()}
    for name, node, _ in elf.listed(library)[0]:
        if "IBVERBS_PRIVATE" in node and (name, node) not in table:
            yield f"the private table lacks {name}@{node}"


def check_files(library, soversion, path):
    dynamic = elf.readelf("-d", path)
    soname = re.search(r"\(SONAME\).*\[(.*)\]", dynamic)
    if not soname or soname.group(1) != f"{library}.so.{soversion}":
        yield f"SONAME is {soname and soname.group(1)}"
    real = os.path.realpath(path)
    if not re.fullmatch(rf"{library}\.so\.{soversion}\.\d+\.65\.0", os.path.basename(real)):
        yield f"the file is {os.path.basename(real)}"
    plain = os.path.join(elf.LIB, f"{library}.so")
    if os.path.realpath(plain) != real:
        yield f"{library}.so does not lead to it"


def main():
    failed = False
    for library, soversion in LIBRARIES.items():
        path = os.path.join(elf.LIB, f"{library}.so.{soversion}")
        problems = [*check_lists(library), *check_symbols(library, path),
                    *check_files(library, soversion, path)]
        for problem in problems:
            print(f"{library}: {problem}")
        failed |= bool(problems)
        print(f"{library}: {len(elf.exported(path))} symbols, {len(elf.nodes(path))} nodes")
    sys.exit(1 if failed else 0)


main()
