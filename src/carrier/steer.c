/* SPDX-License-Identifier: BSD-2-Clause */
#include "carrier/steer.h"

#include <errno.h>
#include <string.h>
#include <linux/filter.h>
#include <sys/socket.h>

#ifndef SO_DETACH_REUSEPORT_BPF
#define SO_DETACH_REUSEPORT_BPF 68
#endif

/* Where a BTH has the byte before the destination QP number, and the mask over both. */
#define QPN_AT	 4
#define QPN_MASK 0xffffffu
/* No such socket: the kernel chooses. */
#define NOBODY 0xffffffffu

int vb_steer_attach(int fd, const struct vb_seat_row *rows, uint32_t n)
{
	struct sock_filter code[2 * VB_SEAT_ROWS + 4] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, QPN_AT),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QPN_MASK),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, VB_BLOCK_BITS),
	};
	struct sock_fprog program;

	/* With what lies between its members: the kernel is given all of it. */
	memset(&program, 0, sizeof(program));
	program.len = 3;
	program.filter = code;
	if (n > VB_SEAT_ROWS)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		code[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								   rows[i].block, 0, 1);
		code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, rows[i].seat);
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, NOBODY);
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program))
		       ? -errno
		       : 0;
}

int vb_steer_detach(int fd)
{
	int none = 0;

	return setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &none, sizeof(none)) ? -errno
											: 0;
}
