# SPDX-License-Identifier: BSD-2-Clause
"""Two network namespaces with a veth between them: two hosts on one machine."""
import os
import shutil
import subprocess
import sys


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
        return self

    def __exit__(self, *_):
        for name in self.names:
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
