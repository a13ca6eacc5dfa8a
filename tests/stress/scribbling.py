# SPDX-License-Identifier: BSD-2-Clause
"""Both parts of a segment overwritten while they are in use."""
import contextlib
import os
import subprocess
import time

import killing
import workers

# Two queues whose rows were overwritten may name one place in the mailbox: what the thread sanitizer
# then calls a race is what was asked for. Crashes and hangs are looked for here.
os.environ["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":report_bugs=0"

# Every wait ends by a timer: 4 times 16.8 ms of silence, 6 times not ready.
TIMERS = "timeout=12 retry=3 rnr=6"
ALIVE_AT = 32  # struct vb_mbx_header.alive
WAIT = 20.0  # what all timers of one request and of ten destroyed objects cannot reach


def parts(pid):
    """The memory files of a process's segment: {name: path}."""
    found = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{number}"
        try:
            name = os.readlink(path)
        except OSError:
            continue
        if name.startswith("/memfd:verbena-"):
            found[name.removeprefix("/memfd:verbena-").split()[0]] = path
    return found


def everywhere(make):
    """The whole part."""
    return lambda fd, size, dice: os.pwrite(fd, make(size, dice), 0)


def words(count, make, reach=1 << 40):
    """Single words, among them some of those that two processes share."""
    def scribble(fd, size, dice):
        for _ in range(count):
            at = dice.randrange(min(size, reach) // 8) * 8
            old = int.from_bytes(os.pread(fd, 8, at), "little")
            os.pwrite(fd, (make(old, dice, fd, size) & (1 << 64) - 1).to_bytes(8, "little"), at)
    return scribble


def other_word(_old, dice, fd, size):
    """A word from elsewhere in the part: garbage that looks like the real thing."""
    return int.from_bytes(os.pread(fd, 8, dice.randrange(size // 8) * 8), "little")


WAYS = {
    "random": everywhere(lambda size, dice: dice.randbytes(size)),
    "zero": everywhere(lambda size, dice: bytes(size)),
    "ones": everywhere(lambda size, dice: b"\xff" * size),
    "header": lambda fd, size, dice: os.pwrite(fd, dice.randbytes(4096), 0),
    "page": lambda fd, size, dice: os.pwrite(fd, dice.randbytes(4096),
                                             dice.randrange(size // 4096) * 4096),
    "words": words(300, lambda old, dice, *_: dice.getrandbits(64)),
    "flips": words(300, lambda old, dice, *_: old ^ 1 << dice.randrange(64)),
    "small": words(300, lambda old, dice, *_: dice.randrange(20)),
    "near": words(300, lambda old, dice, *_: old + dice.choice((-1, 1, 64, -4096, 1 << 32))),
    "others": words(300, other_word),
}


def scribble(path, way, dice):
    """Overwrite one part of the victim's segment."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        WAYS[way](fd, os.fstat(fd).st_size, dice)
    finally:
        os.close(fd)


def answers(end, what):
    """The end is alive: busy or not, it tells its result."""
    end.say("result")
    while True:
        word, facts = end.hear(WAIT, f"result, {what}")
        if word == "result":
            return facts


class Scene:
    """A victim, its peer, and a third process that must not notice anything."""

    def __init__(self, bench, options):
        self.bench, self.options = bench, options
        self.peer = bench.worker(f"links=4 {TIMERS} {options}")
        self.third = bench.worker(f"links=2 {TIMERS} {options}")
        self.victim, self.paths = None, {}
        # Links 2 and 3 of the peer are the third's.
        workers.connect(self.third, self.peer, first=0, count=2, at=2, more="rnr=7")

    def join(self):
        """A fresh victim on links 0 and 1 of the peer."""
        self.victim = self.bench.worker(f"links=2 {TIMERS} {self.options}")
        # Now, for later it has those of its peers open too, while it maps them.
        self.paths = parts(self.victim.pid)
        workers.connect(self.victim, self.peer, first=0, count=2, at=0, more="rnr=6")

    def turn(self, part, way, dice, peer_ops):
        """One overwriting. What it did to the victim must not reach the others."""
        what = f"{part} {way} {self.options}"
        self.join()
        self.third.say("busy")
        self.peer.say(f"busy ops={peer_ops}")
        self.victim.say("busy")
        time.sleep(dice.uniform(0.002, 0.01))
        for _ in range(dice.randrange(1, 4)):
            scribble(self.paths[part], way, dice)
            time.sleep(dice.uniform(0, 0.004))
        self.leave(what, may_die="w" in peer_ops and part == "published")

    def leave(self, what, may_die):
        """All are still there; the victim ends, the peer makes new QPs for the next."""
        # Where the peer writes to addresses that somebody made up, the victim's own memory may be
        # hit, its heap and the buffer of its answers too: then only the others are judged.
        if may_die:
            with contextlib.suppress(workers.Garbled, workers.Hang, subprocess.TimeoutExpired):
                self.depart(what)
        else:
            code = self.depart(what)
            if code not in (0, 1) or self.victim.printed():
                raise AssertionError(f"victim, {what}: exit {code}\n{self.victim.printed()}")
        answers(self.peer, f"peer, {what}")
        facts = answers(self.third, f"third, {what}")
        # Such a write may even hit what the victim has mapped of others' mailboxes.
        if not may_die:
            workers.good(facts, what)
        if self.peer.printed():
            raise AssertionError(f"peer, {what}\n{self.peer.printed()}")
        self.victim.end()
        self.bench.workers.remove(self.victim)
        self.remake()

    def depart(self, what):
        """The victim says its result and ends, if it has not ended before; its exit status."""
        with contextlib.suppress(workers.Died):
            answers(self.victim, f"victim, {what}")
            self.victim.ask("remake", WAIT)
            self.victim.ask("quit", WAIT)
        return self.victim.process.wait(WAIT)

    def remake(self):
        """New QPs on all links of the peer, and so of the third."""
        for end in (self.peer, self.third):
            word, end.facts = end.ask("remake", WAIT)
            if word == "failed":
                raise AssertionError(f"remake: {end.facts}")
        workers.connect(self.third, self.peer, first=0, count=2, at=2, more="rnr=7")


def run(dice, times, options="", lifetime=40):
    """So many overwritings, every way, both parts."""
    done = 0
    while done < times:
        with workers.Bench() as bench:
            scene = Scene(bench, options)
            for _ in range(min(lifetime, times - done)):
                part = dice.choice(("published", "mailbox"))
                ops = dice.choice(("wrafs", "f", "s"))
                scene.turn(part, dice.choice(sorted(WAYS)), dice, ops)
                done += 1
            scene.peer.ask("quit", WAIT)
            scene.third.quit()
            bench.swept()
    print(f"overwritten {done} times, {options or 'private memory'}", flush=True)


def dead_unmarked(garbage):
    """A process that dies with its liveness word overwritten is found dead all the same."""
    with workers.Bench() as bench:
        options = f"links=2 size=32 {killing.TIMERS}"
        alive, victim = bench.worker(options), bench.worker(options)
        fd = os.open(parts(victim.pid)["mailbox"], os.O_RDWR | os.O_CLOEXEC)
        workers.connect(alive, victim)
        killing.rounds(alive, victim)
        os.pwrite(fd, garbage.to_bytes(4, "little"), ALIVE_AT)
        os.close(fd)
        victim.kill()
        # Receives that are posted still take what comes; then nobody is ready.
        alive.say("busy ops=s")
        killing.ended(alive)
