/* SPDX-License-Identifier: BSD-2-Clause */
/* The format: draft-ietf-opsawg-pcapng. All numbers in this machine's byte order. */
#include "carrier/pcap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SECTION	  0x0a0d0d0au
#define INTERFACE 1u
#define PACKET	  6u
#define MAGIC	  0x1a2b3c4du
#define LINK_RAW  101u /* a packet begins with its IP header */
#define INBOUND	  1u
#define OUTBOUND  2u

#define OPT_NAME  2u /* of an interface */
#define OPT_FLAGS 2u /* of a packet */
#define OPT_TSRES 9u
#define NANO	  9u

#define IP_MAX	  48
#define PATIENCE  100
#define FILE_HEAD 256

static void put16(uint8_t *to, unsigned int value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}

/* ---- the beginning of a file ---- */

struct text {
	uint32_t words[FILE_HEAD / 4];
	uint32_t n; /* words */
};

static void word(struct text *t, uint32_t value)
{
	t->words[t->n++] = value;
}

static void option(struct text *t, uint32_t code, const void *value, uint32_t len)
{
	word(t, code | len << 16);
	t->words[t->n + (len + 3) / 4 - 1] = 0;
	memcpy(&t->words[t->n], value, len);
	t->n += (len + 3) / 4;
}

/* The block that began at @from: its length stands at both ends. */
static void end_block(struct text *t, uint32_t from)
{
	uint32_t bytes = (t->n - from + 1) * 4;

	t->words[from + 1] = bytes;
	word(t, bytes);
}

static int write_head(int fd, const char *name)
{
	static const uint8_t nano = NANO;
	struct text t = {.n = 0};
	size_t bytes;
	uint32_t len = (uint32_t)strnlen(name, 64), from;

	word(&t, SECTION);
	word(&t, 0);
	word(&t, MAGIC);
	word(&t, 1); /* version 1.0 */
	word(&t, UINT32_MAX);
	word(&t, UINT32_MAX); /* length: to the end */
	end_block(&t, 0);
	from = t.n;
	word(&t, INTERFACE);
	word(&t, 0);
	word(&t, LINK_RAW);
	word(&t, 0); /* packets are whole */
	option(&t, OPT_NAME, name, len ? len : 1);
	option(&t, OPT_TSRES, &nano, sizeof(nano));
	word(&t, 0);
	end_block(&t, from);
	bytes = t.n * sizeof(t.words[0]);
	return write(fd, t.words, bytes) == (ssize_t)bytes ? 0 : -EIO;
}

static int check_or_begin(int fd, const char *name)
{
	uint32_t first[3];
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EEXIST;
	if (!st.st_size)
		return write_head(fd, name);
	if (pread(fd, first, sizeof(first), 0) != sizeof(first) || first[0] != SECTION ||
	    first[2] != MAGIC)
		return -EEXIST;
	return 0;
}

int vb_pcap_open(struct vb_pcap *p, const char *path, const char *name)
{
	struct flock in_use = {.l_type = F_RDLCK};
	int err;

	pthread_mutex_init(&p->lock, NULL);
	p->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	if (p->fd < 0)
		return -errno;
	/* Held as long as it is written to: `verbena run` empties files that nobody writes. */
	fcntl(p->fd, F_OFD_SETLK, &in_use);
	flock(p->fd, LOCK_EX);
	err = check_or_begin(p->fd, name);
	flock(p->fd, LOCK_UN);
	if (err)
		close(p->fd);
	if (err)
		p->fd = -1;
	return err;
}

void vb_pcap_close(struct vb_pcap *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	pthread_mutex_destroy(&p->lock);
}

/* ---- the headers that a socket does not show ---- */

static uint32_t sum(uint32_t sum, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum += i & 1 ? bytes[i] : (uint32_t)bytes[i] << 8;
	return sum;
}

