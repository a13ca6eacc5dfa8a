/* SPDX-License-Identifier: BSD-2-Clause */
/* The file is read back by the format's description, not by the code that writes it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "carrier/pcap.h"
#include "lib/child.h"

#define BYTES (64 << 10)

static char path[] = "/tmp/verbena-pcap.XXXXXX";
static uint8_t file[BYTES], bytes[4160];

static size_t load(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, file, sizeof(file));

	close(fd);
	CHECK(n >= 0);
	return (size_t)n;
}

static uint32_t word(size_t at)
{
	uint32_t value;

	memcpy(&value, file + at, sizeof(value));
	return value;
}

/* A packet with a right ICRC between two addresses. */
static struct vb_udp_datagram packet(bool v6, uint32_t len, uint16_t id)
{
	struct vb_udp_datagram d = {
		.traffic_class = 0x68, .hop_limit = 9, .len = len, .bytes = bytes};
	uint8_t from[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}, to[16];
	uint32_t crc;

	if (v6)
		memset(from, 0xfd, sizeof(from));
	memcpy(to, from, sizeof(to));
	to[15] = 2;
	vb_udp_flow(&d.flow, from, to, 50000);
	d.flow.ip_id = id;
	for (uint32_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i * 7 + len);
	crc = vb_icrc_bth(vb_icrc_flow(&d.flow, (uint16_t)len), bytes, len - 4);
	vb_icrc_store(crc, bytes + len - 4);
	return d;
}

/* One block; its length stands at both ends. Returns where the next one is. */
static size_t block(size_t at, uint32_t type)
{
	uint32_t len = word(at + 4);

	CHECK(word(at) == type && len % 4 == 0 && word(at + len - 4) == len);
	return at + len;
}

static void contents(void *arg)
{
	static const uint32_t lens[] = {16, 17, 18, 19, 20, 1044, 4160};
	struct vb_pcap p;
	size_t at, end;
	uint64_t last = 0;

	CHECK(!vb_pcap_open(&p, path, "verbena0"));
	for (int i = 0; i < 14; i++) {
		struct vb_udp_datagram d = packet(i & 1, lens[i / 2], (uint16_t)(i * 1000));

		vb_pcap_packet(&p, &d, i & 2);
	}
	vb_pcap_close(&p);
	end = load();
	CHECK(word(8) == 0x1a2b3c4d && word(12) == 1);
	at = block(0, 0x0a0d0d0a);
	CHECK(word(at + 8) == 101 && !memcmp(file + at + 20, "verbena0", 8));
	at = block(at, 1);
	for (int i = 0; i < 14; i++) {
		uint32_t len = lens[i / 2] + (i & 1 ? 48 : 28), crc = 0;
		uint64_t ns = (uint64_t)word(at + 12) << 32 | word(at + 16);
		const uint8_t *ip = file + at + 28;
		size_t skip;

		CHECK(word(at + 8) == 0 && word(at + 20) == len && word(at + 24) == len);
		CHECK(ns >= last);
		last = ns;
		skip = vb_icrc_headers(ip, len, &crc);
		CHECK(skip == len - lens[i / 2]);
		CHECK(vb_icrc_good(crc, ip + skip, len - skip));
		CHECK(word(at + 28 + ((len + 3) & ~3u) + 4) == (i & 2 ? 2 : 1));
		at = block(at, 6);
	}
	CHECK(at == end);
}

/* A second one goes on; what is no capture is left as it is. */
static void others(void *arg)
{
	struct vb_udp_datagram d = packet(false, 20, 1);
	struct vb_pcap p, q;
	size_t before, after;
	int fd;

	CHECK(!vb_pcap_open(&p, path, "a") && !vb_pcap_open(&q, path, "b"));
	before = load();
	vb_pcap_packet(&p, &d, true);
	vb_pcap_packet(&q, &d, true);
	after = load();
	CHECK(after == before + 2 * word(before + 4));
	vb_pcap_close(&p);
	vb_pcap_close(&q);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	CHECK(write(fd, "no capture here", 15) == 15);
	close(fd);
	CHECK(vb_pcap_open(&p, path, "a") == -EEXIST && !vb_pcap_on(&p));
	vb_pcap_packet(&p, &d, true);
	vb_pcap_close(&p);
	CHECK(load() == 15);
	CHECK(vb_pcap_open(&p, "/dev/null", "a") == -EEXIST);
	vb_pcap_close(&p);
	CHECK(vb_pcap_open(&p, "/nowhere/file", "a") == -ENOENT);
	vb_pcap_close(&p);
}

/* A limit on the file's size ends the capture, not the process, and leaves whole packets. */
static void limited(void *arg)
{
	struct rlimit limit = {4000, 4000};
	struct vb_udp_datagram d = packet(false, 1044, 0);
	struct vb_pcap p;
	size_t at, end;

	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	CHECK(!vb_pcap_open(&p, path, "a"));
	for (int i = 0; i < 10; i++)
		vb_pcap_packet(&p, &d, true);
	CHECK(!vb_pcap_on(&p));
	vb_pcap_close(&p);
	end = load();
	CHECK(end > 2000 && end <= 4000);
	for (at = block(block(0, 0x0a0d0d0a), 1); at < end;)
		at = block(at, 6);
	CHECK(at == end);
}

static void run(void (*body)(void *arg))
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	close(fd);
	assert_int_equal(run_in_child(body, NULL), 0);
}

static void test_contents(void **state)
{
	run(contents);
}

static void test_others(void **state)
{
	run(others);
}

static void test_limited(void **state)
{
	run(limited);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contents),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_limited),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
