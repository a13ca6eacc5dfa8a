/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rdmacm/rsocket/wire.h"

static bool read_number(const char *dir, const char *name, uint64_t *value)
{
	char path[PATH_MAX], text[32], *end;
	unsigned long long number;
	ssize_t got;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return false;
	text[got] = '\0';
	errno = 0;
	number = strtoull(text, &end, 10);
	if (end == text || errno || text[0] == '-')
		return false;
	*value = number;
	return true;
}

uint32_t vb_rs_buffer_bytes(uint64_t wanted)
{
	if (wanted < VB_RS_BUFFER_MIN)
		wanted = VB_RS_BUFFER_MIN;
	if (wanted > VB_RS_BUFFER_MAX)
		wanted = VB_RS_BUFFER_MAX;
	return (uint32_t)(wanted & ~1ull);
}

uint16_t vb_rs_queue_size(uint64_t wanted)
{
	if (wanted < VB_RS_MIN_QUEUE)
		return VB_RS_MIN_QUEUE;
	return wanted > VB_RS_MAX_QUEUE ? VB_RS_MAX_QUEUE : (uint16_t)wanted;
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

void vb_rs_conf_read(const char *dir, struct vb_rs_conf *conf)
{
	int kept = errno;
	uint64_t value;

	*conf = (struct vb_rs_conf){
		.rbuf_bytes = 1 << 17,
		.sbuf_bytes = 1 << 17,
		.sq_size = 384,
		.rq_size = 384,
		.inline_bytes = 64,
		.polling_us = 10,
	};
	if (read_number(dir, "mem_default", &value))
		conf->rbuf_bytes = vb_rs_buffer_bytes(value);
	if (read_number(dir, "wmem_default", &value))
		conf->sbuf_bytes = vb_rs_buffer_bytes(value);
	if (read_number(dir, "sqsize_default", &value))
		conf->sq_size = vb_rs_queue_size(value);
	if (read_number(dir, "rqsize_default", &value))
		conf->rq_size = vb_rs_queue_size(value);
	if (read_number(dir, "inline_default", &value))
		conf->inline_bytes = (uint16_t)at_most(value, VB_RS_MAX_QUEUE);
	if (read_number(dir, "iomap_size", &value))
		conf->iomap_entries = vb_rs_iomap_round((uint32_t)at_most(value, UINT16_MAX));
	if (read_number(dir, "polling_time", &value))
		conf->polling_us = (uint32_t)at_most(value, 1000000);
	errno = kept;
}
