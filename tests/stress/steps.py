# SPDX-License-Identifier: BSD-2-Clause
"""Processes stopped or killed at every step of every shared word, by name."""
import re
import signal
import time

import killing
import workers

SOURCE = workers.os.environ.get("VB_SOURCE") or workers.os.path.dirname(
    workers.os.path.dirname(workers.os.path.dirname(workers.os.path.abspath(__file__))))
HOLD = 0.08  # shorter than the timers: nobody's request fails meanwhile


# Of leave_test.py.
ELSEWHERE = ("WIRE_CLOSES",)


def names():
    """All steps there are."""
    with open(f"{SOURCE}/src/base/steps.def", encoding="utf-8") as rows:
        return [name for name in re.findall(r"^VB_STEP_ROW\((\w+)\)", rows.read(), re.M)
                if name not in ELSEWHERE]


class Case:
    """One victim that will stop or die at a step, and one survivor."""

    def __init__(self, bench, step, action, count, options):
        self.bench, self.step, self.action = bench, step, action
        self.options = f"links=2 {killing.TIMERS} {options}"
        self.survivor = bench.worker(self.options)
        self.victim = bench.worker(VERBENA_TEST_STEP=f"{step}:{action}:{count}")
        self.reached = False

    def arrived(self):
        """Has the victim stopped or died?"""
        if not self.reached:
            pid, status = workers.os.waitpid(self.victim.pid,
                                             workers.os.WNOHANG | workers.os.WUNTRACED)
            if pid and workers.os.WIFSTOPPED(status):
                self.reached = True
            elif pid:
                self.victim.process.returncode = -workers.os.WTERMSIG(status)
                if workers.os.WTERMSIG(status) != signal.SIGKILL:
                    raise AssertionError(f"the victim ended with {status}: "
                                         f"{self.victim.printed()}")
                self.reached = True
        return self.reached

    def await_answer(self, line):
        """A command to the victim; None when it came to the step instead."""
        try:
            self.victim.say(line)
        except workers.Died:
            if self.action != "kill" or self.victim.process.returncode != -signal.SIGKILL:
                raise
            self.reached = True
            return None
        until = time.monotonic() + workers.PATIENCE
        while time.monotonic() < until:
            if self.arrived():
                return None
            if workers.select.select([self.victim.process.stdout], [], [], 0.001)[0]:
                try:
                    return self.victim.hear(1, line)
                except workers.Died:
                    if self.victim.process.returncode != -signal.SIGKILL:
                        raise
                    self.reached = True
                    return None
        raise workers.Hang(f"victim at '{line}'\n{self.victim.where()}")

    def ask(self, line):
        """A command to the victim; stopped at the step it is held, then goes on."""
        answer = self.await_answer(line)
        if answer or self.action == "kill":
            return answer
        time.sleep(HOLD)
        self.victim.resume()
        return self.victim.hear(workers.PATIENCE, line)

    def hear_survivor(self):
        """The survivor's answer; a victim that stops meanwhile is held, then goes on."""
        until = time.monotonic() + workers.PATIENCE
        while time.monotonic() < until:
            if workers.select.select([self.survivor.process.stdout], [], [], 0.005)[0]:
                answer = self.survivor.hear()
                # What ended the survivor's requests was the victim's death, if it died.
                if answer[1]["dead"] != "0":
                    self.arrived()
                return answer
            if not self.reached and self.arrived() and self.action == "stop":
                time.sleep(HOLD)
                self.victim.resume()
        raise workers.Hang(f"{self.step}: survivor\n{self.survivor.where()}")

    def dead(self):
        """The victim is no more."""
        return self.reached and self.action == "kill"


def join(case):
    """Open the victim's device and connect; False when it died on the way."""
    answer = case.ask(f"open {case.options}")
    if not answer:
        return False
    case.victim.facts = answer[1]
    facts = case.survivor.facts
    for here, there in ((case.survivor, case.victim.facts), (None, facts)):
        line = (f"connect gid={there['gid']} qpn={there['qpn']} base={there['base']} "
                f"rkey={there['rkey']} from=0 first=0 count=64")
        answer = here.ask(line) if here else case.ask(line)
        if not answer:
            return False
        if answer[1]["errno"] != "0":
            raise AssertionError(f"connect: {answer}")
    return True


def hold_or_end(case):
    """Both are busy until the victim comes to the step, at most so many rounds."""
    case.survivor.say("busy rounds=40")
    answer = case.ask("busy rounds=40")
    # It may come to the step after its own rounds, still serving the other's.
    heard = case.hear_survivor() if answer else case.survivor.hear()
    if case.dead():
        # The survivor may have finished its rounds before; then a request must find out.
        word, facts = heard
        if facts["dead"] == "0":
            case.survivor.ask("result")
            case.survivor.hear()
            case.survivor.say("busy")
            word, facts = case.survivor.hear()
        case.survivor.ask("result")
        case.survivor.hear()
        killing.check_ends(facts)
        return
    for word, facts in (answer, heard):
        if word != "finished":
            raise AssertionError(f"{case.step}: {word} {facts}")
        workers.good(facts, case.step)
    quiet(case)


