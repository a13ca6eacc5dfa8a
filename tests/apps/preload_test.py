#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""librspreload beside what is no rsocket: its names, ordinary descriptors, dup, fork, exec."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cmpairs

PRELOAD = os.path.join(cmpairs.BUILD, "lib", "rsocket", "librspreload.so.1")
ENV = {**os.environ, "LD_PRELOAD": PRELOAD,
       "LD_LIBRARY_PATH": os.path.join(cmpairs.BUILD, "lib")}

# What rdma-core 44's exports; programs may have asked for any of them.
NAMES_44 = """accept bind close connect dup2 fcntl getpeername getsockname getsockopt listen poll
read readv recv recvfrom recvmsg select send sendfile sendmsg sendto setsockopt shutdown socket
write writev""".split()

# Each is a program of its own: it exits 0 where all went well.
PROGRAMS = {
    "ordinary descriptors": """
import os, select, socket
a, b = socket.socketpair()
a.sendall(b'x')
assert select.select([b], [], [], 30)[0] == [b] and b.recv(5) == b'x'
r, w = os.pipe()
os.write(w, b'y')
poll = select.poll()
poll.register(r, select.POLLIN)
assert poll.poll(30000) == [(r, select.POLLIN)] and os.read(r, 5) == b'y'
ep = select.epoll()
ep.register(r, select.EPOLLIN)
assert ep.poll(0) == []
os.write(w, b'z')
assert ep.poll(30) == [(r, select.EPOLLIN)]
copy = os.dup(r)
os.close(r)
assert os.read(copy, 5) == b'z'
""",
    "over RDMA, not TCP": """
import socket
at = socket.socket()
at.bind(('127.0.0.1', 0))
at.listen()
port = at.getsockname()[1]
with open('/proc/net/tcp') as table:
    assert ':%04X 00000000:0000 0A' % port not in table.read()
with open('/proc/net/unix') as table:
    assert '/cm/106/%d/' % port in table.read()
end = socket.create_connection(('127.0.0.1', port), timeout=30)
got, who = at.accept()
assert who == end.getsockname() and got.getpeername() == who
assert end.getpeername() == at.getsockname()
assert end.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
end.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 8)
assert end.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 8
""",
    "dup, dup2 and the last close": """
import os, socket
at = socket.socket()
at.bind(('127.0.0.1', 0))
at.listen()
end = socket.create_connection(at.getsockname(), timeout=30)
got, _ = at.accept()
copy, number = os.dup(end.fileno()), os.open('/dev/null', os.O_RDWR)
os.dup2(end.fileno(), number)
end.close()
os.write(copy, b'one')
os.close(copy)
os.write(number, b'two')
assert got.recv(6, socket.MSG_WAITALL) == b'onetwo'
got.settimeout(0.01)
try:
    got.recv(1)
    raise SystemExit(1)
except socket.timeout:
    pass
got.settimeout(30)
os.close(number)
assert got.recv(1) == b''
""",
    "sendfile and sendmsg": """
import os, socket, tempfile
at = socket.socket()
at.bind(('127.0.0.1', 0))
at.listen()
end = socket.create_connection(at.getsockname(), timeout=30)
got, _ = at.accept()
with tempfile.TemporaryFile() as file:
    file.write(bytes(range(200)) * 10)
    file.flush()
    assert os.sendfile(end.fileno(), file.fileno(), 100, 1000) == 1000
assert got.recv(1000, socket.MSG_WAITALL) == (bytes(range(200)) * 10)[100:1100]
assert end.sendmsg([b'a', b'bc']) == 3
assert got.recvmsg(10)[0] == b'abc'
""",
    "a child closes what it inherits": """
import os, socket, subprocess
at = socket.socket()
at.bind(('127.0.0.1', 0))
at.listen()
end = socket.create_connection(at.getsockname(), timeout=30)
got, _ = at.accept()
pid = os.fork()
if not pid:
    try:
        end.send(b'no')
        os._exit(1)
    except OSError:
        pass
    end.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert subprocess.run(['true']).returncode == 0
end.sendall(b'yes')
assert got.recv(5) == b'yes'
""",
    "to a server of the system's": """
import socket, sys
end = socket.socket()
end.settimeout(None)
end.connect(('127.0.0.1', int(sys.argv[1])))
end.sendall(b'hello')
assert end.recv(5, socket.MSG_WAITALL) == b'HELLO'
end.close()
try:
    socket.create_connection(('127.0.0.1', int(sys.argv[2])))
    raise SystemExit(1)
except ConnectionRefusedError:
    pass
""",
    "datagrams": """
import socket
a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in 'ab')
b.bind(('127.0.0.1', 0))
a.settimeout(30)
b.settimeout(30)
for n in range(20):
    a.sendto(b'%d' % n, b.getsockname())
    data, who = b.recvfrom(100)
    assert data == b'%d' % n
    b.sendto(data, who)
    assert a.recv(100) == data
""",
}

# Not preloaded: an ordinary TCP server, and a port nobody has.
PLAIN = """
import socket
at, none = socket.socket(), socket.socket()
for end in (at, none):
    end.bind(('127.0.0.1', 0))
at.listen()
print(at.getsockname()[1], none.getsockname()[1], flush=True)
got, _ = at.accept()
got.sendall(got.recv(5, socket.MSG_WAITALL).upper())
"""


def main():
    """Every program, and the names"""
    failed = []
    table = subprocess.run(["readelf", "-W", "--dyn-syms", PRELOAD], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    have = {line.split()[7] for line in table.splitlines()
            if len(line.split()) > 7 and line.split()[6] != "UND"}
    for name in NAMES_44:
        if name not in have:
            failed.append(f"name {name}")
    with subprocess.Popen([sys.executable, "-c", PLAIN], text=True,
                          stdout=subprocess.PIPE) as plain:
        ports = plain.stdout.readline().split()
        for name, program in PROGRAMS.items():
            done = subprocess.run([sys.executable, "-c", program, *ports], env=ENV, text=True,
                                  check=False, timeout=120, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            print(f"{'FAILED' if done.returncode else 'ok    '} {name}\n{done.stdout}", end="")
            if done.returncode:
                failed.append(name)
        plain.kill()
    print(f"{len(PROGRAMS)} programs, {len(NAMES_44)} names, {len(failed)} failed",
          *failed, sep="\n  ")
    sys.exit(1 if failed else 0)


main()
