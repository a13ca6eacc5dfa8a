# SPDX-License-Identifier: BSD-2-Clause
"""Programs of the field in surroundings that lack something."""
import ctypes
import errno
import os
import platform
import re
import signal
import shutil
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("VB_BUILD") or sys.exit("VB_BUILD names the build")
SOURCE = os.environ.get("VB_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
LIMIT = 30
PINGPONG = ["ibv_rc_pingpong", "-g", "0", "-n", "40"]
WRITE_BW = ["ib_write_bw", "-F", "-n", "200"]

# What a filter forbids, by number.
SYSCALLS = {
    "x86_64": {"process_vm_readv": 310, "process_vm_writev": 311, "ptrace": 101,
               "memfd_create": 319, "madvise": 28, "timerfd_create": 283, "epoll_create1": 291,
               "eventfd2": 290, "set_robust_list": 273, "fallocate": 285, "prctl": 157,
               "pwritev": 296, "preadv": 295, "clone3": 435, "pipe2": 293, "socket": 41,
               "mincore": 27, "statfs": 137, "fstatfs": 138, "timerfd_settime": 286,
               "readlink": 89, "getdents64": 217, "ioctl": 16, "fcntl": 72, "sched_yield": 24,
               "bind": 49, "ftruncate": 77, "mkdir": 83, "unlinkat": 263},
    "aarch64": {"process_vm_readv": 270, "process_vm_writev": 271, "ptrace": 117,
                "memfd_create": 279, "madvise": 233, "timerfd_create": 85, "epoll_create1": 20,
                "eventfd2": 19, "set_robust_list": 99, "fallocate": 47, "prctl": 167,
                "pwritev": 70, "preadv": 69, "clone3": 435, "pipe2": 59, "mincore": 232},
}.get(platform.machine(), {})


def seccomp(names, answer=errno.EPERM):
    """For preexec_fn: from here on these system calls fail."""
    numbers = [SYSCALLS[name] for name in names]

    def forbid():
        program = struct.pack("HBBI", 0x20, 0, 0, 0)
        for i, number in enumerate(numbers):
            program += struct.pack("HBBI", 0x15, len(numbers) - i, 0, number)
        program += struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000)
        program += struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | answer)
        kept = ctypes.create_string_buffer(program)
        fprog = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
        libc = ctypes.CDLL(None)
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.create_string_buffer(fprog)):
            os._exit(125)
    return forbid


def need(*programs):
    """Skip where something is not installed."""
    for program in programs:
        if not shutil.which(program):
            print(f"{program} is not installed")
            sys.exit(77)


def installed():
    """Where the installed copy is, readable by everybody."""
    # Not in /tmp, which some surroundings take away.
    done = subprocess.run([f"{SOURCE}/tests/lib/install.sh"], text=True, check=False,
                          stdout=subprocess.PIPE, env={"TMPDIR": "/var/tmp", **os.environ})
    return done.stdout.strip() if done.returncode == 0 else sys.exit("no installed copy")


class Surroundings:
    """Who runs the programs, and what stands before them."""

    def __init__(self, prefix, nobody):
        self.prefix = prefix
        self.nobody = nobody and os.geteuid() == 0
        self.home = tempfile.mkdtemp(prefix="verbena-hostile-")
        self.runtime = os.path.join(self.home, "run")
        os.mkdir(self.runtime, 0o700)
        if self.nobody:
            os.chmod(self.home, 0o755)
            os.chown(self.runtime, 65534, 65534)

    def close(self):
        """Remove what was made."""
        shutil.rmtree(self.home, ignore_errors=True)

    def start(self, argv, before=(), env=None, filter_=None, launcher=True):
        """A program on the device: user, limits, launcher, program."""
        command = list(before)
        if self.nobody:
            command += ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                        "--inh-caps=-all", "--bounding-set=-all"]
        command += [f"{self.prefix}/bin/verbena", "run", "--", *argv] if launcher else argv
        environ = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": "/nonexistent",
                   "VERBENA_RUNTIME_DIR": self.runtime, **(env or {})}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                environ[name] = os.environ[name]
        if not launcher:
            environ["LD_LIBRARY_PATH"] = f"{self.prefix}/lib/verbena"
        environ = {name: value for name, value in environ.items() if value is not None}
        return subprocess.Popen(command, env=environ, cwd="/", preexec_fn=filter_,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)


