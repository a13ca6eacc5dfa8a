# SPDX-License-Identifier: BSD-2-Clause
"""The option matrices of the pingpong programs and of perftest's tools."""
import itertools
import random

SIZES = (1, 2, 63, 64, 255, 256, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 1048575, 1048576)
# The loopback device has the largest MTU, the default device that of Ethernet: 1024.
LARGE_MTU = ("--env", "VERBENA_NETDEV=lo")


def pingpong(iterations="5000"):
    """All four programs; iterations for the cases of many rounds."""
    return (rc_pingpong() + uc_pingpong() + ud_pingpong() + srq_pingpong()
            + [([f"ibv_{kind}_pingpong", "-g", "0", "-n", iterations],)
               for kind in ("rc", "uc", "ud", "srq")])


def rc_pingpong():
    """Both GID indexes, every completion style, kind of memory, and size."""
    program = "ibv_rc_pingpong"
    cases = [([program, "-g", gid, *options],)
             for gid in ("0", "1")
             for options in ([], ["-e"], ["-c"], ["-N"], ["-t"])]
    cases += [([program, "-g", "1", *options],)
              for options in (["-e", "-c"], ["-N", "-e"], ["-N", "-c"], ["-t", "-N"],
                              ["-m", "256"], ["-m", "1024"], ["-r", "1"])]
    # On-demand memory, of the buffer and of everything, prefetched, and device memory.
    cases += [([program, "-g", "0", "-c", *options],)
              for options in (["-o"], ["-o", "-O"], ["-o", "-P"], ["-o", "-O", "-P"], ["-j"])]
    # Few rounds for the largest, and a content check for every size.
    cases += [([program, "-g", "0", "-c", "-s", str(size), "-n", "200"],) for size in SIZES]
    cases.append(([program, "-g", "1", "-e", "-s", "1048576", "-n", "100"],))
    # RoCE has no LIDs: a QP without a GRH is refused, and the server's side says why.
    cases.append(([program], "--because", "modify-qp-grh"))
    return cases


def uc_pingpong():
    """As over RC. A receive for every message that may come: nothing waits for one."""
    program = "ibv_uc_pingpong"
    cases = [([program, "-g", gid, *options],)
             for gid in ("0", "1")
             for options in ([], ["-e"], ["-c"], ["-e", "-c"], ["-m", "256"])]
    cases += [([program, "-g", "0", "-c", "-s", str(size), "-n", "200"],) for size in SIZES]
    cases.append(([program], "--because", "modify-qp-grh"))
    return cases


def ud_pingpong():
    """Up to the active MTU and not beyond it."""
    program = "ibv_ud_pingpong"
    # Its default size is beyond the MTU of Ethernet.
    cases = [([program, "-g", gid, "-s", "1024", *options],)
             for gid in ("0", "1")
             for options in ([], ["-e"], ["-c"], ["-e", "-c"])]
    cases += [([program, "-g", "0", "-c", "-s", str(size), "-n", "200"],)
              for size in SIZES if size <= 1024]
    cases += [([program, "-g", "1", *options], *LARGE_MTU)
              for options in (["-c"], ["-e"], ["-s", "4096", "-c"], ["-s", "4095", "-e"])]
    return cases


def srq_pingpong():
    """One receive queue for many QPs, from one to more than the default."""
    program = "ibv_srq_pingpong"
    cases = [([program, "-g", gid, *options],)
             for gid in ("0", "1")
             for options in ([], ["-e"], ["-c"], ["-e", "-c"])]
    cases += [([program, "-g", "0", "-n", "200", *options],)
              for options in (["-q", "1"], ["-q", "32"], ["-o", "-c"], ["-m", "256"],
                              ["-r", "64", "-q", "2"])]
    cases += [([program, "-g", "0", "-c", "-q", "4", "-s", str(size), "-n", "50"],)
              for size in SIZES]
    # Without -g its server is refused as rc's is, but its client then reads the closed
    # connection for ever: no case.
    return cases


# ---- perftest ----

CONNECTIONS = {"send": ("RC", "UC", "UD"), "write": ("RC", "UC"), "read": ("RC",),
               "atomic": ("RC",)}
# perftest takes inline, and the ibv_wr_ builders, from devices it knows by vendor and part.
CONNECTX = ("--env", "VERBENA_PROFILE=connectx5", "--says", "ibv_wr* API : ON")


