#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""ibv_devices and ibv_devinfo print what rdma-core's print, byte for byte.

Three comparisons: with the recorded outputs of two releases over a stub library that
answers with the values they were recorded from; with the distribution's programs over
the same stub, for every option and failure; and with the distribution's programs over
our library.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ["VB_BUILD"]
SOURCE = os.environ.get("VB_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
APPS = os.path.join(SOURCE, "tests", "apps")
GOLDEN = os.path.join(APPS, "golden")

OPTIONS = [
    [], ["-v"], ["-l"], ["-d", "NAME"], ["-d", "nope"], ["-d", "NAME", "-v"], ["-i", "1"],
    ["-i", "2"], ["-i", "0"], ["-i", "-1"], ["-i", "abc"], ["-i", "0x1"], ["-i", "256"],
    ["-i", "257"], ["-i"], ["-d"], ["-x"], ["-v", "-l"], ["-l", "-d", "nope"], ["-l", "-x"],
    ["-i", "0", "-l"], ["-i", "1", "-v"], ["operand"], ["--"], ["--ib-dev=NAME"],
    ["--ib-port=1"], ["--ib-dev"], ["--list"], ["--list=3"], ["--verbose"], ["--verb"],
    ["--help"], ["-h"], ["-vd", "NAME"], ["-d", "NAME", "-d", "nope"],
]

failures = 0
checks = 0


def check(what, got, want):
    global failures, checks
    checks += 1
    if got == want:
        return
    failures += 1
    print(f"FAIL {what}")
    for part, g, w in zip(("stdout", "stderr", "status"), got, want):
        if g != w:
            print(f"  {part}: got  {g!r}\n  {part}: want {w!r}")


def sanitizer_env():
    """What a sanitizer build wants set for programs that are not built like it."""
    p = subprocess.run([f"{BUILD}/bin/verbena", "run", "--no-sysfs", "env"], text=True,
                       capture_output=True)
    return {k: v for k, _, v in (line.partition("=") for line in p.stdout.splitlines())
            if k in ("LD_PRELOAD", "ASAN_OPTIONS")}


def run(program, args, libdir, env=None):
    """Run a program; argv[0] is the bare name, as getopt and the usage text print it."""
    full = {k: v for k, v in os.environ.items() if not k.startswith("STUB_")}
    full.update(SANITIZER)
    full.update(env or {})
    full["LD_LIBRARY_PATH"] = libdir
    p = subprocess.run([os.path.basename(program)] + args, executable=program, env=full,
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return p.stdout, p.stderr, p.returncode


def build_stub(where):
    lib = os.path.join(where, "libibverbs.so.1")
    subprocess.run([os.environ.get("CC", "cc"), "-D_GNU_SOURCE", "-shared", "-fPIC",
                    "-Wl,-soname,libibverbs.so.1",
                    "-Wl,--version-script=" + os.path.join(APPS, "stub", "stub.map"),
                    "-o", lib, os.path.join(APPS, "stub", "stub.c")], check=True)


SANITIZER = sanitizer_env()


def golden(name):
    try:
        with open(os.path.join(GOLDEN, name), "rb") as f:
            return f.read()
    except FileNotFoundError:
        return b""


def golden_runs():
    """(name, environment, program, arguments, status) of every recorded run."""
    for line in open(os.path.join(GOLDEN, "index.txt")):
        m = re.fullmatch(r"(\S+): (.*?)(ibv_\w+) (.*?)-> exit (\d+)\n", line)
        env = dict(word.split("=", 1) for word in m[2].split())
        yield m[1], env, m[3], m[4].split(), int(m[5])


def test_golden(stub):
    runs = list(golden_runs())
    assert len(runs) == 44, len(runs)
    for name, env, program, args, status in runs:
        want = golden(name + ".out"), golden(name + ".err"), status
        form = name.rsplit(".", 1)[1]
        if form == "new":
            env["VERBENA_DEVINFO_FORM"] = "new"
        check("golden " + name, run(f"{BUILD}/bin/{program}", args, stub, env), want)


def test_against_distribution(libdir, envs, device, label):
    for program in ("ibv_devices", "ibv_devinfo"):
        theirs = shutil.which(program, path="/usr/bin:/usr/sbin:/bin")
        if not theirs:
            print(f"note: the distribution's {program} is not installed, not compared")
            continue
        for env in envs:
            for options in OPTIONS if program == "ibv_devinfo" else [[], ["x"], ["-v"]]:
                args = [a.replace("NAME", device) for a in options]
                want = run(theirs, args, libdir, env)
                got = run(f"{BUILD}/bin/{program}", args, libdir, env)
                check(f"{label} {env} {program} {args}", got, want)


def rdma_core_release():
    """The release of rdma-core the distribution's programs come from, or None."""
    for pkg in ("ibverbs-utils", "libibverbs1"):
        p = subprocess.run(["dpkg-query", "-W", "-f=${Version}", pkg], capture_output=True)
        if p.returncode == 0:
            return int(re.match(rb"\d+", p.stdout)[0])
    return None


def main():
    for program in ("ibv_devices", "ibv_devinfo"):
        if not os.access(f"{BUILD}/bin/{program}", os.X_OK):
            print(f"{BUILD}/bin/{program} is missing")
            return 1
    with tempfile.TemporaryDirectory() as stub:
        build_stub(stub)
        test_golden(stub)
        release = rdma_core_release() if shutil.which("dpkg-query") else None
        if release == 44:
            bad = [{"STUB_BAD": what} for what in ("device", "port", "gid", "type", "close")]
            test_against_distribution(stub, bad + [
                {}, {"STUB_N": "0"}, {"STUB_N": "-1"}, {"STUB_N": "2"}, {"STUB_FAIL": "1"},
                {"STUB_PORTS": "2"}, {"STUB_RICH": "1", "STUB_BOARD": "1"}], "soft0", "stub")
            names = run(f"{BUILD}/bin/ibv_devinfo", ["-l"], f"{BUILD}/lib")[0].decode()
            ours = names.splitlines()[1].strip()
            test_against_distribution(f"{BUILD}/lib", [{}], ours, "verbena")
            test_against_distribution(f"{BUILD}/lib", [{"VERBENA_PROFILE": "connectx5"}],
                                      "mlx5_0", "verbena")
        else:
            print(f"note: rdma-core {release} here: recorded outputs compared only")
    print(f"{checks} comparisons, {failures} failed")
    return 1 if failures or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
