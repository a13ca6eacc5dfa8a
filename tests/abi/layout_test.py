#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Sizes and offsets of the structs that programs reach into, by a program built for it.

The public structs come from the installed header: where that is release 44 they must equal
its list; of any other release, what 44 and the newest agree on. Then our own declarations
of what the header may lack, and the context: every op slot lies as far before the
ibv_context as in the newest release.
"""
import os
import re
import subprocess
import sys
import tempfile

import elf

SOURCE = os.environ["VB_SOURCE"]
CC = os.environ.get("CC", "cc").split()
# Our name: the name in the lists.
OURS = {f"vb_{name}": f"ibv_{name}" for name in (
    "mr_init_attr", "dmah", "dmah_init_attr", "comp_cntr_caps", "comp_cntr",
    "comp_cntr_init_attr", "qp_attach_comp_cntr_attr")}
SLOTS = ("alloc_dmah", "dealloc_dmah", "reg_mr_ex", "dm_export_dmabuf_fd", "alloc_buf", "free_buf")
CONSTANTS = {
    "VB_WR_FLUSH": "IBV_WR_FLUSH", "VB_WR_ATOMIC_WRITE": "IBV_WR_ATOMIC_WRITE",
    "VB_EVENT_DEVICE_SPEED_CHANGE": "IBV_EVENT_DEVICE_SPEED_CHANGE",
    **{f"VB_REG_MR_MASK_{name}": f"IBV_REG_MR_MASK_{name}"
       for name in ("IOVA", "ADDR", "FD", "FD_OFFSET", "DMAH", "BUF")},
}
HEAD = """
#include <stdio.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include "object/context.h"
#include "verbs/newer.h"
int main(void)
{
"""


def layout(age):
    """{"struct": size, "struct.member": offset}"""
    found = {}
    with open(os.path.join(elf.LISTS, f"layout-{age}.txt"), encoding="utf-8") as file:
        for line in file:
            match = re.match(r"sizeof (\w+) (\d+)|(\w+\.\w+) offset (\d+)", line)
            if match:
                found[match.group(1) or match.group(3)] = int(match.group(2) or match.group(4))
    return found


def constants():
    with open(os.path.join(elf.LISTS, "constants-new.txt"), encoding="utf-8") as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    return {row[-2]: int(row[-1], 0) for row in rows if re.fullmatch(r"-?\w+", row[-1])}


def expression(key):
    struct, _, member = key.partition(".")
    name = f"union {struct}" if struct == "ibv_gid" else f"struct {struct}"
    return f"offsetof({name}, {member})" if member else f"sizeof({name})"


def measure(wanted):
    """{key: value} of {key: C expression}"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layout.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(HEAD)
            for key, code in wanted.items():
                file.write(f'\tprintf("{key} %ld\\n", (long)({code}));\n')
            file.write("}\n")
        subprocess.run([*CC, "-D_GNU_SOURCE", f"-I{SOURCE}/src", "-o", f"{folder}/layout", path],
                       check=True)
        out = subprocess.run([f"{folder}/layout"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return {key: int(value) for key, value in (line.split() for line in out.splitlines())}


def installed():
    found = subprocess.run(["pkg-config", "--modversion", "libibverbs"], text=True, check=True,
                           stdout=subprocess.PIPE).stdout.strip()
    return int(found.split(".")[2])


def public(old, new):
    """What the installed header must give."""
    if installed() == 44:
        return dict(old)
    # verbs_context grows at its front, so its own offsets differ by release; our slots
    # are compared below.
    return {key: value for key, value in old.items()
            if new.get(key) == value and not key.startswith("verbs_context")}


def main():
    old, new = layout("44"), layout("new")
    want = public(old, new)
    code = {key: expression(key) for key in want}

    for ours, theirs in OURS.items():
        for key, value in new.items():
            if key == theirs or key.startswith(theirs + "."):
                mine = ours + key[len(theirs):]
                want[mine], code[mine] = value, expression(mine)

    front = new["verbs_context.context"]
    base = "offsetof(struct vb_context, vctx.context)"
    for key in new:
        member = key.partition("verbs_context.")[2]
        if not member or member == "context":
            continue
        mine = f"before-context.{member}"
        want[mine] = front - new[key]
        code[mine] = (f"VB_SLOT_{member.upper()}" if member in SLOTS else
                      f"{base} - offsetof(struct vb_context, vctx.{member})")
    more = {
        "front": (front, "VB_CTX_FRONT"),
        "sz": (new["verbs_context"], "VB_CTX_SIZE"),
        "room": (front, base),
        "qp_ex": (new["ibv_qp_ex"], "VB_QP_EX_SIZE"),
        "qp_ex_room": (new["ibv_qp_ex"], "sizeof(union vb_qp_ex_newest)"),
        "wr_flush": (new["ibv_qp_ex.wr_flush"], "VB_QP_EX_WR_FLUSH"),
        "port_attr": (new["ibv_port_attr"], "sizeof(struct vb_port_attr)"),
        "port_attr_49": (new["ibv_port_attr"], "VB_PORT_ATTR_SIZE_V49"),
        "port_attr_22": (old["ibv_port_attr"], "VB_PORT_ATTR_SIZE_V22"),
        "port_attr_exported": (old["ibv_port_attr.port_cap_flags2"], "VB_PORT_ATTR_SIZE_EXPORTED"),
        "cap_flags2": (new["ibv_port_attr.port_cap_flags2"],
                       "offsetof(struct vb_port_attr, port_cap_flags2)"),
        "speed_ex": (new["ibv_port_attr.active_speed_ex"],
                     "offsetof(struct vb_port_attr, active_speed_ex)"),
    }
    numbers = constants()
    more.update({ours: (numbers[theirs], ours) for ours, theirs in CONSTANTS.items()})
    for key, (value, text) in more.items():
        want[key], code[key] = value, text

    have = measure(code)
    wrong = [key for key in want if have.get(key) != want[key]]
    for key in wrong:
        print(f"{key} is {have.get(key)}, must be {want[key]}")
    print(f"{len(want)} sizes and offsets, header of release {installed()}")
    sys.exit(1 if wrong else 0)


main()
