# SPDX-License-Identifier: BSD-2-Clause
"""Two clients and a server on a link that loses packets: nobody starves, all data is right."""
import os
import re
import select
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netns
import workers

# What comes in, packet or buffer of packets, is lost by chance.
LOSS = """
table inet loss {
    chain input {
        type filter hook input priority 0
        udp dport 4791 numgen random mod 100 < %d counter drop
    }
}
"""
# A race takes as long as it takes; this says that nothing moves any more.
STUCK = 300.0


def need():
    """Skip, with the reason as last line, where a link of that kind cannot be made."""
    netns.need()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if not shutil.which("nft"):
        print("nft is not installed")
        sys.exit(77)


def lossy(name, per_cent):
    """From now on a namespace loses what comes in."""
    subprocess.run(["ip", "netns", "exec", name, "nft", "-f", "-"], input=LOSS % per_cent,
                   text=True, check=True)


def lost(name):
    """How many it has lost."""
    rules = subprocess.run(["ip", "netns", "exec", name, "nft", "list", "ruleset"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    return int(re.search(r"counter packets (\d+)", rules).group(1))


def worker(bench, name, options):
    """An end in a namespace."""
    end = bench.worker(prefix=("ip", "netns", "exec", name))
    return end.open(f"gid=1 {options}")


class Race:
    """A server, and clients that send to it; links are the QPs of each client."""

    def __init__(self, bench, star, links, ops, size=65536):
        self.ops = ops
        clients = len(star.names) - 1
        # Asleep while nothing comes, so that the link and not the processors say who gets on.
        options = f"size={size} timeout=18 events=1 ops={ops}"
        self.server = worker(bench, star.names[0], f"links={links * clients} {options}")
        self.clients = [worker(bench, name, f"links={links} {options}") for name in star.names[1:]]
        for number, client in enumerate(self.clients):
            workers.connect(client, self.server, count=links, at=number * links)

    def start(self, rounds=0):
        """All send; the server answers what needs a program."""
        self.server.say(f"busy rounds=1 ops={'s' if 's' in self.ops else ''}")
        for client in self.clients:
            client.say(f"busy rounds={rounds} ops={self.ops}")

    def first(self):
        """Wait until one has sent all of its rounds."""
        waiting = {client.process.stdout: client for client in self.clients}
        ready = select.select(list(waiting), [], [], STUCK)[0]
        if not ready:
            raise workers.Hang("".join(client.where() for client in self.clients))
        for file in ready:
            word, _ = waiting[file].hear(of="busy")
            if word != "finished":
                raise AssertionError(f"{word} instead of the end of the race")

    def stop(self):
        """All stop sending: what each client has sent."""
        for client in self.clients:
            client.say("result")
        sent = []
        for client in self.clients:
            while True:
                word, facts = client.hear(of="result")
                if word == "result":
                    break
            sent.append(int(workers.good(facts, "client")["sent"]))
        return sent

    def close(self):
        """Nothing was wrong at the server either."""
        for client in self.clients:
            client.quit()
        self.server.say("result")
        while self.server.hear(of="result")[0] != "result":
            pass
        self.server.quit()


def race(star, links, rounds):
    """Until the first client is done: what the slowest has sent by then, of what the first has."""
    with workers.Bench() as bench:
        runners = Race(bench, star, links, "w")
        runners.start(rounds)
        runners.first()
        sent = runners.stop()
        runners.close()
    print(f"{'ok    ' if 2 * min(sent) >= max(sent) else 'FAILED'} {links} QPs each: "
          f"{' and '.join(map(str, sent))} messages", flush=True)
    return 2 * min(sent) < max(sent)


def mixed(star, links, rounds):
    """All kinds of requests on many QPs, each with its data checked, to their end."""
    with workers.Bench() as bench:
        runners = Race(bench, star, links, "wrafs", size=16384)
        runners.start(rounds)
        for client in runners.clients:
            word, facts = client.hear(STUCK, "busy")
            assert word == "finished", word
            workers.good(facts, "client")
        sent = runners.stop()
        runners.close()
    print(f"ok     {links} QPs, mixed: {sum(sent)} requests", flush=True)


def endure(star, links, seconds, step=10):
    """For so long: everybody gets on in each step, and nobody gets twice what another gets."""
    bad = 0
    with workers.Bench() as bench:
        runners = Race(bench, star, links, "w")
        before = [0] * len(runners.clients)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            runners.start()
            time.sleep(step)
            sent = runners.stop()
            runners.server.say("result")
            while runners.server.hear(of="result")[0] != "result":
                pass
            moved = [now - then for now, then in zip(sent, before)]
            before = sent
            print(f"{'ok    ' if min(moved) else 'FAILED'} {moved}", flush=True)
            bad |= min(moved) == 0
        for end in (*runners.clients, runners.server):
            end.quit()
    print(f"{'ok    ' if 2 * min(before) >= max(before) else 'FAILED'} in all {before}")
    return bad or 2 * min(before) < max(before)
