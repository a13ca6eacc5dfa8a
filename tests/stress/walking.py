# SPDX-License-Identifier: BSD-2-Clause
"""A random walk of verbs over several processes, and a model of what each must give.

The processes (tests/stress/walker_test.c) do one verb at a time, so the model knows what
every call returns, which completions come, and what memory holds afterwards. Some
processes are killed or stopped, idle or in the middle of a series of WRITEs.
"""
import argparse
import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib

import workers

PROGRAM = os.path.join(workers.BUILD, "tests", "stress.walker_test")
PATIENCE = 60.0
RC, UC, UD = 2, 3, 4
RESET, INIT, RTR, RTS, ERR = 0, 1, 2, 3, 6
WRITE, SEND, READ, ADD = 0, 2, 4, 6
LOCAL, R_WRITE, R_READ, R_ATOMIC = 1, 2, 4, 8
OK, LEN_ERR, FLUSH, INV_REQ, ACCESS, SILENCE, NOT_READY = 0, 1, 5, 9, 10, 12, 13
EINVAL, EBUSY = 22, 16
QKEY = 0x1234
# Opcodes of completions.
WC = {WRITE: 1, SEND: 0, READ: 2, ADD: 4, "recv": 128}
# Memory of a process: what peers reach, then places of receives, then sources and results.
TARGET, SLOT, SLOTS = 1 << 16, 4096 + 64, 24
RECV_AT = TARGET
OWN_AT, OWN = RECV_AT + SLOT * SLOTS, 1 << 14
# What a series of WRITEs goes over, from the start of the target.
SERIES = 4096


class Wrong(AssertionError):
    """Something was not as the model says."""


