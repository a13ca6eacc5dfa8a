# SPDX-License-Identifier: BSD-2-Clause
"""A network namespace as a host whose counters are looked at."""
import os
import subprocess

PORT = "/sys/class/infiniband/verbena0/ports/1/"


class Host:
    """A namespace whose adapter lives while nothing else runs on it."""

    def __init__(self, name):
        verbena = os.path.join(os.environ["VB_BUILD"], "bin", "verbena")
        self.enter = ["ip", "netns", "exec", name, verbena, "run", "--"]
        self.holder = subprocess.Popen([*self.enter, "ibv_asyncwatch"], stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.before = {}

    def close(self):
        """End the process that holds the adapter."""
        self.holder.terminate()
        self.holder.wait()

    def read(self):
        """All counters."""
        lines = subprocess.run([*self.enter, "sh", "-c", f"cd {PORT} && grep . counters/* "
                                "hw_counters/*"], check=True, stdout=subprocess.PIPE, text=True)
        return {line.rpartition("/")[2].split(":")[0]: int(line.split(":")[1])
                for line in lines.stdout.splitlines()}

    def grown(self):
        """What has been counted since the last time."""
        now = self.read()
        grown = {name: now[name] - self.before.get(name, 0) for name in now}
        self.before = now
        return grown


def wrong(got, **want):
    """What is not as it should be, as text; a pair is a lower and an upper bound."""
    found = []
    for name, value in want.items():
        low, high = value if isinstance(value, tuple) else (value, value)
        if not low <= got[name] <= high:
            found.append(f"{name} {got[name]}, not {value}")
    return "; ".join(found)
