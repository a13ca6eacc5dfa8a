#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The device as files: what programs see of it below /sys and /dev under `verbena run`.

The files and their forms are compared with those of Linux's software RoCE (recorded in
golden/sysfs-rxe0.txt), their values with what the library says; programs of the system
that go through files each in their own way are run on them; and taking an interface down
in a network namespace changes what is read.
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
VERBENA = f"{BUILD}/bin/verbena"
IB = "/sys/class/infiniband"
DEV = IB + "/verbena0"
PORT = DEV + "/ports/1"
SANITIZED = bool(re.search(r"^VB_SANITIZE:STRING=.+", open(f"{BUILD}/CMakeCache.txt").read(),
                           re.M)) if os.path.exists(f"{BUILD}/CMakeCache.txt") else False

failures = 0
checks = 0


def check(what, ok, detail=""):
    global failures, checks
    checks += 1
    if not ok:
        failures += 1
        print(f"FAIL {what}: {str(detail)[:600]}")


def run(*command, verbena=VERBENA, env=None, **kw):
    full = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
    full.update(env or {})
    return subprocess.run([verbena, "run", "--", *command], env=full, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=200, **kw)


def prints(want, *command, status=0, **kw):
    p = run(*command, **kw)
    check(" ".join(command), p.stdout == want and p.returncode == status,
          f"{p.returncode} {p.stdout!r} {p.stderr!r}, want {want!r}")


def matches(pattern, *command, status=0, **kw):
    p = run(*command, **kw)
    check(" ".join(command), re.search(pattern, p.stdout + p.stderr, re.S) and
          p.returncode == status, f"{p.returncode} {p.stdout!r} {p.stderr!r}, want {pattern!r}")


def test_programs():
    prints("4: ACTIVE\n", "cat", PORT + "/state")
    prints("verbena0\n", "ls", IB)
    matches(r"lrwxrwxrwx.* verbena0 -> \.\./\.\./devices/", "ls", "-l", IB)
    matches(r"-r--r--r--\s+1 root\s+root\s+4096 .* node_guid\n", "ls", "-l", DEV + "/")
    matches(r"crw-rw-rw-\s+1 root\s+root\s+231, 192 ", "ls", "-l", "/dev/infiniband")
    matches(r"\binfiniband\n.*\bnet\n", "ls", "/sys/class")
    prints("infiniband\n", "sh", "-c", "ls /dev | grep -x infiniband")
    matches(r"^regular file 444 4096$", "stat", "-c", "%F %a %s", PORT + "/state")
    matches(r"^character special file 666 e7 c0$", "stat", "-c", "%F %a %t %T",
            "/dev/infiniband/uverbs0")
    prints(PORT + "/state\n", "find", DEV + "/", "-name", "state", "-type", "f")
    prints(DEV + "\n", "find", "/sys/class", "-maxdepth", "2", "-name", "verbena0")
    # Empty entries of the GID table cannot be read, which grep says and goes on.
    prints(PORT + "/link_layer:Ethernet\n", "grep", "-rx", "Ethernet", DEV + "/", status=2)
    prints("", "test", "-e", PORT + "/gids/0")
    prints("", "test", "-e", PORT + "/gids/none", status=1)
    prints("", "test", "-c", "/dev/infiniband/uverbs0", "-a", "-w", "/dev/infiniband/uverbs0")
    prints("", "test", "-w", PORT + "/state", status=1)
    matches(r"^/sys/devices/\S+/infiniband/verbena0$", "readlink", "-f", DEV)
    matches(r"^/sys/devices/\S+/verbena0$", "realpath", DEV + "/device")
    matches(r"No such file or directory", "cat", DEV + "/none", status=1)
    matches(r"Is a directory", "cat", PORT, status=1)
    matches(r"Not a directory", "cat", PORT + "/state/x", status=1)
    matches(r"Invalid argument", "sh", "-c", f"cat $(ls -d {PORT}/gid_attrs/types/* | sort -V"
            " | tail -1)", status=1)
    for shell in ("sh", "bash"):
        prints("Ethernet\n", shell, "-c", f'read x < {PORT}/link_layer && echo "$x"')
        prints("Ethernet\nverbena0\n", shell, "-c",
               f"cd {PORT} && cat link_layer && cd ../../.. && ls")
        prints(f"{PORT}\n", shell, "-c", f"cd {PORT} && pwd")
        prints(f"{PORT}/state\n", shell, "-c", f"echo {IB}/*/ports/*/sta*")
        matches(r"[Pp]ermission denied", shell, "-c", f"echo 1 > {PORT}/state", status=2
                if shell == "sh" and os.path.realpath("/bin/sh").endswith("dash") else 1)
    prints("1: CA\n", "sh", "-c", f"find {DEV}/ -name node_type -execdir cat {{}} ';'")
    with tempfile.TemporaryDirectory() as to:
        prints("", "cp", "-r", PORT + "/pkeys", to + "/copy")
        check("cp -r", open(to + "/copy/0").read() == "0xffff\n")
    if shutil.which("perl"):
        prints("verbena0 1: CA\n", "perl", "-e", f'opendir D, "{IB}"; print grep {{!/^\\./}} '
               f'readdir D; open F, "<{DEV}/node_type"; print " ", <F>')