def pattern(key, length):
    """What the command fill writes."""
    base = bytes((key * 31 + i * 7) & 255 for i in range(256))
    return (base * (length // 256 + 1))[:length]


class Receive:
    """A posted receive: its place in memory, and what arrives there."""

    def __init__(self, number, slot, length):
        self.number, self.slot, self.length = number, slot, length
        self.at, self.data, self.grh = RECV_AT + slot * SLOT, None, 0


class Queue:
    """A queue pair as the model knows it."""

    def __init__(self, slot, kind, pd, scq, rcq, srq):
        self.slot, self.kind, self.pd, self.scq, self.rcq, self.srq = slot, kind, pd, scq, rcq, srq
        self.state, self.number, self.peer = RESET, 0, None
        self.gone = False
        self.receives = collections.deque()
        # What must come, in order: (wr_id, status, opcode, length, Receive or None).
        self.sent, self.received = collections.deque(), collections.deque()


class Process:
    """A walker and the model of all it has."""

    def __init__(self, walk, name):
        self.walk, self.name = walk, name
        self.errors = tempfile.TemporaryFile()
        self.run = subprocess.Popen([PROGRAM, "serve"], stdin=subprocess.PIPE, bufsize=0,
                                    stdout=subprocess.PIPE, stderr=self.errors,
                                    env=dict(os.environ, VERBENA_RUNTIME_DIR=walk.runtime))
        self.lines = os.fdopen(os.dup(self.run.stdout.fileno()), "rb")
        self.stopped, self.next = None, 0
        self.pds, self.mrs, self.cqs, self.srqs, self.qps = {}, {}, {}, {}, {}
        self.free = set(range(SLOTS))
        self.memory = bytearray(OWN_AT + OWN)
        self.base = self.must(0, "open")[0]

    def say(self, text):
        """Give a command without waiting."""
        self.walk.note(f"{self.name}: {text}")
        self.run.stdin.write(text.encode() + b"\n")

    def hear(self, text):
        """The answer: errno, then numbers or words."""
        if not workers.select.select([self.lines], [], [], PATIENCE)[0]:
            raise Wrong(f"{self.name}: no answer to '{text}' within {PATIENCE} s\n" + self.where())
        line = self.lines.readline()
        if not line:
            self.errors.seek(0)
            raise Wrong(f"{self.name}: ended with {self.run.wait()} at '{text}'\n"
                        + self.errors.read().decode(errors="replace")[-8000:])
        words = line.decode().split()
        self.walk.note(f"{self.name}:   -> {line.decode().strip()[:200]}")
        return int(words[0]), words[1:]

    def where(self):
        """What its threads do."""
        if not shutil.which("gdb"):
            return ""
        done = subprocess.run(["gdb", "-p", str(self.run.pid), "-batch", "-ex",
                               "thread apply all bt 12"], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.stdout[-6000:]

    def must(self, wanted, *command):
        """A command whose errno is known beforehand."""
        text = " ".join(str(word) for word in command)
        self.say(text)
        code, words = self.hear(text)
        if code != wanted:
            raise Wrong(f"{self.name}: '{text}' gave {code}, not {wanted}")
        return [int(word) for word in words] if command[0] != "poll" else words

    def number(self):
        """A wr_id not used before."""
        self.next += 1
        return self.next

    def slot(self, table, most):
        """A free place in a table of objects, None when it holds as many as we want."""
        left = [i for i in range(most) if i not in table]
        return self.walk.dice.choice(left) if left else None

    def some(self, table, good=lambda _: True):
        """One of the objects."""
        all_of_them = [thing for thing in table.values() if good(thing)]
        return self.walk.dice.choice(all_of_them) if all_of_them else None

    def end(self):
        """Away with it, whatever it does."""
        if self.run.poll() is None:
            self.run.kill()
        self.run.wait()
        for file in (self.run.stdin, self.run.stdout, self.lines, self.errors):
            file.close()


class Walk:
    """The processes, the dice, and the steps that can be taken."""

    def __init__(self, seed, processes):
        self.dice = random.Random(seed)
        self.runtime = tempfile.mkdtemp(prefix="verbena-walk-")
        self.log = collections.deque(maxlen=int(os.environ.get("VB_WALK_LOG", 60)))
        self.counts = collections.Counter()
        self.born = 0
        self.all = []
        for _ in range(processes):
            self.all.append(self.start())

    def note(self, text):
        """The last of these are shown when something is wrong."""
        self.log.append(text)

    def start(self):
        """One more process, with a few objects to begin with."""
        self.born += 1
        new = Process(self, f"p{self.born}")
        for make in (self.make_pd, self.make_cq, self.make_mr, self.make_srq):
            make(new)
        return new

    def awake(self):
        """Processes that can be asked."""
        return [process for process in self.all if not process.stopped]

    # ---- Objects ----

    def make_pd(self, p):
        """A protection domain."""
        slot = p.slot(p.pds, 3)
        if slot is not None:
            p.must(0, "pd", slot)
            p.pds[slot] = slot

    def drop_pd(self, p):
        """EBUSY while anything is in it."""
        pd = p.some(p.pds)
        if pd is None:
            return
        used = any(mr["pd"] == pd for mr in p.mrs.values()) or any(
            thing.pd == pd for thing in p.qps.values()) or any(
                srq["pd"] == pd for srq in p.srqs.values())
        p.must(EBUSY if used else 0, "pdx", pd)
        if not used:
            del p.pds[pd]

    def make_mr(self, p):
        """A region of the target part or all memory, with some rights."""
        slot, pd = p.slot(p.mrs, 8), p.some(p.pds)
        if slot is None or pd is None:
            return
        at, length = 0, OWN_AT + OWN
        rights = LOCAL | R_WRITE | R_READ | R_ATOMIC
        if self.dice.random() < 0.3:
            at = self.dice.randrange(0, TARGET - 8192)
            length = self.dice.randrange(64, 8192)
            rights = self.dice.choice((0, LOCAL, LOCAL | R_WRITE, R_READ, LOCAL | R_ATOMIC))
        wrong = self.dice.random() < 0.1
        if wrong:
            rights = self.dice.choice((R_WRITE, R_ATOMIC))  # without LOCAL_WRITE
        answer = p.must(EINVAL if wrong else 0, "mr", slot, pd, at, length, rights)
        if not wrong:
            p.mrs[slot] = {"slot": slot, "pd": pd, "at": at, "length": length, "rights": rights,
                           "lkey": answer[0], "rkey": answer[1], "uses": 0}

    def drop_mr(self, p):
        """Regions that receives stand in, or a series of WRITEs goes through, stay."""
        mr = p.some(p.mrs, lambda mr: not mr["uses"])
        if mr:
            p.must(0, "mrx", mr["slot"])
            del p.mrs[mr["slot"]]

    def make_cq(self, p):
        """A completion queue with room for all that is ever outstanding."""
        slot = p.slot(p.cqs, 3)
        if slot is not None:
            p.must(0, "cq", slot, 1024)
            p.cqs[slot] = slot

    def drop_cq(self, p):
        """EBUSY while a QP uses it."""
        cq = p.some(p.cqs)
        if cq is None:
            return
        used = any(cq in (qp.scq, qp.rcq) for qp in p.qps.values())
        p.must(EBUSY if used else 0, "cqx", cq)
        if not used:
            del p.cqs[cq]

    def make_srq(self, p):
        """A shared receive queue."""
        slot, pd = p.slot(p.srqs, 2), p.some(p.pds)
        if slot is not None and pd is not None:
            p.must(0, "srq", slot, pd, 16)
            p.srqs[slot] = {"slot": slot, "pd": pd, "receives": collections.deque()}

    def drop_srq(self, p):
        """EBUSY while a QP uses it; what is posted is forgotten."""
        srq = p.some(p.srqs)
        if not srq:
            return
        used = any(qp.srq is srq for qp in p.qps.values())
        p.must(EBUSY if used else 0, "srqx", srq["slot"])
        if not used:
            self.forget(p, srq["receives"])
            del p.srqs[srq["slot"]]

    def make_qp(self, p):
        """Of any kind; UC with a shared receive queue is refused."""
        slot, pd, scq, rcq = p.slot(p.qps, 12), p.some(p.pds), p.some(p.cqs), p.some(p.cqs)
        if slot is None or pd is None or scq is None:
            return
        kind = self.dice.choice((RC, RC, RC, UC, UD))
        srq = p.some(p.srqs, lambda s: s["pd"] == pd) if self.dice.random() < 0.3 else None
        wrong = kind == UC and srq is not None
        answer = p.must(EINVAL if wrong else 0, "qp", slot, pd, scq, rcq,
                        srq["slot"] + 1 if srq else 0, kind)
        if not wrong:
            qp = p.qps[slot] = Queue(slot, kind, pd, scq, rcq, srq)
            qp.number, qp.process = answer[0], p

    def drop_qp(self, p):
        """Any time: its completions and receives go with it."""
        qp = p.some(p.qps, lambda qp: not self.disturbs(qp))
        if not qp:
            return
        p.must(0, "qpx", qp.slot)
        self.lose(qp)
        qp.gone, qp.state = True, RESET
        del p.qps[qp.slot]

    # ---- States ----

    def disturbs(self, qp):
        """Its peer was stopped while it used it."""
        return any(other.stopped and other.stopped is qp.peer for other in self.all)

    def lose(self, qp):
        """RESET and destroy: what was posted or completed never comes.

        What a shared queue gave and nobody polled goes back to its end.
        """
        self.forget(qp.process, qp.receives)
        for receive in (expected[4] for expected in qp.received):
            if receive.srq:
                receive.data, receive.grh = None, 0
                receive.srq["receives"].append(receive)
            else:
                self.release(qp.process, receive)
        qp.sent.clear()
        qp.received.clear()

    def forget(self, p, receives):
        """Receives that never complete."""
        while receives:
            self.release(p, receives.popleft())

    @staticmethod
    def release(p, receive):
        """Its place can be used again."""
        if receive:
            receive.mr["uses"] -= 1
            p.free.add(receive.slot)

    def step_state(self, p):
        """Any state from any other; those that cannot follow are refused."""
        qp = p.some(p.qps, lambda qp: not self.disturbs(qp))
        if not qp:
            return
        target = self.dice.choice((INIT, ERR, RESET, RTS, RTR))
        if target == RTR and qp.kind != UD:
            return  # connect does that
        legal = target == RESET or (target == ERR and qp.state != RESET) or (
            target == INIT and qp.state in (RESET, INIT)) or (
            target == RTR and qp.state == INIT) or (
                target == RTS and qp.state == RTR)
        if target == RTS and qp.kind != UD and legal:
            return
        p.must(0 if legal else EINVAL, "mod", qp.slot, target, 0, 0, 1)
        if not legal:
            return
        if target == ERR:
            self.fail(qp)
        if target == RESET:
            self.lose(qp)
            qp.peer = None
        qp.state = target

    def fail(self, qp):
        """To ERR: its receives are flushed."""
        qp.state = ERR
        while qp.receives:
            receive = qp.receives.popleft()
            qp.received.append((receive.number, FLUSH, 0, 0, receive))

    def begin(self, p, kind=None):
        """A QP that is not in use, brought to INIT."""
        qp = p.some(p.qps, lambda qp: qp.state != RTS and not self.disturbs(qp)
                    and (kind is None and qp.kind != UD or qp.kind == kind))
        if qp and qp.state != INIT:
            if qp.state != RESET:
                if self.dice.random() < 0.8:
                    self.drain(p)
                p.must(0, "mod", qp.slot, RESET)
                self.lose(qp)
            p.must(0, "mod", qp.slot, INIT)
            qp.state, qp.peer = INIT, None
        return qp

    def connect(self, p):
        """Two QPs become a pair, in any two processes or one, or one with itself."""
        one = self.begin(p)
        two = one and self.begin(self.dice.choice(self.awake()), one.kind)
        if not two:
            return
        psn = {one: self.dice.randrange(1 << 24), two: self.dice.randrange(1 << 24)}
        for here, there in ((one, two), (two, one))[:1 if one is two else 2]:
            for state in (RTR, RTS):
                here.process.must(0, "mod", here.slot, state, there.number, psn[there],
                                  psn[here])
            here.state, here.peer = RTS, there

    def make_ready(self, p):
        """A UD QP can receive and send."""
        qp = self.begin(p, UD)
        if qp:
            p.must(0, "mod", qp.slot, RTR)
            p.must(0, "mod", qp.slot, RTS, 0, 0, 1)
            qp.state = RTS

    def look_state(self, p):
        """Query says what the model knows."""
        qp = p.some(p.qps)
        if qp and p.must(0, "state", qp.slot)[0] != qp.state:
            raise Wrong(f"{p.name}: QP {qp.slot} is not in state {qp.state}")

    # ---- Messages ----

    def post_recv(self, p):
        """A receive of a QP or a shared queue."""
        qp = p.some(p.qps, lambda qp: not qp.srq and qp.state != RESET)
        srq = p.some(p.srqs)
        if srq and (not qp or self.dice.random() < 0.3):
            qp = None
        if not p.free or (not qp and not srq):
            return
        pd = qp.pd if qp else srq["pd"]
        mr = p.some(p.mrs, lambda mr: mr["pd"] == pd and mr["length"] > TARGET
                    and mr["rights"] & LOCAL)
        # A place is free again when its completion was polled, or went with the QP.
        mine = [e for other in p.qps.values() for e in other.received
                if (other is qp if qp else e[4].srq is srq)]
        if not mr or len(qp.receives if qp else srq["receives"]) + len(mine) >= 16:
            return
        short = qp and qp.kind == RC and self.dice.random() < 0.1
        receive = Receive(p.number(), p.free.pop(), 16 if short else SLOT)
        receive.mr, receive.srq = mr, None if qp else srq
        mr["uses"] += 1
        p.must(0, "recv", qp.slot if qp else srq["slot"], 0 if qp else 1, receive.number,
               receive.at, receive.length, mr["lkey"])
        if qp and qp.state == ERR:
            qp.received.append((receive.number, FLUSH, 0, 0, receive))
        else:
            (qp.receives if qp else srq["receives"]).append(receive)

    def post_send(self, p):
        """Some requests of any kind, good or bad; what comes of them follows from both sides.

        The device may be at work on a request after the call: they are waited for before
        anything else happens that could change their outcome.
        """
        qp = p.some(p.qps, lambda qp: qp.state in (RTS, ERR) and len(qp.sent) < 24)
        mr = qp and p.some(p.mrs, lambda mr: mr["pd"] == qp.pd and mr["length"] > TARGET
                           and mr["rights"] & LOCAL)
        if not mr:
            return
        for turn in range(self.dice.randrange(1, 5)):
            peer = self.aim(qp)
            if qp.state == RTS and not peer:
                break
            kinds = {RC: (WRITE, SEND, READ, ADD), UC: (WRITE, SEND), UD: (SEND,)}[qp.kind]
            what = self.dice.choice(kinds)
            length = 8 if what == ADD else self.dice.choice(
                (1, 8, 100, 1023, 1024) if qp.kind == UD else (1, 8, 100, 1024, 1025, 4096))
            at = OWN_AT + 4096 * turn
            if what in (WRITE, SEND):
                key = self.dice.randrange(256)
                p.must(0, "fill", at, length, key)
                p.memory[at:at + length] = pattern(key, length)
            self.request(p, qp, peer, what, at, length, mr)
        self.drain(p, qp.scq, sends_only=True)

    def aim(self, qp):
        """The QP at the other end, None where the outcome is not known."""
        if qp.kind == UD:
            return self.dice.choice(self.all).some({
                i: other for p in self.all for i, other in enumerate(p.qps.values())
                if other.kind == UD and not other.process.stopped} or {0: qp})
        peer = qp.peer
        if not peer or self.disturbs(qp):
            return None
        if peer.gone or peer.process not in self.all:
            taken = any(other.number == qp.peer.number for p in self.all
                        for other in p.qps.values())
            return None if taken else peer
        if peer.state in (RTR, RTS) and peer.peer is not qp:
            return None
        return peer

    def goal(self, peer, what, length):
        """Where in the peer's memory: (address, key, is allowed, offset)."""
        q = peer.process
        alive = q in self.all
        mr = alive and (self.dice.random() < 0.95 and q.some(
            q.mrs, lambda mr: mr["pd"] == peer.pd and mr["length"] > TARGET) or q.some(q.mrs))
        if not mr or self.dice.random() < 0.03:
            return q.base, self.dice.randrange(1, 1 << 32) | 0xff, None, 0
        need = {WRITE: R_WRITE, READ: R_READ, ADD: R_ATOMIC}[what]
        last = min(mr["at"] + mr["length"], TARGET) - length
        offset = self.dice.randrange(mr["at"], last) & ~7 if last > mr["at"] else mr["at"] & ~7
        if self.dice.random() < 0.03:
            offset = mr["at"] + mr["length"] + 7 & ~7  # behind it
        inside = mr["at"] <= offset and offset + length <= mr["at"] + mr["length"]
        return (q.base + offset, mr["rkey"],
                inside and bool(mr["rights"] & need) and mr["pd"] == peer.pd, offset)

    def request(self, p, qp, peer, what, at, length, mr):
        """Post it, and say what comes of it."""
        number, add = p.number(), self.dice.randrange(1 << 60)
        address = key = offset = 0
        allowed = True
        if qp.kind == UD:
            address, key = peer.number, QKEY
        elif what != SEND:
            address, key, allowed, offset = self.goal(peer, what, length) if peer else (0, 1, 0, 0)
            if allowed is None or (offset < SERIES and peer and self.written(peer.process)):
                return  # a key that may be anything, or a place that may hold anything
        p.must(0, "send", qp.slot, number, what, at, length, mr["lkey"], address, key, add)
        if qp.state == ERR:
            qp.sent.append((number, FLUSH, 0, 0, None))
            return
        ready = (not peer.gone and peer.process in self.all and peer.state in (RTR, RTS))
        if qp.kind != RC:
            status = OK
            if ready and (what == WRITE or self.head(peer)):
                self.deliver(p, qp, peer, what, at, length, offset, allowed, add)
        elif not ready:
            status = SILENCE
        elif what == SEND:
            head = self.head(peer)
            status = NOT_READY if not head else INV_REQ if head.length < length else OK
            if status != NOT_READY:
                self.deliver(p, qp, peer, what, at, length, offset, True, add)
        else:
            status = OK if allowed else ACCESS
            if allowed:
                self.deliver(p, qp, peer, what, at, length, offset, True, add)
            elif peer is not qp:
                self.fail(peer)
        self.counts[f"status {status}"] += 1
        qp.sent.append((number, status, WC[what], length, None))
        if status != OK:
            self.fail(qp)

    @staticmethod
    def head(peer):
        """The receive that the next message takes."""
        receives = peer.srq["receives"] if peer.srq else peer.receives
        return receives[0] if receives else None

    def deliver(self, p, qp, peer, what, at, length, offset, allowed, add):
        """What a message does to memory and to the receiver's queue."""
        q = peer.process
        if not allowed:
            return
        if what == WRITE:
            q.memory[offset:offset + length] = p.memory[at:at + length]
        elif what == READ:
            p.memory[at:at + length] = q.memory[offset:offset + length]
        elif what == ADD:
            old = q.memory[offset:offset + 8]
            p.memory[at:at + 8] = old
            q.memory[offset:offset + 8] = (
                (int.from_bytes(old, "little") + add) % (1 << 64)).to_bytes(8, "little")
        else:
            receives = peer.srq["receives"] if peer.srq else peer.receives
            receive = receives.popleft()
            if receive.length < length:
                peer.received.append((receive.number, LEN_ERR, 0, 0, receive))
                self.fail(peer)
                return
            receive.grh = 40 if qp.kind == UD else 0
            receive.data = bytes(p.memory[at:at + length])
            peer.received.append((receive.number, OK, WC["recv"], length + receive.grh, receive))

    # ---- Completions and contents ----

    def drain(self, p, cq=None, sends_only=False):
        """Poll until all that must come has come, in order, and nothing else."""
        for queue in p.cqs if cq is None else (cq,):
            until = time.monotonic() + PATIENCE
            while True:
                for word in p.must(0, "poll", queue):
                    self.completion(p, queue, word)
                missing = [qp for qp in p.qps.values()
                           if (qp.sent and qp.scq == queue) or (qp.received and qp.rcq == queue and not sends_only)]
                if not missing:
                    break
                if time.monotonic() > until:
                    qp = missing[0]
                    raise Wrong(f"{p.name}: QP {qp.slot}: completions missing: sends "
                                f"{[e[:4] for e in qp.sent]} receives "
                                f"{[e[:4] for e in qp.received]}\n" + p.where())

    def completion(self, p, queue, word):
        """One completion: the first that its queue must give."""
        number, status, opcode, length, qpn = (int(part) for part in word.split(":"))
        qp = next((qp for qp in p.qps.values() if qp.number == qpn), None)
        heads = []
        if qp:
            heads = [side for side, cq in ((qp.sent, qp.scq), (qp.received, qp.rcq))
                     if side and cq == queue and side[0][0] == number]
        if not heads:
            raise Wrong(f"{p.name}: CQ {queue}: nobody waits for {word}")
        _, want, kind, size, receive = heads[0].popleft()
        if status != want or (status == OK and (opcode != kind or (
                receive or kind in (WC[READ], WC[ADD])) and length != size)):
            raise Wrong(f"{p.name}: {word}, not status {want} opcode {kind} length {size}")
        self.counts["completions"] += 1
        if not receive:
            return
        if receive.data is not None and status == OK:
            self.same(p, receive.at + receive.grh, receive.data)
        self.release(p, receive)

    @staticmethod
    def same(p, at, data):
        """Memory holds this."""
        def differ(low, high):
            return p.must(0, "crc", at + low, high - low)[0] != zlib.crc32(data[low:high])

        if differ(0, len(data)):
            low, high = 0, len(data)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if differ(low, middle) else (middle, high)
            raise Wrong(f"{p.name}: {len(data)} bytes at {at} are not what was sent: "
                        f"first at {at + low}")

    def look_memory(self, p):
        """What peers reach, and results, are as the model says."""
        self.drain(p)
        known = SERIES if self.written(p) else 0
        self.same(p, known, p.memory[known:TARGET])
        self.same(p, OWN_AT, p.memory[OWN_AT:])

    # ---- Kills and stops ----

    def written(self, p):
        """Somebody who was stopped is in the middle of a series into its memory."""
        return any(q.stopped and q.stopped.peer.process is p for q in self.all)

    def series(self, p):
        """The QP and command of a series of WRITEs to a peer, None without one."""
        self.drain(p)
        qp = p.some(p.qps, lambda qp: qp.kind == RC and qp.state == RTS and qp.peer
                    and not qp.peer.gone and qp.peer.process in self.awake()
                    and qp.peer.process is not p and qp.peer.peer is qp
                    and qp.peer.state == RTS)
        mr = qp and p.some(p.mrs, lambda mr: mr["pd"] == qp.pd and mr["length"] > TARGET)
        q = qp and qp.peer.process
        goal = qp and q.some(q.mrs, lambda mr: mr["pd"] == qp.peer.pd and mr["length"] > TARGET)
        if not mr or not goal:
            return None
        return qp, (mr, goal), (f"burst {qp.slot} {p.number()} {WRITE} {OWN_AT} {SERIES} {mr['lkey']} {q.base} "
                    f"{goal['rkey']} 2000")

    def kill(self, p):
        """SIGKILL, idle or in a series; a new one takes its place."""
        series = self.series(p) if self.dice.random() < 0.7 else None
        if series:
            p.say(series[2])
            time.sleep(self.dice.uniform(0, 0.005))
        self.note(f"{p.name} is killed")
        p.end()
        self.all.remove(p)
        for qp in p.qps.values():
            qp.gone = True
        if series:
            # How far it came is not known.
            q = series[0].peer.process
            q.must(0, "fill", 0, SERIES, 1)
            q.memory[:SERIES] = pattern(1, SERIES)
        self.all.append(self.start())
        self.counts["kills"] += 1

    def stop(self, p):
        """SIGSTOP in a series; the others go on, then it goes on too."""
        if len(self.awake()) < 2:
            return
        series = self.series(p)
        if not series:
            return
        qp, regions, text = series
        for mr in regions:  # they stay while it is stopped
            mr["uses"] += 1
        p.say(text)
        time.sleep(self.dice.uniform(0, 0.003))
        self.note(f"{p.name} is stopped")
        os.kill(p.run.pid, signal.SIGSTOP)
        if not os.WIFSTOPPED(os.waitpid(p.run.pid, os.WUNTRACED)[1]):
            raise Wrong(f"{p.name}: died")
        p.stopped = qp
        for _ in range(self.dice.randrange(40)):
            self.step(self.QUIET)
        self.note(f"{p.name} goes on")
        os.kill(p.run.pid, signal.SIGCONT)
        p.stopped = None
        for mr in regions:
            mr["uses"] -= 1
        code, words = p.hear(text)
        if code or words[0] != "2000":
            raise Wrong(f"{p.name}: '{text}' gave {code} {words}")
        for word in words[1:]:
            self.completion(p, qp.scq, word)
        q = qp.peer.process
        # Others may have written to the same place in between.
        q.must(0, "fill", 0, SERIES, 1)
        q.memory[:SERIES] = pattern(1, SERIES)
        self.counts["stops"] += 1

    # ---- The walk ----

    def drain_some(self, p):
        """Only one queue, so that completions stay for later."""
        cq = p.some(p.cqs)
        if cq is not None:
            self.drain(p, cq)

    QUIET = ((post_recv, 25), (post_send, 40), (connect, 8), (make_ready, 2),
             (step_state, 2), (make_qp, 5),
             (drain_some, 8), (make_mr, 2), (drop_mr, 1), (make_pd, 1), (drop_pd, 1), (make_cq, 1),
             (drop_cq, 1), (make_srq, 1), (drop_srq, 1), (drop_qp, 1), (look_state, 2),
             (look_memory, 0.5))
    LOUD = QUIET + ((kill, 0.15), (stop, 0.3))

    def step(self, steps):
        """One of the steps, in one of the processes that can be asked."""
        act = self.dice.choices([act for act, _ in steps], [weight for _, weight in steps])[0]
        act(self, self.dice.choice(self.awake()))
        self.counts["steps"] += 1

    def finish(self):
        """All is as it should be, all goes away, and nothing is left."""
        for p in self.all:
            self.look_memory(p)
            for qp in list(p.qps.values()):
                p.must(0, "qpx", qp.slot)
                self.lose(qp)
            for word, table in (("srqx", p.srqs), ("cqx", p.cqs), ("mrx", p.mrs), ("pdx", p.pds)):
                for slot in table:
                    p.must(0, word, slot)
            p.must(0, "close")
            p.run.stdin.close()
            if p.run.wait(PATIENCE):
                raise Wrong(f"{p.name}: exit {p.run.returncode}")
            p.errors.seek(0)
            said = p.errors.read()
            if said:
                raise Wrong(f"{p.name}: printed {said.decode(errors='replace')[-8000:]}")
        if os.listdir(self.runtime):
            raise Wrong(f"left in the runtime directory: {os.listdir(self.runtime)}")

    def close(self):
        """End what is left."""
        for p in self.all:
            p.end()
        shutil.rmtree(self.runtime, ignore_errors=True)


def walk(seed, steps, processes):
    """One walk; False, with what happened, when the model was wrong or the device."""
    path = Walk(seed, processes)
    try:
        for _ in range(steps):
            path.step(path.LOUD)
        path.finish()
    except (Wrong, OSError) as wrong:
        print("\n".join(path.log))
        print(f"{type(wrong).__name__}: {wrong}")
        print(f"again: {sys.argv[0]} --seed {seed} --steps {steps} --processes {processes}")
        return False
    finally:
        path.close()
    print(f"seed {seed}: " + ", ".join(f"{name} {n}" for name, n in sorted(path.counts.items())),
          flush=True)
    return True


def main(**defaults):
    """Walks with new seeds until the time is over, or one that is said."""
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, help="only this walk")
    options.add_argument("--seconds", type=float, help="begin no walk after them")
    options.add_argument("--steps", type=int, help="of a walk")
    options.add_argument("--processes", type=int)
    options.set_defaults(**defaults)
    chosen = options.parse_args()
    until = time.monotonic() + chosen.seconds
    while True:
        seed = random.SystemRandom().randrange(1 << 32) if chosen.seed is None else chosen.seed
        if not walk(seed, chosen.steps, chosen.processes):
            return 1
        if chosen.seed is not None or time.monotonic() > until:
            return 0
