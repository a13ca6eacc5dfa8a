#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The verbena tool: run, explain, doctor, and how it refuses."""

import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

BUILD = os.environ["VB_BUILD"]
VERBENA = f"{BUILD}/bin/verbena"
failures = checks = 0


def check(what, ok, detail=""):
    global failures, checks
    checks += 1
    if not ok:
        failures += 1
        print(f"FAIL {what}: {str(detail)[:600]}")


def verbena(*args, tool=VERBENA, env=None):
    full = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "VERBENA_"))}
    full.update(env or {})
    return subprocess.run([tool, *args], env=full, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=100)


def says(status, out, err, *args, **kw):
    """Exit status, and patterns that standard output and error must have."""
    p = verbena(*args, **kw)
    check(" ".join(args), p.returncode == status and re.search(out, p.stdout, re.S) and
          re.search(err, p.stderr, re.S), f"{p.returncode} {p.stdout!r} {p.stderr!r}")
    return p


def test_usage():
    says(0, "Usage: verbena.*--explain.*--profile.*--carrier.*--memory.*--pcap.*--faults.*--no-sysfs", "^$", "help")
    says(0, "Usage: verbena", "^$", "--help")
    says(0, r"^verbena \d+\.\d+", "^$", "version")
    says(2, "^$", "Usage: verbena")
    says(2, "^$", "there is no command 'frob'", "frob")
    says(2, "^$", "takes a command", "run")
    says(2, "^$", "takes a command", "run", "--")
    says(2, "^$", "unrecognized option '--frob'", "run", "--frob", "true")
    says(2, "^$", "takes no arguments but --peer", "doctor", "x")
    says(2, "^$", "takes no arguments but --peer", "doctor", "--peer")
    says(2, "^$", "takes one folder", "sysfs")
    says(2, "^$", "takes one rule", "explain", "busy", "old-abi")
    with open("/dev/full", "w") as full:
        p = subprocess.run([VERBENA, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
    check("a full disk", p.returncode == 1 and "write error" in p.stderr, p.stderr)


def test_run_status():
    says(0, "^$", "^$", "run", "true")
    says(7, "^$", "^$", "run", "sh", "-c", "exit 7")
    says(127, "^$", "verbena: no-such-program: command not found", "run", "no-such-program")
    says(127, "^$", "command not found", "run", "/no/such/program")
    says(127, "^$", "command not found", "run", "")
    says(126, "^$", "/etc/passwd: cannot be executed", "run", "/etc/passwd")
    says(126, "^$", "cannot be executed", "run", "/tmp")
    says(0, "^-n --explain\n$", "^$", "run", "--", "printf", "%s\n", "-n --explain")
    says(0, "^--no-sysfs\n$", "^$", "run", "printf", "%s\n", "--no-sysfs")


def test_run_environment():
    def inside(name, *options, **kw):
        p = verbena("run", *options, "sh", "-c", f'printf %s "${name}"', **kw)
        check(f"run {options}", p.returncode == 0, p.stderr)
        return p.stdout

    lib = os.path.realpath(f"{BUILD}/lib")
    check("LD_LIBRARY_PATH", inside("LD_LIBRARY_PATH") == lib)
    check("LD_LIBRARY_PATH kept", inside("LD_LIBRARY_PATH", env={"LD_LIBRARY_PATH": "/x"})
          == lib + ":/x")
    check("LD_PRELOAD", inside("LD_PRELOAD").split(":")[-1] == lib + "/libverbena-sysfs.so")
    check("no sysfs", "sysfs" not in inside("LD_PRELOAD", "--no-sysfs"))
    check("explain", inside("VERBENA_EXPLAIN", "--explain") == "1")
    check("explain to a file", inside("VERBENA_EXPLAIN", "--explain=/x") == "/x")
    check("profile", inside("VERBENA_PROFILE", "--profile", "connectx5") == "connectx5")
    check("carrier", inside("VERBENA_CARRIER", "--carrier=udp") == "udp")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "x.pcapng")
        check("pcap", inside("VERBENA_PCAP", "--pcap", file) == file and
              os.path.getsize(file) == 0)
        with open(file, "r+b") as writer:
            writer.write(b"old")
            writer.flush()
            # struct flock: a read lock of the open file, as who captures holds one
            fcntl.fcntl(writer, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))
            inside("VERBENA_PCAP", "--pcap", file)
            check("pcap of two ends", os.path.getsize(file) == 3)
        inside("VERBENA_PCAP", "--pcap", file)
        check("pcap anew", os.path.getsize(file) == 0)
        says(2, "^$", "x.pcapng: ", "run", "--pcap", os.path.join(folder, "no", "x.pcapng"), "true")
    check("faults", inside("VERBENA_FAULTS", "--faults", "drop=1%;seed=3") == "drop=1%;seed=3")
    says(2, "^$", 'faults: wrong from "color=red" on', "run", "--faults", "drop=2%,color=red",
         "true")
    check("memory", inside("VERBENA_MEMORY", "--memory", "own,wire") == "own,wire")
    says(0, f"^{re.escape(lib)}$", "^$", "run", VERBENA, "run", "sh", "-c",
         'printf %s "$LD_LIBRARY_PATH"')