PYTHON = f"""
import glob, os
assert os.listdir({IB!r}) == ["verbena0"]
assert os.path.isdir({IB!r}) and os.path.islink({DEV!r}) and os.path.isdir({DEV!r})
assert open({PORT!r} + "/state").read() == "4: ACTIVE\\n"
assert sum(len(f) for _, _, f in os.walk({DEV!r})) > 100
for top, dirs, files, fd in os.fwalk({PORT!r}):
    for name in files:
        assert os.stat(name, dir_fd=fd).st_ino == os.stat(top + "/" + name).st_ino
assert glob.glob({IB!r} + "/*/ports/1/state") == [{PORT!r} + "/state"]
with os.scandir({IB!r}) as entries:
    entry, = entries
    assert entry.is_symlink() and entry.is_dir() and entry.inode() == entry.stat(
        follow_symlinks=False).st_ino
os.chdir({IB!r})
assert os.getcwd() == {IB!r} and open("verbena0/ports/1/lid").read() == "0x0\\n"
print("done")
"""


def test_python():
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        if os.access(python, os.X_OK):
            prints("done\n", python, "-c", PYTHON)


def test_calls():
    with tempfile.TemporaryDirectory() as where:
        program = where + "/calls"
        subprocess.run([os.environ.get("CC", "cc"), "-D_GNU_SOURCE", "-O2",
                        "-D_FORTIFY_SOURCE=2", "-w", "-pthread", "-o", program,
                        *(["-DSANITIZED=1"] if SANITIZED else []),
                        os.path.join(APPS, "calls", "sysfs_calls.c")], check=True)
        prints("", program)
        # A process that may not make files grow, or has few descriptors.
        prints("4: ACTIVE\n", "sh", "-c", f"ulimit -f 0; cat {PORT}/state")
        prints("4: ACTIVE\n", "sh", "-c", f"ulimit -n 8; cat {PORT}/state")


# Not shown: power management and the CM's counters, which are the kernel's own.
NOT_SHOWN = re.compile(r"/(power|cm_(rx|tx)_\w+)(/|$)")


def form_of(value):
    """What a value of the recording looks like, as a pattern."""
    if re.fullmatch(r"([0-9a-f]{4}:){3,7}[0-9a-f]{4}", value):
        return r"([0-9a-f]{4}:){%d}[0-9a-f]{4}" % value.count(":")
    if re.fullmatch(r"0x[0-9a-f]+", value):
        return "0x[0-9a-f]{%s}" % (len(value) - 2 if len(value) > 3 else "1,")
    if re.fullmatch(r"\d+", value):
        return r"\d+"
    if value.endswith(")"):
        return r"\d+(\.5)? Gb/sec \(\d+X [A-Z]DR(10)?\)"
    fixed = {"1: CA", "4: ACTIVE", "5: LinkUp", "Ethernet", "RoCE v2"}
    return re.escape(value) if value in fixed else ".*"


def test_against_rxe():
    """Every file of Linux's software RoCE is there, in the same form."""
    seen = 0
    paths = []
    for line in open(os.path.join(APPS, "golden", "sysfs-rxe0.txt")):
        m = re.fullmatch(r"(/sys/class/infiniband\S*/\S+): ?(.*)\n", line)
        if m and not NOT_SHOWN.search(m[1]) and "_mad/umad" not in m[1]:
            paths.append((m[1].replace("rxe0", "verbena0"), m[2].strip()))
    out = run("sh", "-c", 'for f; do printf "%s=%s\\n" "$f" "$(cat "$f" 2>&1 | tr "\\n" " ")"; '
              "done", "sh", *[p for p, _ in paths]).stdout
    values = dict(line.split("=", 1) for line in out.splitlines())
    for path, recorded in paths:
        value = values.get(path, "(missing)").strip()
        seen += 1
        if not recorded and "gid_attrs" in path:
            want = r"cat: .*: Invalid argument|.+"
        elif path.endswith(("gids/2", "gids/3", "types/2", "ndevs/2")):
            want = ".*"
        else:
            want = form_of(recorded)
        check(path, re.fullmatch(want, value) and "No such file" not in value,
              f"{value!r}, want {want!r}")
    check("recorded files", seen > 50, f"only {seen}")