static unsigned int folded(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

static void udp_header(const struct vb_udp_datagram *d, uint8_t *udp)
{
	put16(udp, d->flow.sport);
	put16(udp + 2, d->flow.dport);
	put16(udp + 4, 8 + d->len);
	put16(udp + 6, 0);
}

static size_t headers4(const struct vb_udp_datagram *d, uint8_t *ip)
{
	memset(ip, 0, 28);
	ip[0] = 0x45;
	ip[1] = d->traffic_class;
	put16(ip + 2, 28 + d->len);
	put16(ip + 4, d->flow.ip_id);
	ip[6] = d->flow.df ? 0x40 : 0;
	ip[8] = d->hop_limit;
	ip[9] = 17;
	memcpy(ip + 12, d->flow.saddr, 4);
	memcpy(ip + 16, d->flow.daddr, 4);
	put16(ip + 10, folded(sum(0, ip, 20)));
	udp_header(d, ip + 20);
	return 28;
}

/* IPv6 has no packets without a UDP checksum. */
static size_t headers6(const struct vb_udp_datagram *d, uint8_t *ip)
{
	uint32_t crc;
	unsigned int check;

	memset(ip, 0, 48);
	ip[0] = (uint8_t)(0x60 | d->traffic_class >> 4);
	ip[1] = (uint8_t)(d->traffic_class << 4 | (d->flow_label >> 16 & 0xf));
	put16(ip + 2, d->flow_label & 0xffff);
	put16(ip + 4, 8 + d->len);
	ip[6] = 17;
	ip[7] = d->hop_limit;
	memcpy(ip + 8, d->flow.saddr, 16);
	memcpy(ip + 24, d->flow.daddr, 16);
	udp_header(d, ip + 40);
	crc = sum(17 + 8 + d->len, ip + 8, 40);
	check = folded(sum(crc, d->bytes, d->len));
	put16(ip + 46, check ? check : 0xffff);
	return 48;
}

/* ---- a packet ---- */

/* Others write too; one that was stopped while it did is not waited for. */
static void lock_file(int fd)
{
	for (int i = 0; i < PATIENCE && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; i++)
		sched_yield();
}

/* A file that may not grow would end the process by a signal. */
static bool may_grow(int fd, size_t bytes, off_t *size)
{
	struct rlimit limit;
	struct stat st;

	if (fstat(fd, &st) || getrlimit(RLIMIT_FSIZE, &limit))
		return false;
	*size = st.st_size;
	return limit.rlim_cur == RLIM_INFINITY || (rlim_t)st.st_size + bytes <= limit.rlim_cur;
}

static void write_packet(struct vb_pcap *p, const struct vb_udp_datagram *d, bool out)
{
	static const uint8_t zeroes[4];
	uint8_t ip[IP_MAX];
	size_t ip_len = d->flow.ipv6 ? headers6(d, ip) : headers4(d, ip);
	uint32_t captured = (uint32_t)ip_len + d->len, pad = -captured & 3;
	uint32_t total = 28 + captured + pad + 12 + 4;
	uint32_t head[7] = {PACKET, total, 0, 0, 0, captured, captured};
	uint32_t tail[4] = {OPT_FLAGS | 4u << 16, out ? OUTBOUND : INBOUND, 0, total};
	struct iovec iov[] = {{head, sizeof(head)},
			      {ip, ip_len},
			      {(void *)(uintptr_t)d->bytes, d->len},
			      {(void *)(uintptr_t)zeroes, pad},
			      {tail, sizeof(tail)}};
	struct timespec now;
	uint64_t ns;
	off_t size = 0;

	lock_file(p->fd);
	clock_gettime(CLOCK_REALTIME, &now);
	ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	head[3] = (uint32_t)(ns >> 32);
	head[4] = (uint32_t)ns;
	if (!may_grow(p->fd, total, &size) || writev(p->fd, iov, 5) != (ssize_t)total) {
		/* No half packets. */
		if (size)
			(void)!ftruncate(p->fd, size);
		close(p->fd); /* unlocks it */
		p->fd = -1;
		return;
	}
	flock(p->fd, LOCK_UN);
}

void vb_pcap_packet(struct vb_pcap *p, const struct vb_udp_datagram *d, bool out)
{
	pthread_mutex_lock(&p->lock);
	if (p->fd >= 0)
		write_packet(p, d, out);
	pthread_mutex_unlock(&p->lock);
}