def listens(port):
    """Somebody listens on the TCP port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as rows:
                if any(re.search(rf":{port:04X} \S+ 0A ", row) for row in rows):
                    return True
        except OSError:
            pass
    return False


def finish(process):
    """(exit status, output); a negative status is a signal, None no end in time."""
    try:
        output, _ = process.communicate(timeout=LIMIT)
        return process.returncode, output.decode(errors="replace")
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return None, output.decode(errors="replace")


PORTS = [21000 + os.getpid() % 9000]


def run_pair(where, argv, **how):
    """Both ends: [(status, output), (status, output)]."""
    PORTS[0] += 1
    while listens(PORTS[0]):
        PORTS[0] += 1
    port = ["-p", str(PORTS[0])]
    server = where.start(argv + port, **how)
    until = time.monotonic() + LIMIT
    while not listens(PORTS[0]) and server.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    if server.poll() is not None:
        return [finish(server)]
    client = where.start(argv + port + ["127.0.0.1"], **how)
    ends = [finish(client)]
    # A client that was refused leaves its server waiting.
    if ends[0][0] and server.poll() is None:
        try:
            server.wait(0.3)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGINT)
            server.communicate()
            return ends
    return ends + [finish(server)]


def verdict(ends, must):
    """'' or what is wrong: a signal, no end, something printed by us, a failure that must not be."""
    for status, output in ends:
        if status is None:
            return "no end in time"
        if status < 0 or status > 128:
            return f"ended by signal {-status if status < 0 else status - 128}"
        if re.search(r"^verbena(\[|:)|Sanitizer|runtime error:", output, re.M):
            return "the library printed something"
        if status == 0 and must is False:
            return "went well, but was to be refused"
        if status and must:
            return f"failed with {status}"
    return ""


def case(name, where, argv, must=None, **how):
    """One pair, one line. must: True both exit 0, None either way. Returns 1 on failure."""
    begun = time.monotonic()
    ends = run_pair(where, argv, **how)
    wrong = verdict(ends, must)
    good = all(status == 0 for status, _ in ends)
    print(f"{'FAILED' if wrong else 'ok    '} {'works  ' if good else 'refused'} "
          f"{time.monotonic() - begun:5.1f} s  {name}{' (nobody)' if where.nobody else ''}: "
          f"{argv[0]} {wrong}", flush=True)
    if wrong:
        for status, output in ends:
            print(f"--- exit {status}\n{output[-3000:]}")
    elif not good:
        said = [line for _, output in ends for line in output.splitlines() if line.strip()]
        if not said:
            print("FAILED refused without a word")
            return 1
        print(f"                         says: {said[-1][:120]}")
    return 1 if wrong else 0


def limits(where):
    """ulimit: what must still work, and what may be refused."""
    bad = 0
    for name, option, must in (
            ("-l 0", "--memlock=0", True), ("-n 64", "--nofile=64", True),
            ("-n 20", "--nofile=20", None), ("-n 12", "--nofile=12", None),
            ("-f 0", "--fsize=0", None), ("-f 100000", "--fsize=100000", None),
            ("-v 4 GB", "--as=4294967296", True), ("-v 256 MB", "--as=268435456", None),
            ("-v 64 MB", "--as=67108864", None), ("-s 256 KB", "--stack=262144", True),
            ("-d 1 MB", "--data=1048576", None)):
        bad += case(f"ulimit {name}", where, PINGPONG, must, before=("prlimit", option))
    if where.nobody:
        # Counted for the user: no thread can be made, pollers drive.
        bad += case("ulimit -u 1", where, PINGPONG, None, before=("prlimit", "--nproc=1"))
    return bad


def filters(where):
    """seccomp without what containers forbid."""
    bad = 0
    copies = ("process_vm_readv", "process_vm_writev")
    for name, calls, answer, must in (
            ("process_vm_*", copies, errno.EPERM, True),
            ("process_vm_*, ENOSYS", copies, errno.ENOSYS, True),
            ("process_vm_*, ptrace", (*copies, "ptrace"), errno.EPERM, True),
            ("process_vm_*, pwritev, preadv", (*copies, "pwritev", "preadv"), errno.EPERM, None),
            ("memfd_create", ("memfd_create",), errno.EPERM, None),
            ("memfd_create, ENOSYS", ("memfd_create",), errno.ENOSYS, None),
            ("prctl", ("prctl",), errno.EPERM, None),
            ("timerfd, epoll, eventfd", ("timerfd_create", "epoll_create1", "eventfd2"),
             errno.EPERM, True),
            ("set_robust_list", ("set_robust_list",), errno.EPERM, None),
            ("madvise", ("madvise",), errno.EPERM, None),
            ("fallocate", ("fallocate",), errno.EOPNOTSUPP, None),
            ("clone3", ("clone3",), errno.ENOSYS, True),
            ("pipe2", ("pipe2",), errno.EPERM, None),
            ("mincore", ("mincore",), errno.EPERM, True)):
        if all(call in SYSCALLS for call in calls):
            bad += case(f"seccomp {name}", where, PINGPONG, must, filter_=seccomp(calls, answer))
    bad += case("seccomp process_vm_*", where, WRITE_BW, True, filter_=seccomp(copies))
    return bad


def steps(where):
    """Every step of the memory ladder alone."""
    bad = 0
    for memory, must in (("cross", True), ("procmem", True), ("scatter,cross", True),
                         ("mapped", None), ("own", None), ("none", None)):
        for program in (PINGPONG, WRITE_BW):
            bad += case(f"VERBENA_MEMORY={memory}", where, program, must,
                        env={"VERBENA_MEMORY": memory})
    return bad


def in_namespace(script):
    """Something to put before a program: a mount namespace prepared by a shell."""
    return ("unshare", "-m", "sh", "-c", script + '; exec "$@"', "sh")


def places(where):
    """No place to meet, or a bad one; mounts need root."""
    if os.geteuid():
        return 0
    bad = 0
    ro = "mount -t tmpfs -o ro,size=16k none"
    own = {"VERBENA_RUNTIME_DIR": None}
    bad += case("the usual place", where, PINGPONG, True, env=own)
    bad += case("no /dev/shm", where, PINGPONG, True, env=own,
                before=in_namespace(f"{ro} /dev/shm; {ro} /run"))
    bad += case("no place at all", where, PINGPONG, None, env=own,
                before=in_namespace(f"{ro} /dev/shm; {ro} /run; {ro} /tmp"))
    bad += case("a place that is not there", where, PINGPONG, None,
                env={"VERBENA_RUNTIME_DIR": "/nonexistent/verbena"})
    bad += case("a place of another user", where, PINGPONG, None,
                env={"VERBENA_RUNTIME_DIR": "/" if where.nobody else "/proc"})
    bad += case("a file as place", where, PINGPONG, None,
                env={"VERBENA_RUNTIME_DIR": "/etc/passwd"})
    bad += case("no /sys", where, PINGPONG, None, before=in_namespace("umount -l /sys"))
    bad += case("no /proc", where, PINGPONG, None, launcher=False,
                before=in_namespace("umount -l /proc"))
    return bad + full_disk(where)


def full_disk(where):
    """A runtime directory on a disk without a free byte, then with some."""
    bad = 0
    for size in ("4k", "64k", "128k"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none",
                        where.runtime], check=True)
        try:
            owner = 65534 if where.nobody else 0
            os.chown(where.runtime, owner, owner)
            os.chmod(where.runtime, 0o700)
            bad += case(f"a disk of {size}", where, PINGPONG, None)
            left = os.listdir(where.runtime)
            if left:
                print(f"FAILED a disk of {size} leaves {left}")
                bad += 1
        finally:
            subprocess.run(["umount", where.runtime], check=True)
    return bad


def settings():
    """Names of all settings."""
    with open(f"{SOURCE}/src/base/settings.def", encoding="utf-8") as rows:
        return re.findall(r"^VB_SETTING\((\w+)", rows.read(), re.M)


GARBAGE = ("", " ", "0", "1", "-1", "00", "0x", "0xffffffffffffffffff", "99999999999999999999",
           "none", "all", "auto", "lo", "%n%s%d", "/", "//", "/dev/null", "/dev/zero", "/proc/1/mem",
           "/etc", "a,b,c,,,", "=", "verbena0", "verbena0:lo", "verbena0:lo,verbena0:lo", "mlx5_0:eth0",
           "connectx5", "../../etc/passwd", "x" * 300, "y" * 5000, "\x01\x02\xff", "\n", "1,2", "\u00e9",
           ",", ":", "::", "65536", "65537", "3.5", "1e9", "ffff:ffff:ffff:ffff")


def random_settings(where, dice, times):
    """Random settings: a device, or none, or an error; nothing else."""
    bad = 0
    names = [name for name in settings() if name != "EXPLAIN"] + ["TEST_STEP", "NOTHING", "", "A" * 99]
    for _ in range(times):
        env = {f"VERBENA_{dice.choice(names)}": dice.choice(GARBAGE)
               for _ in range(dice.randrange(1, 6))}
        env = {name: value for name, value in env.items() if "\0" not in value}
        if dice.random() < 0.2:
            ends = run_pair(where, PINGPONG, env=env)
        else:
            ends = [finish(where.start(dice.choice((["ibv_devinfo", "-v"], ["ibv_devices"])),
                                       env=env))]
        wrong = verdict(ends, None)
        if wrong:
            print(f"FAILED {env}: {wrong}\n{ends}", flush=True)
            bad += 1
    print(f"{times} random settings, {bad} bad", flush=True)
    return bad


def random_filters(where, dice, times):
    """Random system calls fail with random errors."""
    bad = 0
    for _ in range(times if SYSCALLS else 0):
        calls = dice.sample(sorted(SYSCALLS), dice.randrange(1, 5))
        # Programs themselves need these.
        calls = [call for call in calls if call not in ("socket", "bind", "ioctl")]
        answer = dice.choice((errno.EPERM, errno.ENOSYS, errno.EACCES, errno.ENOMEM))
        # The launcher has its own needs and says so.
        wrong = verdict(run_pair(where, PINGPONG, launcher=False,
                                 filter_=seccomp(calls, answer)), None)
        if wrong:
            print(f"FAILED seccomp {calls} {answer}: {wrong}", flush=True)
            bad += 1
    print(f"{times} random filters, {bad} bad", flush=True)
    return bad
