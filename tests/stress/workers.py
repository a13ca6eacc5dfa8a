# SPDX-License-Identifier: BSD-2-Clause
"""Drives ends of the workload (tests/stress/worker_test.c): processes, joined, hurt."""
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("VB_BUILD") or sys.exit("VB_BUILD names the build")
PROGRAM = os.path.join(BUILD, "tests", "stress.worker_test")
# What a loaded machine may add to any answer that needs no timer.
PATIENCE = 30.0


class Hang(Exception):
    """No answer in time."""


class Died(Exception):
    """The process ended instead of answering."""


class Garbled(Exception):
    """What it answers are not words."""


def sanitized():
    """Is this build instrumented? Then all takes longer."""
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
        return any(line.startswith("VB_SANITIZE") and line.strip()[-1] != "=" for line in cache)


class Worker:
    """One end in a process of its own."""

    def __init__(self, runtime, prefix=(), **env):
        self.pid = None
        self.facts = {}
        self.buffer = b""
        self.errors = tempfile.TemporaryFile()
        environ = dict(os.environ, VERBENA_RUNTIME_DIR=runtime, **env)
        self.process = subprocess.Popen([*prefix, PROGRAM, "serve"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, env=environ)
        self.pid = self.process.pid

    def say(self, line):
        """Give a command without waiting for its answer."""
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as broken:
            raise Died(self.obituary(line)) from broken

    def hear(self, wait=PATIENCE, of=""):
        """The next answer: (word, {name: value})."""
        until = time.monotonic() + wait
        while b"\n" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Hang(f"pid {self.pid}: no answer to '{of}' within {wait} s\n"
                           + self.where())
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise Died(self.obituary(of))
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        if not line.isascii() or not line.split():
            raise Garbled(f"pid {self.pid}: answers {line!r} to '{of}'")
        words = line.decode().split()
        return words[0], dict(word.split("=", 1) for word in words[1:] if "=" in word)

    def ask(self, line, wait=PATIENCE):
        """A command and its answer."""
        self.say(line)
        return self.hear(wait, line)

    def open(self, options=""):
        """Open the device; what the peer needs to know is kept in facts."""
        word, facts = self.ask(f"open {options}")
        if word == "failed":
            raise RuntimeError(f"open: {facts}")
        self.facts = facts
        return self

    def remake(self):
        """New QPs for a new peer."""
        word, facts = self.ask("remake")
        if word == "failed":
            raise RuntimeError(f"remake: {facts}")
        self.facts = facts
        return facts

    def where(self):
        """What the threads are doing, for a failure's report."""
        text = ""
        for task in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{task}/stat", encoding="utf-8") as stat:
                    state = stat.read().rsplit(")", 1)[1].split()[0]
                with open(f"/proc/{self.pid}/task/{task}/wchan", encoding="utf-8") as wchan:
                    text += f"  task {task}: {state} {wchan.read()}\n"
            except OSError:
                pass
        if shutil.which("gdb"):
            done = subprocess.run(["gdb", "-p", str(self.pid), "-batch", "-ex",
                                   "thread apply all bt 12"], text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            text += done.stdout[-6000:]
        return text

    def printed(self):
        """What it wrote to standard error."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def obituary(self, line):
        """Why it ended."""
        return (f"pid {self.pid}: ended with {self.process.wait()} at '{line}'\n"
                + self.printed()[-8000:])

    def signal(self, number):
        """Send a signal to this process alone."""
        os.kill(self.pid, number)

    def stop(self):
        """SIGSTOP, and wait until every thread has stopped."""
        self.signal(signal.SIGSTOP)
        self.stopped()

    def stopped(self, wait=PATIENCE):
        """Wait until it is stopped; False when it has ended instead."""
        until = time.monotonic() + wait
        while time.monotonic() < until:
            # A thread group: the parent learns of the stop when all threads have.
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return True
            if pid:
                self.process.returncode = (-os.WTERMSIG(status) if os.WIFSIGNALED(status)
                                           else os.WEXITSTATUS(status))
                return False
            time.sleep(0.0005)
        raise Hang(f"pid {self.pid} does not stop")

    def resume(self):
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def kill(self):
        """SIGKILL, and reap."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def quit(self):
        """End in good order; nothing may have been wrong, nothing printed."""
        word, facts = self.ask("quit")
        code = self.process.wait(PATIENCE)
        if word != "closed" or code or facts["bad"] != "0" or self.printed():
            raise AssertionError(f"closing: {word} {facts} exit {code}\n{self.printed()}")
        return facts

    def end(self):
        """Whatever state it is in, it goes away."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            try:
                file.close()
            except OSError:
                pass


def connect(one, two, first=0, count=64, at=0, more=""):
    """Join links first... of one with links at... of two."""
    for here, there, mine, other in ((one, two, first, at), (two, one, at, first)):
        facts = there.facts
        word, answer = here.ask(f"connect gid={facts['gid']} qpn={facts['qpn']} "
                                f"base={facts['base']} rkey={facts['rkey']} from={mine} "
                                f"first={other} count={count} {more}")
        if word != "connected" or answer["errno"] != "0":
            raise AssertionError(f"connect: {word} {answer}")


class Bench:
    """A runtime directory and the workers in it; both go at the end."""

    def __init__(self):
        self.runtime = tempfile.mkdtemp(prefix="verbena-stress-")
        self.workers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.clear()
        shutil.rmtree(self.runtime, ignore_errors=True)

    def worker(self, options=None, **env):
        """One more process, its device opened unless options is None."""
        new = Worker(self.runtime, **env)
        self.workers.append(new)
        return new if options is None else new.open(options)

    def pair(self, options=""):
        """Two, joined."""
        one, two = self.worker(options), self.worker(options)
        connect(one, two)
        return one, two

    def clear(self):
        """End all that are left."""
        for worker in self.workers:
            worker.end()
        self.workers = []

    def leftovers(self):
        """What is still in the runtime directory."""
        return sorted(os.listdir(self.runtime))

    def swept(self):
        """After the last one was killed: the next start sweeps, its end leaves nothing."""
        self.worker("links=1").quit()
        if self.leftovers():
            raise AssertionError(f"left in the runtime directory: {self.leftovers()}")


def good(facts, what=""):
    """Nothing was wrong and no request failed."""
    if facts["bad"] != "0" or facts["statuses"] or facts["dead"] != "0":
        raise AssertionError(f"{what}: {facts}")
    return facts


def seed(name="VB_SEED"):
    """A seed that is printed, so that a failure can be tried again."""
    value = int(os.environ.get(name) or random.SystemRandom().randrange(1 << 32))
    print(f"{name}={value}", flush=True)
    return random.Random(value)