def test_against_library():
    """The files and ibv_devinfo tell the same."""
    text = run(f"{BUILD}/bin/ibv_devinfo", "-v").stdout

    def told(label):
        return re.search(rf"^\s*{label}:\s*(.*)$", text, re.M)[1]

    def file(name):
        return run("cat", name).stdout.strip()

    check("node_guid", told("node_guid") == file(DEV + "/node_guid"))
    check("sys_image_guid", told("sys_image_guid") == file(DEV + "/sys_image_guid"))
    check("fw_ver", told("fw_ver") == file(DEV + "/fw_ver"))
    check("vendor", told("vendor_id") == file(DEV + "/device/vendor")
          or int(told("vendor_id"), 16) & 0xffff == int(file(DEV + "/device/vendor"), 16))
    check("state", told("state").split()[0] == "PORT_" + file(PORT + "/state").split()[1])
    check("cap_mask", told("port_cap_flags") == file(PORT + "/cap_mask"))
    check("gid_tbl_len", int(told("gid_tbl_len")) ==
          len(run("ls", PORT + "/gids").stdout.split()))
    width = int(told("active_width").split("X")[0])
    speed = float(told("active_speed").split()[0])
    check("rate", float(file(PORT + "/rate").split()[0]) == width * speed, file(PORT + "/rate"))
    gids = dict(re.findall(r"GID\[\s*(\d+)\]:\s*(\S+), RoCE v2", text))
    import ipaddress
    for index, gid in gids.items():
        check("gid " + index, ipaddress.ip_address(file(f"{PORT}/gids/{index}")) ==
              ipaddress.ip_address(gid))
        check("type " + index, file(f"{PORT}/gid_attrs/types/{index}") == "RoCE v2")


def test_profile():
    env = {"VERBENA_PROFILE": "connectx5"}
    prints("mlx5_0\n", "ls", IB, env=env)
    prints("16.28.0578\n", "cat", IB + "/mlx5_0/fw_ver", env=env)
    prints("0x15b3\n" if "0x15b3" in run("cat", IB + "/mlx5_0/device/vendor", env=env).stdout
           else "0x02c9\n", "cat", IB + "/mlx5_0/device/vendor", env=env)
    prints("", "ls", IB, env={"VERBENA_DEVICES": "none"})
    prints("a\nb\n", "ls", IB, env={"VERBENA_DEVICES": "a:lo,b:lo"})


def test_field_programs():
    """Programs of the field that look for the files by name."""
    # The system's libibumad, not the stand-in, which has no ports to offer.
    ibstat = shutil.which("ibstat", path="/usr/sbin:/usr/bin")
    if ibstat:
        matches(r"CA 'verbena0'.*State: Active.*Physical state: LinkUp.*Rate: \d.*"
                r"Link layer: Ethernet", "env", "LD_LIBRARY_PATH=", ibstat)
    ibstatus = shutil.which("ibstatus", path="/usr/sbin:/usr/bin")
    if ibstatus:
        matches(r"Infiniband device 'verbena0' port 1 status:.*state:\s+4: ACTIVE", ibstatus)
    if shutil.which("ucx_info") and not SANITIZED:
        matches(r"Device: verbena0:1", "ucx_info", "-d")
    # What NCCL, UCX and hwloc ask for.
    prints("", "sh", "-c", f"test -r {DEV}/device/local_cpus -a -r {DEV}/device/numa_node "
           f"-a -r {DEV}/device/vendor -a -d $(readlink -f {DEV}/device)")
    matches(r"^RoCE v2$", "head", "-c", "7", PORT + "/gid_attrs/types/0")
    net = run("cat", PORT + "/gid_attrs/ndevs/0").stdout.strip()
    prints(net + "\n", "ls", DEV + "/device/net")
    if os.path.exists(f"/sys/class/net/{net}/device"):
        prints("verbena0\n", "ls", f"/sys/class/net/{net}/device/infiniband")
        matches(r"\binfiniband_verbs\n", "ls", f"/sys/class/net/{net}/device/")


LIVE = r"""
set -e
ip link add vb0 type veth peer name vb1
ip link set lo up; ip link set vb0 up; ip link set vb1 up; ip addr add 192.0.2.1/24 dev vb0
export VERBENA_NETDEV=vb0
v="$1 run --"
p=/sys/class/infiniband/verbena0/ports/1
echo "$($v cat $p/state) $($v cat $p/phys_state)"
ip link set vb0 down
echo "$($v cat $p/state) $($v cat $p/phys_state)"
ip link set vb0 up
echo "$($v cat $p/state)"
$v sh -c "for i in up down up; do ip link set vb0 \$i; read x < $p/state; echo \$x; done"
$v sh -c "ip addr add 192.0.2.77/24 dev vb0; cat $p/gids/*" | grep -c c000:024d
$v cat $p/../../device/infiniband_verbs/uverbs0/ibdev
"""