def test_run_warnings():
    static = next((p for p in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if os.path.exists(p)), None)
    if static and open(static, "rb").read(4) == b"\x7fELF":
        says(0, "", "ldconfig is statically linked", "run", static, "--version")
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return
    with tempfile.TemporaryDirectory() as where:
        os.chmod(where, 0o755)
        program = where + "/true"
        shutil.copy("/bin/true", program)
        os.chown(program, 1, 1)
        os.chmod(program, 0o4755)
        says(0, "^$", "set-uid or set-gid", "run", program)
        os.chmod(program, 0o755)
        says(0, "^$", "^$", "run", program)


def test_moved():
    """A copy of the build works where it is put; with a blank in its path too."""
    with tempfile.TemporaryDirectory() as where:
        for name in ("plain", "with blank"):
            to = f"{where}/{name}"
            os.makedirs(to + "/bin")
            shutil.copy(VERBENA, to + "/bin/verbena")
            shutil.copytree(f"{BUILD}/lib", to + "/lib", symlinks=True)
            says(0, "^verbena0\n$", "^$", "run", "ls", "/sys/class/infiniband",
                 tool=to + "/bin/verbena")
        shutil.rmtree(to + "/lib")
        says(126, "^$", "libraries are not where they belong", "run", "true",
             tool=to + "/bin/verbena")


def test_explain():
    names = [line.split()[0] for line in verbena("explain").stdout.splitlines()]
    check("list", len(names) > 5 and len(set(names)) == len(names), names)
    for name in names:
        says(0, rf"^\[{name}\] .*rule .*source .*do ", "^$", "explain", name)
    says(0, r"^\[busy\]", "^$", "explain", "[busy]")
    says(0, r"^\[not-supported\]", "^$", "explain", "NOT_SUPPORTED")
    says(1, "^$", "there is no rule 'bussy'.*Did you mean:\n  busy ", "explain", "bussy")
    says(1, "^$", "lists them all", "explain", "zzzzzzzzzzzz")
    says(1, "^$", "there is no rule", "explain", "")


def test_doctor():
    p = says(0, r"^ok    device +verbena0 on \S+: .*\nok    libraries .*libibverbs.so.1\n",
             "^$", "doctor")
    for line in p.stdout.splitlines():
        check("form", re.match(r"(ok  |warn|fail)  \S.*", line), line)
    for probe in ("settings", "gids", "files", "runtime", "memfd", "process_vm", "yama",
                  "userfaultfd", "limits", "port 4791"):
        check(probe, re.search(rf"^\w+ +{probe} ", p.stdout, re.M), p.stdout)
    says(0, r"warn  settings +environment: MAX_QP=zz: not allowed", "^$", "doctor",
         env={"VERBENA_MAX_QP": "zz"})
    says(0, "warn  settings .*FROBNICATE=1: unknown", "^$", "doctor",
         env={"VERBENA_FROBNICATE": "1"})
    says(0, "device +a on lo: named by VERBENA_DEVICES.*device +b on lo", "^$", "doctor",
         env={"VERBENA_DEVICES": "a:lo,b:lo"})
    says(0, "device +verbena0 on lo: named by VERBENA_NETDEV", "^$", "doctor",
         env={"VERBENA_NETDEV": "lo"})
    says(0, "warn  device +verbena0: there is no interface none0", "^$", "doctor",
         env={"VERBENA_NETDEV": "none0"})
    says(0, "warn  device +there is none", "^$", "doctor", env={"VERBENA_DEVICES": "none"})
    p = subprocess.run(["sh", "-c", f"ulimit -f 0; ulimit -n 64; exec {VERBENA} doctor | cat"],
                       capture_output=True, text=True)
    check("limits", "warn  memfd" in p.stdout and "open files (ulimit -n): 64: " in p.stdout,
          p.stdout)


def test_doctor_port():
    """Who has the port of RoCE, in a network namespace where somebody does."""
    if subprocess.run(["unshare", "-rn", "true"], check=False).returncode:
        print("no namespaces: the port is not tried")
        check("namespaces", os.environ.get("CI") != "true")
        return
    holder = ("import os, socket, subprocess, sys\n"
              "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
              "s.bind(('::', 4791))\n"
              "print(os.getpid(), flush=True)\n"
              "sys.exit(subprocess.run([sys.argv[1], 'doctor']).returncode)\n")
    p = subprocess.run(["unshare", "-rn", sys.executable, "-c", holder, VERBENA],
                       capture_output=True, text=True, check=False)
    pid = p.stdout.split("\n")[0]
    for ip in ("IPv4", "IPv6"):
        check(f"port of {ip}", re.search(
            rf"^warn  port 4791 +{ip}: process {pid} of user \d+ has it; the device works within",
            p.stdout, re.M), p.stdout + p.stderr)


def main():
    for test in (test_usage, test_run_status, test_run_environment, test_run_warnings,
                 test_moved, test_explain, test_doctor, test_doctor_port):
        test()
    print(f"{checks} checks, {failures} failed")
    return 1 if failures or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
