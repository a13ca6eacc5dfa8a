#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every program of the field starts on our libraries.

Each program that the packages give prints its help (--help and -h) once on the
distribution's libraries and once on ours: standard output, standard error and exit status
must be equal to the byte. A third start binds every symbol at once (LD_BIND_NOW), so that
one missing name would show. Then what has no help: pyverbs' modules load, and the
plug-ins that are opened at run time.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

LIB = os.path.join(os.environ["VB_BUILD"], "lib")
TIMEOUT = 60

# By package. raw_ethernet_* are raw_ethernet_burst_lat, _bw, _fs_rate, _lat.
PROGRAMS = {
    "ibverbs-utils": "ibv_asyncwatch ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong "
                     "ibv_uc_pingpong ibv_ud_pingpong ibv_xsrq_pingpong",
    "perftest": "ib_atomic_bw ib_atomic_lat ib_read_bw ib_read_lat ib_send_bw ib_send_lat "
                "ib_write_bw ib_write_lat raw_ethernet_burst_lat raw_ethernet_bw "
                "raw_ethernet_fs_rate raw_ethernet_lat",
    "rdmacm-utils": "cmtime mckey rcopy rdma_client rdma_server rdma_xclient rdma_xserver "
                    "riostream rping rstream ucmatose udaddy udpong",
    "qperf": "qperf",
    "fio": "fio",
    "libfabric-bin": "fi_info fi_pingpong fi_strerror",
    "ucx-utils": "ucx_info ucx_perftest ucx_read_profile",
    "openmpi-bin": "ompi_info ompi-clean ompi-server orted orterun mpirun.openmpi "
                   "mpiexec.openmpi",
    "mpich": "mpiexec.mpich mpichversion",
    "infiniband-diags": "ibstat ibaddr ibcacheedit ibccconfig ibccquery iblinkinfo ibnetdiscover "
                        "ibping ibportstate ibqueryerrors ibroute ibsysstat ibtracert perfquery "
                        "saquery sminfo smpdump smpquery vendstat dump_fts",
    "srptools": "ibsrpdm srp_daemon",
    "dapl2-utils": "dapltest dtest dtestcm",
    "tgt": "tgtd tgtadm",
    "qemu-system-x86": "qemu-system-x86_64",
    "ceph-osd": "ceph-osd",
}
# ibv_devices knows no option and lists the devices instead, which are ours here and none
# there: it must start, and devinfo_test compares what it prints.
NO_HELP = {"ibv_devices"}
# ompi_info --help differs between two runs on the distribution's libraries alone (seen: some
# lines in 7 of 12) and loads none of ours. Without that option it opens every plug-in, the
# verbs ones included, lists those that load, and always prints the same.
OPTIONS = {"ompi_info": ([], ["--all", "--parsable"])}
# Runs of Open MPI as root need a leave that has nothing to do with the libraries.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

PYVERBS = ("addr", "base", "cm_enums", "cmid", "cq", "device", "dma_util", "enums", "flow",
           "fork", "mem_alloc", "mr", "pd", "pyverbs_error", "qp", "spec", "srq", "utils", "wq",
           "wr", "xrcd", "providers.efa.efadv", "providers.mlx5.mlx5dv")
# Opened at run time by programs above; a name that is missing shows only at debug level.
PLUG_INS = ("/usr/lib/*/ucx/libuct_ib.so*", "/usr/lib/*/ucx/libuct_rdmacm.so*",
            "/usr/lib/*/openmpi/lib/openmpi3/mca_btl_openib.so", "/usr/lib/*/dat/*.so*",
            "/usr/lib/*/libfabric.so.1", "/usr/lib/*/librpma.so.0", "/usr/lib/*/libiscsi.so.*",
            "/usr/lib/*/libdaplo*.so.2", "/usr/lib/*/rsocket/librspreload.so*")


def ours():
    """Environment of a program on our libraries; a sanitized build's runtime comes first."""
    environment = {**ENVIRONMENT, "LD_LIBRARY_PATH": LIB}
    needed = subprocess.run(["readelf", "-d", f"{LIB}/libibverbs.so.1"], text=True, check=True,
                            stdout=subprocess.PIPE).stdout
    runtime = re.findall(r"\[(lib[at]san\.so\.\d+)\]", needed)
    if runtime:
        environment["LD_PRELOAD"] = runtime[0]
        environment["ASAN_OPTIONS"] = "detect_leaks=0"
    return environment


def run(command, environment):
    """(exit status, stdout, stderr) of a command that needs no input."""
    base = {key: value for key, value in os.environ.items()
            if not key.startswith(("LD_", "VERBENA_"))}
    done = subprocess.run(command, env={**base, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT)
    return done.returncode, done.stdout, done.stderr


def loads(result):
    """Whether the dynamic loader was content, whatever the program said then."""
    return not re.search(rb"symbol lookup error|error while loading|version `.*' not found",
                         result[2])


def check_program(path):
    name = os.path.basename(path)
    if name in NO_HELP:
        result = run([path], {**ours(), "LD_BIND_NOW": "1"})
        if not loads(result):
            yield f"{name} does not start: {result[2].decode(errors='replace')}"
        return
    # A program of which a plug-in of its own cannot be bound at once shows that on both
    # sides, so the distribution's libraries are asked the same way.
    for extra in ({}, {"LD_BIND_NOW": "1"}):
        for options in OPTIONS.get(name, (["--help"], ["-h"])):
            theirs = run([path, *options], {**ENVIRONMENT, **extra})
            if not loads(theirs):
                yield f"{name} does not start on the distribution's libraries"
                return
            mine = run([path, *options], {**ours(), **extra})
            for what, want, have in zip(("status", "stdout", "stderr"), theirs, mine):
                if want != have:
                    yield f"{name} {options} {extra}: {what} is\n{have!r}\nnot\n{want!r}"


def check_loading(title, code):
    """Python code that opens something, on our libraries, all symbols at once."""
    result = run(["/usr/bin/python3", "-c", code], {**ours(), "LD_BIND_NOW": "1"})
    if result[0]:
        yield f"{title}: {result[2].decode(errors='replace')}"


def check_pyverbs():
    have = run(["/usr/bin/python3", "-c", "import pyverbs"], ENVIRONMENT)
    if have[0]:
        print("not installed: python3-pyverbs")
        return
    for module in PYVERBS:
        code = f"import pyverbs.{module}"
        if run(["/usr/bin/python3", "-c", code], ENVIRONMENT)[0] == 0:
            yield f"pyverbs.{module}", list(check_loading(f"pyverbs.{module}", code))


def check_plug_ins():
    for pattern in PLUG_INS:
        for path in sorted({os.path.realpath(found) for found in glob.glob(pattern)}):
            code = f"import ctypes, os; ctypes.CDLL({path!r}, mode=os.RTLD_NOW | os.RTLD_GLOBAL)"
            if run(["/usr/bin/python3", "-c", code], ENVIRONMENT)[0] == 0:
                yield path, list(check_loading(path, code))


def main():
    done, failed = 0, 0
    results = []
    for package, names in PROGRAMS.items():
        for name in names.split():
            path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
            if path:
                results.append((name, list(check_program(path))))
            else:
                print(f"not installed: {name} ({package})")
    results += [*check_pyverbs(), *check_plug_ins()]
    for name, problems in results:
        done += 1
        failed += bool(problems)
        for problem in problems:
            print(problem)
    print(f"{done} programs and modules started, {failed} of them differ")
    if not done:
        print("skipped: none of the programs is installed")
        sys.exit(77)
    sys.exit(1 if failed else 0)


main()