def quiet(case):
    """Take both out of busy."""
    case.survivor.ask("result")
    case.survivor.hear()
    if case.ask("result"):
        try:
            case.victim.hear()
        except workers.Died:
            if case.action != "kill" or case.victim.process.returncode != -signal.SIGKILL:
                raise
            case.reached = True


def by_error(case):
    """A wrong key fails the pair of QPs, once from each side; keys and QPs come and go."""
    for end, link in ((case.victim, 0), (case.survivor, 1)):
        line = f"one ops=w wrong=1 link={link}"
        answer = case.ask(line) if end is case.victim else end.ask(line)
        if case.dead():
            return
        if answer[1]["status"] != "10":
            raise AssertionError(f"{case.step}: a wrong key: {answer}")
    # The other side's receives are flushed.
    case.survivor.say("busy ops=s rounds=1")
    if case.ask("busy ops=s rounds=1"):
        case.survivor.hear()
        quiet(case)
    if not case.dead():
        case.ask("churn times=20")
    if not case.dead():
        case.ask("remake")
    if not case.dead():
        close(case)


def close(case):
    """The victim closes everything and ends, unless the step is on that way."""
    victim = case.victim
    victim.say("quit")
    while True:
        _, status = workers.os.waitpid(victim.pid, workers.os.WUNTRACED)
        if not workers.os.WIFSTOPPED(status):
            break
        case.reached = True
        time.sleep(HOLD)
        victim.resume()
    victim.process.returncode = workers.os.waitstatus_to_exitcode(status)
    if victim.process.returncode == -signal.SIGKILL and case.action == "kill":
        case.reached = True
    elif victim.process.returncode:
        raise AssertionError(f"{case.step}: closing: {victim.process.returncode} "
                             f"{victim.printed()}")


def go_on(case):
    """The survivor works with a new process; then nothing is left."""
    # Out of whatever it waits for.
    case.survivor.say("result")
    while case.survivor.hear()[0] != "result":
        pass
    case.survivor.remake()
    other = case.bench.worker(case.options)
    workers.connect(case.survivor, other)
    killing.rounds(case.survivor, other)
    other.quit()
    case.survivor.quit()


def run(step, action, count, options=""):
    """One case. True when the victim came to the step."""
    with workers.Bench() as bench:
        case = Case(bench, step, action, count, options)
        if join(case):
            hold_or_end(case)
            if not case.dead():
                by_error(case)
        elif not case.dead():
            raise AssertionError(f"{step}: not joined")
        go_on(case)
        if case.victim.process.poll() is None and not case.dead():
            case.victim.end()
        if bench.leftovers():
            raise AssertionError(f"{step} {action}: left over: {bench.leftovers()}")
        return case.reached


def given_up(action):
    """The owner of a shared receive queue takes back what a dead process had taken."""
    with workers.Bench() as bench:
        options = f"links=1 srq=1 {killing.TIMERS}"
        owner = bench.worker(VERBENA_TEST_STEP=f"ARRIVAL_VOID:{action}").open(options)
        dying = bench.worker(VERBENA_TEST_STEP="ARRIVAL_FILLED:kill").open(options)
        workers.connect(dying, owner)
        dying.say("one ops=s")
        dying.process.wait(workers.PATIENCE)
        owner.say("remake")
        if not owner.stopped():
            bench.swept()
            return
        time.sleep(HOLD)
        owner.resume()
        owner.facts = owner.hear()[1]
        other = bench.worker(options)
        workers.connect(other, owner)
        killing.rounds(other, owner)


def comes_back(times=12):
    """Processes die holding a shared receive each, more often than there are receives."""
    with workers.Bench() as bench:
        options = f"links=1 srq=1 {killing.TIMERS}"
        owner = bench.worker(options)
        for _ in range(times):
            dying = bench.worker(VERBENA_TEST_STEP="ARRIVAL_FILLED:kill").open(options)
            workers.connect(dying, owner)
            dying.say("one ops=s")
            dying.process.wait(workers.PATIENCE)
            owner.remake()
        other = bench.worker(options)
        workers.connect(other, owner)
        killing.rounds(other, owner)
        owner.quit()
        other.quit()


SHARED = ("ARRIVAL_TAKEN", "ARRIVAL_VOID")


def shared():
    """The steps that only a receive queue with several initiators has."""
    given_up("stop")
    given_up("kill")
    comes_back()
    print("ARRIVAL_VOID       reached 2 times; receives of the dead come back", flush=True)


def table(steps, actions, counts, optionss):
    """All combinations; a step that nobody comes to is a failure of the test."""
    failed = []
    if set(SHARED) & set(steps):
        shared()
    for step in steps:
        reached = 0
        if step == "ARRIVAL_VOID":
            continue
        for action in actions:
            for options in optionss:
                for count in counts:
                    try:
                        reached += run(step, action, count, options)
                    except (AssertionError, RuntimeError, workers.Hang, workers.Died) as error:
                        failed.append(f"{step}:{action}:{count} {options}: {error!r:.3000}")
                        print("FAILED " + failed[-1].replace("\\n", "\n"), flush=True)
        print(f"{step:18} reached {reached} times", flush=True)
        if not reached:
            failed.append(f"{step} is never reached")
    print("\n".join(failed) or "all right")
    return 1 if failed else 0
