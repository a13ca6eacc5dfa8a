# SPDX-License-Identifier: BSD-2-Clause
"""What a built library exports, and what the lists want of it."""
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
LISTS = os.path.join(HERE, "lists")
BUILD = os.environ["VB_BUILD"]
LIB = os.path.join(BUILD, "lib")

# Releases of rdma-core whose private node has that number.
PRIVATE_NODES = {34: (34, 56), 57: (57, 58), 59: (59, 63), 64: (64, 64), 65: (65, 65)}


def readelf(*args):
    return subprocess.run(["readelf", "-W", *args], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def exported(path):
    """{(name, node, is default): type} of the defined dynamic symbols, nodes left out."""
    found = {}
    for line in readelf("--dyn-syms", path).splitlines():
        part = line.split()
        if len(part) < 8 or not part[0].rstrip(":").isdigit() or part[6] == "UND":
            continue
        if part[4] not in ("GLOBAL", "WEAK") or part[6] == "ABS":
            continue
        name, at, node = part[7].partition("@")
        found[(name, node.lstrip("@"), at == "" or node.startswith("@"))] = part[3]
    return found


def nodes(path):
    """The version nodes a library defines, without the one named after its soname."""
    text = readelf("-V", path)
    text = text[text.index("Version definition section"):]
    text = text.split("Version needs section")[0]
    found = re.findall(r"Rev: \d+\s+Flags: (\S+)\s+Index: \d+\s+Cnt: \d+\s+Name: (\S+)", text)
    return {name for flags, name in found if flags != "BASE"}


def listed(library):
    """(symbols as exported() gives them, version nodes) of both ages of a library's list.

    "own" is what our libraries say to each other, which no release of rdma-core has.
    """
    symbols, versions = {}, set()
    for age in ("44", "new", "own"):
        path = os.path.join(LISTS, f"{library}-{age}.symbols")
        if age == "own" and not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for line in file:
                match = re.match(r"(\w[\w.]*)(@@?)(\S+) (FUNC|OBJECT|VERSION-NODE)", line)
                if not match:
                    continue
                name, at, node, kind = match.groups()
                if kind == "VERSION-NODE":
                    versions.add(name)
                else:
                    symbols[(name, node, at == "@@")] = kind
    return symbols, versions


def private():
    """The private nodes: every name at every node of a release that had it.

    The lists show one release each, where the name's version is the default; of several
    nodes in one library only the newest can be that.
    """
    symbols = {}
    with open(os.path.join(LISTS, "libibverbs-private.txt"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            name, first, last = line.split()
            last = 99 if last == "-" else int(last)
            have = [number for number, (low, high) in PRIVATE_NODES.items()
                    if int(first) <= high and low <= last]
            kind = "OBJECT" if name == "verbs_allow_disassociate_destroy" else "FUNC"
            for number in have:
                symbols[(name, f"IBVERBS_PRIVATE_{number}", number == max(have))] = kind
    return symbols


def wanted(library):
    symbols, versions = listed(library)
    if library == "libibverbs":
        symbols = {key: kind for key, kind in symbols.items() if "IBVERBS_PRIVATE" not in key[1]}
        symbols.update(private())
    return symbols, versions


def show(key):
    name, node, default = key
    return f"{name}{'@@' if default else '@'}{node}"
