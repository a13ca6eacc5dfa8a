# SPDX-License-Identifier: BSD-2-Clause
"""Both ends of programs that find each other by address and port (librdmacm)."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import pairs

BUILD = os.environ.get("VB_BUILD") or os.path.join(pairs.SOURCE, "build")
TCP, UDP = 0x106, 0x111


def launcher(nobody=False, env=None):
    """What stands before a program: verbena run, of the installed copy as uid 65534."""
    if not nobody:
        return [os.path.join(BUILD, "bin", "verbena"), "run", "--"]
    prefix = subprocess.run([os.path.join(pairs.SOURCE, "tests", "lib", "install.sh")], check=True,
                            env={**os.environ, "VB_BUILD": BUILD}, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    command = ["env", "-i", "-C", "/", f"PATH={prefix}/bin:/usr/bin:/bin:/usr/sbin:/sbin",
               "HOME=/nonexistent", "LC_ALL=C"]
    command += [f"{name}={value}" for name, value in {**os.environ, **(env or {})}.items()
                if name.startswith("VERBENA_")]
    if os.getuid() == 0:
        command += ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                    "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    return [*command, os.path.join(prefix, "bin", "verbena"), "run", "--"]


def inside(namespace):
    """What stands before a program of a network namespace"""
    return ["ip", "netns", "exec", namespace] if namespace else []


def listens(namespace, space, port):
    """Whether somebody has bound the port there"""
    names = subprocess.run([*inside(namespace), "cat", "/proc/net/unix"], check=True, text=True,
                           errors="replace", stdout=subprocess.PIPE).stdout
    return re.search(rf"@verbena/[^/]+/cm/{space:x}/{port}/", names) is not None


class End:
    """One running program."""

    def __init__(self, argv, namespace=None, nobody=False, env=None):
        self.argv = argv
        self.out = tempfile.TemporaryFile()
        self.child = subprocess.Popen([*inside(namespace), *launcher(nobody, env), *argv],
                                      stdin=subprocess.DEVNULL, stdout=self.out,
                                      stderr=subprocess.STDOUT, env={**os.environ, **(env or {})},
                                      start_new_session=True)

    def wait(self, timeout):
        """Exit status, or "time limit" """
        try:
            return self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return "time limit"

    def kill(self):
        """With all that it has started"""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()

    def end(self):
        """A server that serves on"""
        if self.child.poll() is None:
            self.child.terminate()
            self.child.wait()
        self.kill()

    def said(self):
        """All that it printed"""
        self.out.seek(0)
        return self.out.read().decode(errors="replace")


def accepts(namespace, _, port):
    """Whether a TCP port is listened on there"""
    return subprocess.run([*inside(namespace), "ss", "-Hltn", f"sport = :{port}"], check=True,
                          text=True, stdout=subprocess.PIPE).stdout.strip() != ""


def receives(namespace, _, port):
    """Whether a UDP socket of the system has the port there"""
    rows = subprocess.run([*inside(namespace), "cat", "/proc/net/udp", "/proc/net/udp6"],
                          check=True, text=True, stdout=subprocess.PIPE).stdout
    return re.search(rf"^ *\d+: [0-9A-F]+:{port:04X} ", rows, re.M) is not None


def takes_part(namespace, *_):
    """Whether a process there is in a multicast group"""
    names = subprocess.run([*inside(namespace), "cat", "/proc/net/unix"], check=True, text=True,
                           errors="replace", stdout=subprocess.PIPE).stdout
    return re.search(r"@verbena/[^/]+/mcast/", names) is not None


def run(server, client, *, port=0, space=TCP, where=(None, None), nobody=False, serves_on=False,
        timeout=60, env=None, check=None, ready=listens):
    """One pair. "" where all went well, else what did not.

    ready(namespace, space, port): whether the server listens.
    serves_on: the server does not end by itself. check(server's output, client's output):
    what is wrong about them, or nothing.
    """
    first = End(server, where[0], nobody, env)
    try:
        limit = time.monotonic() + timeout
        while not ready(where[0], space, port):
            if first.child.poll() is not None or time.monotonic() > limit:
                return f"the server never listened: {first.wait(0)}\n{first.said()}"
            time.sleep(0.02)
        second = End(client, where[1], nobody, env)
        status = second.wait(timeout)
        if serves_on:
            first.end()
        server_status = 0 if serves_on else first.wait(timeout if status == 0 else 1)
        wrong = check(first.said(), second.said()) if check and not status else ""
        if status or server_status or wrong:
            return (f"server {server_status}, client {status} {wrong or ''}\n--- server\n"
                    f"{first.said()[-2000:]}\n--- client\n{second.said()[-2000:]}")
        return ""
    finally:
        first.end()


class Table:
    """Pairs, each said and counted; the exit status of the whole"""

    def __init__(self):
        self.tried, self.failed = 0, []

    def run(self, name, *args, times=1, env=None, **options):
        """One line of the table. A {number} in env is the pair's"""
        start = time.monotonic()
        wrong = ""
        for number in range(1, times + 1):
            numbered = {key: value.format(number=number) for key, value in (env or {}).items()}
            wrong = run(*args, env=numbered, **options)
            if wrong:
                wrong = f"pair {number} of {times}: {wrong}"
                break
        self.say(name, wrong, time.monotonic() - start)

    def say(self, name, wrong, took=0):
        """What is wrong about one line of the table, "" nothing"""
        self.tried += 1
        print(f"{'FAILED' if wrong else 'ok    '} {took:6.2f} s  {name}", flush=True)
        if wrong:
            print(wrong, flush=True)
            self.failed.append(name)

    def finish(self):
        """The last words"""
        print(f"{self.tried} cases, {len(self.failed)} failed"
              + "".join(f"\n  {name}" for name in self.failed))
        sys.exit(1 if self.failed else 0)
