# SPDX-License-Identifier: BSD-2-Clause
"""A virtual machine with the kernel's Soft-RoCE, as the neighbour of a network namespace."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HOST, GUEST = "10.77.0.254", "10.77.0.1"
BOOT = 180
ASKED = 150


def need():
    """Skip, with the reason as last line, where no guest can be made."""
    for program in ("qemu-system-x86_64", "debootstrap", "mke2fs", "ip", "ss"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            print(f"{program} is not installed")
            sys.exit(77)
    with open("/etc/os-release", encoding="utf-8") as release:
        if "ID=debian\n" not in release.read():
            print("the guest is made of Debian's packages")
            sys.exit(77)
    if os.geteuid():
        print("a network namespace with a bridge cannot be made (needs root)")
        sys.exit(77)


def wait_for(what, limit, done, *also):
    """Until @done() is true. @also: processes without which it will not be."""
    end = time.monotonic() + limit
    while not done():
        for process in also:
            if process.poll() is not None and not done():
                raise RuntimeError(f"{what}: ended with {process.returncode}")
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {limit} s")
        time.sleep(0.02)


def ended(*_):
    """Ended from outside: leave nothing behind, though it be asked for twice."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


class Guest:
    """As a context: namespace, bridge and guest, all gone at its end."""

    def __init__(self, mtu=1500):
        self.mtu = mtu
        self.netns = f"verbena-{os.getpid()}-vm"
        self.asked = 0
        self.folder = self.process = None

    def __enter__(self):
        signal.signal(signal.SIGTERM, ended)
        made = subprocess.run([os.path.join(HERE, "image")], check=True, stdout=subprocess.PIPE,
                              text=True)
        self.folder = tempfile.mkdtemp(prefix="verbena-interop.")
        try:
            self.make_network()
            self.boot(made.stdout.strip())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            open(self.path("out", "stop"), "w", encoding="ascii").close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        subprocess.run(["ip", "netns", "del", self.netns], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *words):
        """A file of the folder that is shared with the guest."""
        return os.path.join(self.folder, *words)

    def make_network(self):
        """The bridge is the host's interface; the guest hangs on it by a tap."""
        subprocess.run(["ip", "netns", "add", self.netns], check=True)
        subprocess.run(["ip", "netns", "exec", self.netns, "sh", "-euc", """
            echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
            ip link set lo up
            ip link add br0 type bridge mcast_snooping 0
            ip tuntap add dev tap0 mode tap
            echo 1 >/proc/sys/net/ipv6/conf/tap0/disable_ipv6
            ip link set tap0 mtu "$1" master br0 up
            ip link set br0 mtu "$1" up
            ip addr add "$2"/24 dev br0""", "network", str(self.mtu), HOST], check=True)

    def boot(self, cache):
        """Until the guest says that it is ready."""
        for name in ("in", "out"):
            os.mkdir(self.path(name))
        shutil.copy(os.path.join(HERE, "guest-init"), self.path("in"))
        with open(self.path("in", "env"), "w", encoding="ascii") as env:
            env.write(f"ADDRESS={GUEST}/24 MTU={self.mtu}\n")
        shared = []
        for name in ("in", "out"):
            shared += ["-fsdev", f"local,id={name},path={self.path(name)},security_model=none,"
                       "multidevs=remap",
                       "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}"]
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.netns, "setpriv", "--pdeathsig", "KILL",
             "qemu-system-x86_64", "-name", "verbena,debug-threads=on", "-nodefaults",
             "-no-user-config", "-nographic", "-no-reboot", "-machine", "q35",
             "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,-erms", "-smp", "2",
             "-m", "2G", "-kernel", f"{cache}/vmlinuz", "-initrd", f"{cache}/initrd.img",
             "-append", "console=ttyS0 panic=-1 tsc=reliable mitigations=off",
             "-serial", f"file:{self.path('console')}",
             "-drive", f"file={cache}/root.img,if=none,id=d0,format=raw,snapshot=on",
             "-device", "virtio-blk-pci,drive=d0", "-device", "virtio-rng-pci", *shared,
             "-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no",
             "-device", "virtio-net-pci,netdev=n0,mac=52:54:0a:4d:00:01,romfile="],
            stdin=subprocess.DEVNULL)
        try:
            wait_for("guest", BOOT, lambda: os.path.exists(self.path("out", "ready")),
                     self.process)
        except RuntimeError:
            with open(self.path("console"), encoding="utf-8", errors="replace") as console:
                print("".join(console.readlines()[-25:]))
            raise

    def spread(self):
        """Each processor of the guest on one of the machine's: two on one would take turns of
        milliseconds, now and then."""
        free = sorted(os.sched_getaffinity(0))
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{thread}/comm", encoding="ascii") as name:
                processor = re.match(r"CPU (\d+)/", name.read())
            if processor:
                os.sched_setaffinity(int(thread), {free[int(processor[1]) % len(free)]})

    def start(self, command):
        """Begin a shell command in the guest. Returns its number."""
        self.asked += 1
        name = self.path("out", f"{self.asked}.cmd")
        with open(name + ".new", "w", encoding="utf-8") as script:
            script.write(command + "\n")
        os.rename(name + ".new", name)
        return self.asked

    def finish(self, number):
        """Exit status and output of a command that was begun."""
        status = self.path("out", f"{number}.rc")
        wait_for("command in the guest", ASKED, lambda: os.path.exists(status), self.process)
        with open(status, encoding="ascii") as file:
            code = int(file.read())
        with open(self.path("out", f"{number}.out"), encoding="utf-8", errors="replace") as file:
            return code, file.read()

    def run(self, command):
        """Run a shell command in the guest. Returns its output."""
        code, output = self.finish(self.start(command))
        if code:
            raise RuntimeError(f"{command}: {code}: {output}")
        return output

    def wait_listening(self, port):
        """Until something in the guest listens on a TCP port."""
        self.run(f"until ss -Hltn 'sport = :{port}' | grep -q .; do sleep 0.05; done")

    def on_host(self, command):
        """The words that run @command in the namespace beside the guest."""
        return ["ip", "netns", "exec", self.netns, *command]
