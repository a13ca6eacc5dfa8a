# SPDX-License-Identifier: BSD-2-Clause
"""Network namespaces joined by veths: several hosts on one machine."""
import os
import shutil
import subprocess
import sys
import time

CARRIER = 30


class Link:
    """As a context: two namespaces of our own, gone at its end.

    Addresses are 10.77.0.1 and 10.77.0.2, fd77::1 and fd77::2, and the link-local ones.
    """

    def __init__(self, mtu=1500):
        self.mtu = mtu
        self.names = [f"verbena-{os.getpid()}-{end}" for end in "ab"]

    def ip(self, *words):
        """One ip(8) command."""
        subprocess.run(["ip", *words], check=True)

    def __enter__(self):
        for name in self.names:
            self.ip("netns", "add", name)
            # Addresses count at once: nobody else is on this link.
            subprocess.run(["ip", "netns", "exec", name, "sh", "-c",
                            "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad"], check=True)
        one, two = self.names
        self.ip("link", "add", "eth0", "netns", one, "type", "veth", "peer", "name", "eth0",
                "netns", two)
        for number, name in enumerate(self.names, 1):
            self.ip("-n", name, "link", "set", "eth0", "mtu", str(self.mtu))
            self.ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            self.ip("-n", name, "addr", "add", f"fd77::{number}/64", "dev", "eth0", "nodad")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "set", "eth0", "up")
        for name in self.names:
            self.wait_link_local(name)
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    @staticmethod
    def wait_link_local(name):
        """Until the interface has its link-local address: some time after it has a carrier."""
        end = time.monotonic() + CARRIER
        while "inet6" not in subprocess.run(
                ["ip", "-n", name, "-6", "-o", "addr", "show", "dev", "eth0", "scope", "link",
                 "-tentative"], check=True, stdout=subprocess.PIPE, text=True).stdout:
            if time.monotonic() > end:
                raise RuntimeError(f"{name}: no link-local address within {CARRIER} s")
            time.sleep(0.01)


class Star:
    """As a context: a server and some clients, joined by a switch that is a namespace too.

    Addresses are 10.77.0.1 for the server, whose name is names[0], and from 10.77.0.2 on. With
    a rate (tc-tbf(8)) the switch's port to the server takes no more, and has a short queue.
    """

    def __init__(self, clients, mtu=1500, rate=None):
        self.mtu, self.rate = mtu, rate
        self.names = [f"verbena-{os.getpid()}-{end}" for end in range(clients + 1)]
        self.switch = f"verbena-{os.getpid()}-switch"

    def ip(self, name, *words):
        """One ip(8) command in a namespace."""
        subprocess.run(["ip", "-n", name, *words], check=True)

    def join(self, number, name):
        """A veth from the switch to a namespace."""
        port = f"port{number}"
        self.ip(self.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0",
                "netns", name)
        self.ip(self.switch, "link", "set", port, "mtu", str(self.mtu), "master", "br0", "up")
        self.ip(name, "link", "set", "eth0", "mtu", str(self.mtu))
        self.ip(name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
        self.ip(name, "link", "set", "lo", "up")
        self.ip(name, "link", "set", "eth0", "up")

    def __enter__(self):
        for name in (self.switch, *self.names):
            subprocess.run(["ip", "netns", "add", name], check=True)
        self.ip(self.switch, "link", "add", "br0", "mtu", str(self.mtu), "type", "bridge")
        self.ip(self.switch, "link", "set", "br0", "up")
        for number, name in enumerate(self.names):
            self.join(number, name)
        if self.rate:
            subprocess.run(["tc", "-n", self.switch, "qdisc", "add", "dev", "port0", "root", "tbf",
                            "rate", self.rate, "burst", "128k", "limit", "256k"], check=True)
        return self

    def __exit__(self, *_):
        for name in (self.switch, *self.names):
            subprocess.run(["ip", "netns", "del", name], check=False)


def need():
    """Skip, with the reason as last line, where no namespaces can be made."""
    if not shutil.which("ip"):
        print("ip is not installed")
        sys.exit(77)
    name = f"verbena-{os.getpid()}-try"
    if subprocess.run(["ip", "netns", "add", name], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        print("network namespaces cannot be made (needs root)")
        sys.exit(77)
    subprocess.run(["ip", "netns", "del", name], check=False)