def choices(operation, measure, connection, amount):
    """Each option of one tool as the list of what can stand for it, usually nothing first."""
    plain = {"-x": ([], ["-x", "0"], ["-x", "1"]), "-m": ([], ["-m", "512"], ["-m", "256"])}
    if measure == "bw":
        plain |= {"-b": ([], ["-b"]), "-q": ([], ["-q", "16"]), "-l": ([], ["-l", "4"]),
                  "-t": ([], ["-t", "64"]), "-Q": ([], ["-Q", "4"])}
    if operation != "write":
        plain["-e"] = ([], ["-e"])
    if operation in ("send", "write"):
        plain["-I"] = ([], ["-I", "64", "-s", "64"])
    if operation == "send":
        plain["-r"] = ([], ["-r", "64"])
        if connection != "UC":
            plain["--use-srq"] = ([], ["--use-srq"])
    if operation == "atomic":
        plain["-A"] = ([], ["-A", "CMP_AND_SWAP"])
    else:
        plain["-s"] = ([], ["-s", "1"], ["-s", "200"])
        if connection != "UD":
            plain["-s"] += (["-s", "4097"], ["-s", "1048576"])
    how = [["-n", amount["-n"]], ["-D", amount["-D"]]]
    if operation != "atomic":
        how.append(["-a", "-n", amount["-a"]])
    plain["how"] = tuple(how)
    return plain


def valid(case):
    """Is this what the tool itself accepts and can do, and not the same twice?"""
    # Minutes where CPUs are shared; the long form has some. See also command().
    if case["how"][0] == "-a" and case.get("-q"):
        return False
    if case["how"][0] == "-D" and case.get("-e"):
        return False
    return sum(map(bool, (case.get("-s"), case.get("-I"), case["how"][0] == "-a"))) < 2


def pairwise(factors, dice):
    """Cases in which every two values of different factors meet, where valid."""
    names = list(factors)
    left = {((a, i), (b, j)) for a, b in itertools.combinations(names, 2)
            for i in range(len(factors[a])) for j in range(len(factors[b]))}
    cases, dry = [], 0
    while left and dry < 200:
        best, most = None, 0
        for _ in range(60):
            pick = {name: dice.randrange(len(factors[name])) for name in names}
            # Begin with a pair that is missing.
            for name, value in dice.choice(sorted(left)):
                pick[name] = value
            if not valid({name: factors[name][value] for name, value in pick.items()}):
                continue
            new = sum(pair in left for pair in itertools.combinations(pick.items(), 2))
            if new > most:
                best, most = pick, new
        if not best:
            dry += 1
            continue
        left -= set(itertools.combinations(best.items(), 2))
        cases.append({name: factors[name][value] for name, value in best.items()})
    return cases


def product(factors):
    """Every valid case of the factors that have two values; the others at their first."""
    some = {name: values if len(values) == 2 else values[:1]
            for name, values in factors.items() if name != "how"}
    some["how"] = factors["how"][:1]
    for values in itertools.product(*some.values()):
        case = dict(zip(some, values))
        if valid(case):
            yield case


def command(operation, measure, connection, case):
    """One case as run_table takes it."""
    # With several QPs it waits forever unless -n is a multiple of what it takes for -Q where
    # none is said: 100, the length of the send queue, or 1 for large messages (its pull
    # request 154).
    if (case.get("-q") and not case.get("-Q") and not case.get("-l") and case["how"][0] == "-n"
            and case.get("-s") != ["-s", "1048576"]):
        case = case | {"how": ["-n", "1600"]}
    argv = [f"ib_{operation}_{measure}", "-F"]
    if connection != "RC":
        argv += ["-c", connection]
    argv += [word for value in case.values() for word in value]
    return (argv, *CONNECTX) if case.get("-I") else (argv,)


def perftest(measure, amount, everything=False):
    """The tools of one measure ("bw", "lat"): pairs of options, or all combinations too.

    amount says the values of -n (a multiple of -l and -Q, and more: a client waits for credit
    of the whole list), of -n with -a, and of -D.
    """
    cases = []
    dice = random.Random(1)  # the same table every time
    for operation, connections in CONNECTIONS.items():
        for connection in connections:
            factors = choices(operation, measure, connection, amount)
            chosen = pairwise(factors, dice)
            if everything:
                chosen += [case for case in product(factors) if case not in chosen]
                if measure == "bw" and operation != "atomic":
                    chosen += [{"-q": ["-q", "16"], "-Q": ["-Q", "4"], "more": more,
                                "how": ["-a", "-n", amount["-a"]]} for more in ([], ["-b"])]
            cases += [command(operation, measure, connection, case) for case in chosen]
        cases.append(([f"ib_{operation}_{measure}", "-F", "-n", amount["-n"]], *CONNECTX))
    if measure == "bw":
        # Long lists at all sizes: more completions between two events than are polled at a time.
        cases.append((["ib_send_bw", "-F", "-x", "0", "-a", "-q", "8", "-l", "64", "-n", "64",
                       "-e"],))
    # A UC QP has no shared receive queue.
    cases.append(([f"ib_send_{measure}", "-F", "-c", "UC", "--use-srq"], "--because",
                  "create-qp-srq"))
    return cases


def without_peak(case):
    """The case without the search for the peak, which takes longer than many a run: with -N, which
    only the bandwidth tools know."""
    argv, *extra = case
    return ([*argv[:1], "-N", *argv[1:]], *extra) if argv[0].endswith("_bw") else case