def test_live():
    if os.geteuid() != 0:
        prefix = ["unshare", "-Urn"]
    else:
        prefix = ["unshare", "-n"]
    if subprocess.run(prefix + ["sh", "-c", "ip link add vb0 type veth peer name vb1"],
                      capture_output=True).returncode:
        print("note: no network namespaces with veth here: link up and down not tried")
        return
    p = subprocess.run(prefix + ["bash", "-c", LIVE, "live", VERBENA], capture_output=True,
                       text=True, env={k: v for k, v in os.environ.items()
                                       if not k.startswith("LD_")})
    check("live", p.stdout == "4: ACTIVE 5: LinkUp\n1: DOWN 3: Disabled\n4: ACTIVE\n"
          "4: ACTIVE\n1: DOWN\n4: ACTIVE\n1\nverbena0\n", f"{p.stdout!r} {p.stderr!r}")


def test_export():
    """The folder holds what the view shows."""
    with tempfile.TemporaryDirectory() as where:
        to = where + "/tree"
        p = subprocess.run([VERBENA, "sysfs", to], capture_output=True, text=True)
        check("verbena sysfs", p.returncode == 0, p.stderr)
        shown = run("sh", "-c", f"cd {DEV}/ && find . -type f | sort | while read f; do "
                    'x=$(cat $f 2>/dev/null) && echo "$f $x"; done').stdout
        wrote = subprocess.run(["sh", "-c", f"cd {to}/class/infiniband/verbena0/ && find . "
                                '-type f | sort | while read f; do x=$(cat $f) && echo "$f $x"; '
                                "done"], capture_output=True, text=True).stdout
        check("same files", shown == wrote and shown.count("\n") > 100,
              f"{len(shown)} {len(wrote)}")
        p = subprocess.run([VERBENA, "sysfs", "/proc/none"], capture_output=True, text=True)
        check("verbena sysfs refused", p.returncode == 1 and "/proc/none" in p.stderr, p.stderr)


def test_user():
    """As a user with no rights, from an installed copy."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("note: not root: an ordinary user's view is the one tested above")
        return
    prefix = subprocess.run(["bash", os.path.join(SOURCE, "tests/lib/install.sh")], text=True,
                            capture_output=True)
    check("install", prefix.returncode == 0, prefix.stderr)
    if prefix.returncode:
        return
    tool = prefix.stdout.strip() + "/bin/verbena"
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
            "--bounding-set=-all", "--inh-caps=-all"]
    for command, want in ((["cat", PORT + "/state"], r"^4: ACTIVE\n$"),
                          (["sh", "-c", f"cd {DEV}/ports && ls && cat 1/lid"], r"^1\n0x0\n$"),
                          (["find", DEV + "/", "-name", "rate"], r"/ports/1/rate\n$"),
                          (["test", "-w", "/dev/infiniband/uverbs0"], "^$"),
                          (["ibv_devices"], r"\n    verbena0 +\t[0-9a-f]{16}\n$"),
                          (["sh", "-c", f"echo 1 2>&1 > {DEV}/fw_ver"], "enied")):
        p = subprocess.run(user + [tool, "run", "--"] + command, capture_output=True, text=True,
                           cwd="/", env={"PATH": prefix.stdout.strip() + "/bin:" +
                                         os.environ["PATH"], "HOME": "/nonexistent"})
        check(f"uid 65534: {command}", re.search(want, p.stdout + p.stderr) and
              (p.returncode == 0) == (want != "enied"),
              f"{p.returncode} {p.stdout!r} {p.stderr!r}")


def leftovers():
    places = {"/dev/shm", "/tmp", "/var/tmp", os.environ.get("TMPDIR", "/tmp"),
              os.environ.get("XDG_RUNTIME_DIR", "/tmp")}
    return {os.path.join(place, name) for place in places if os.path.isdir(place)
            for name in os.listdir(place) if name.startswith(".verbena-")}


def main():
    for needed in (VERBENA, f"{BUILD}/lib/libverbena-sysfs.so"):
        if not os.path.exists(needed):
            print(f"{needed} is missing")
            return 1
    before = leftovers()
    for test in (test_programs, test_python, test_calls, test_against_rxe, test_against_library,
                 test_profile, test_field_programs, test_live, test_export, test_user):
        test()
    check("nothing is left behind", leftovers() <= before, leftovers() - before)
    print(f"{checks} checks, {failures} failed")
    return 1 if failures or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
