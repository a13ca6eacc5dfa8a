/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies within this process of memory that may not be there: the kernel does them, and
 * says EFAULT where an instruction would raise a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "host/memory_paths.h"
#include "object/keys.h"

/* What a pipe takes at once by default. */
#define PIPE_BYTES 65536u

static ssize_t by_pipe(void *to, const void *from, size_t bytes, int *fault)
{
	size_t most = bytes < PIPE_BYTES ? bytes : PIPE_BYTES;
	ssize_t got, put = -1;
	int fds[2];

	*fault = -ENOMEM;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return -1;
	got = write(fds[1], from, most);
	*fault = 1;
	if (got > 0) {
		put = read(fds[0], to, (size_t)got);
		*fault = 2;
	}
	close(fds[0]);
	close(fds[1]);
	return put;
}

/* Copies what it can at once. On failure: 1 the source, 2 the destination. */
static ssize_t copy_some(void *to, const void *from, size_t bytes, int *fault)
{
	struct iovec src = {(void *)(uintptr_t)from, bytes}, dst = {to, bytes};
	ssize_t got;

	*fault = 2;
	/* As in vb_cross_copy(): the source is asked after each failure. */
	for (int faults = 0; faults < VB_FAULT_TRIES; faults++) {
		do
			got = process_vm_readv(getpid(), &dst, 1, &src, 1, 0);
		while (got < 0 && errno == EINTR);
		if (got > 0)
			return got;
		if (got < 0 && errno != EFAULT)
			return by_pipe(to, from, bytes, fault);
		/* Once or twice: who takes it away again and again may do so in step with us. */
		for (int asked = 0; asked <= faults % 2; asked++)
			if (!vb_memory_readable(from))
				*fault = 1;
	}
	return -1;
}

static int copy_all(void *to, const void *from, size_t bytes)
{
	int fault = 0;

	while (bytes) {
		ssize_t got = copy_some(to, from, bytes, &fault);

		if (got <= 0)
			return fault;
		to = (uint8_t *)to + got;
		from = (const uint8_t *)from + got;
		bytes -= (size_t)got;
	}
	return 0;
}

int vb_careful_copy(void *here, const struct iovec *iov, int n, size_t bytes, bool in)
{
	uint8_t *at = here;

	for (int i = 0; i < n && bytes; i++) {
		size_t part = iov[i].iov_len < bytes ? iov[i].iov_len : bytes;
		int fault = in ? copy_all(at, iov[i].iov_base, part)
			       : copy_all(iov[i].iov_base, at, part);

		if (fault < 0)
			return fault;
		if (fault)
			return (fault == 1) == in ? -EFAULT : -EREMOTEIO;
		at += part;
		bytes -= part;
	}
	return 0;
}

int vb_memory_gather(void *to, const struct iovec *local, int n, uint64_t len, bool careful)
{
	uint8_t *at = to;

	for (int i = 0; i < n && len; i++) {
		uint64_t part = local[i].iov_len < len ? local[i].iov_len : len;

		if (local[i].iov_base == VB_NULL_BASE)
			memset(at, 0, part);
		else if (!careful)
			memcpy(at, local[i].iov_base, part);
		else if (copy_all(at, local[i].iov_base, part))
			return -EFAULT;
		at += part;
		len -= part;
	}
	return 0;
}

int64_t vb_memory_scatter(const struct iovec *local, int n, const void *from, uint64_t len,
			  bool careful)
{
	const uint8_t *at = from;

	for (int i = 0; i < n && len; i++) {
		uint64_t part = local[i].iov_len < len ? local[i].iov_len : len;

		if (local[i].iov_base != VB_NULL_BASE && !careful)
			memcpy(local[i].iov_base, at, part);
		else if (local[i].iov_base != VB_NULL_BASE && copy_all(local[i].iov_base, at, part))
			return -EFAULT;
		at += part;
		len -= part;
	}
	return (int64_t)len;
}
