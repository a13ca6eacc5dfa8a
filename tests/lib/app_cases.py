# SPDX-License-Identifier: BSD-2-Clause
"""The option matrices of ibv_rc_pingpong and perftest's RC tools."""

SIZES = (1, 2, 63, 64, 255, 256, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 1048575, 1048576)


def pingpong():
    """ibv_rc_pingpong: both GID indexes, every completion style, kind of memory, and size."""
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


def perftest(iterations=None, sizes_iterations="20"):
    """perftest over RC; iterations None leaves the tools' default where none is tested."""
    few = [] if iterations is None else ["-n", str(iterations)]
    cases = []
    for operation in ("send", "write", "read", "atomic"):
        for measure in ("bw", "lat"):
            options = [few, ["-n", "100"], ["-m", "512", *few], ["-x", "0", *few]]
            if operation != "atomic":
                options += [["-a", "-n", sizes_iterations], ["-s", "1", *few],
                            ["-s", "4096", *few], ["-s", "1048576", "-n", "50"]]
            else:
                options += [["-A", "CMP_AND_SWAP", *few]]
            if measure == "bw":
                options += [["-b", *few], ["-q", "16", *few]]
            cases += [([f"ib_{operation}_{measure}", "-F", *some],) for some in options]
            # It takes the ibv_wr_ builders for devices it knows by vendor and part.
            cases.append(([f"ib_{operation}_{measure}", "-F", *few], "--env",
                          "VERBENA_PROFILE=connectx5", "--says", "ibv_wr* API : ON"))
    return cases
