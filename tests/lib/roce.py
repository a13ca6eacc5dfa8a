# SPDX-License-Identifier: BSD-2-Clause
"""RoCEv2 packets made by hand, with their check."""
import socket
import struct
import zlib

PORT = 4791
SPORT = 0xc123
CNP = 0x81
RC_SEND_ONLY = 0x04
RC_ACK = 0x11


def packet(source, dest, opcode, qpn, psn=0, rest=b"", flags=0, sport=SPORT):
    """What goes to a socket: a packet without IPv4 identification, from source's port sport

    rest: what follows the BTH, a multiple of four bytes. flags: the byte with FECN and BECN.
    """
    bth = struct.pack(">BBHBBHI", opcode, 0, 0xffff, flags, qpn >> 16, qpn & 0xffff, psn) + rest
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xff, 20 + 8 + len(bth) + 4, 0, 0x4000, 0xff, 17,
                     0xffff, socket.inet_aton(source), socket.inet_aton(dest))
    udp = struct.pack(">HHHH", sport, PORT, 8 + len(bth) + 4, 0xffff)
    covered = bytearray(b"\xff" * 8 + ip + udp + bth)
    covered[8 + 20 + 8 + 4] = 0xff
    return bth + struct.pack("<I", zlib.crc32(covered))


# For a python3 in a network namespace: addresses, then the packets in hexadecimal.
SEND = f"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: no identification
s.bind((sys.argv[1], {SPORT}))
for packet in sys.argv[3:]:
    s.sendto(bytes.fromhex(packet), (sys.argv[2], {PORT}))
"""
