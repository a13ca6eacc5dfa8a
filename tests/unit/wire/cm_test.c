/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every field of every message at its place: the table below has the bytes as the specification
 * draws them, and what no row of it names is reserved.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/cm.h"

#define HEADER 24

/* One field: all of its bits, and an example that has no symmetry. The bytes are those from @at
 * on, counted from the end of the common header. */
struct row {
	uint16_t attr;
	uint16_t at;
	const char *all, *example;
	size_t member, size;
	uint64_t value;
};

#define AT(member) offsetof(struct vb_cm_msg, member), sizeof(((struct vb_cm_msg *)0)->member)

#define PATH(attr, at, path)                                                                       \
	{attr, at, "ffff", "1234", AT(path.slid), 0x1234},                                         \
		{attr, (at) + 2, "ffff", "abcd", AT(path.dlid), 0xabcd},                           \
		{attr, (at) + 36, "fffff0", "123450", AT(path.flow_label), 0x12345},               \
		{attr, (at) + 42, "f0", "d0", AT(path.sl), 13},                                    \
		{attr, (at) + 42, "08", "08", AT(path.subnet_local), 1},                           \
	{                                                                                          \
		attr, (at) + 43, "f8", "98", AT(path.ack_timeout), 19                              \
	}
#define REQ_PATH(at, path)                                                                         \
	PATH(VB_CM_REQ, at, path), {VB_CM_REQ, (at) + 39, "3f", "25", AT(path.rate), 0x25},        \
		{VB_CM_REQ, (at) + 40, "ff", "a1", AT(path.traffic_class), 0xa1},                  \
	{                                                                                          \
		VB_CM_REQ, (at) + 41, "ff", "40", AT(path.hop_limit), 64                           \
	}
#define IDS(attr)                                                                                  \
	{attr, 0, "ffffffff", "01020384", AT(local_id), 0x01020384},                               \
	{                                                                                          \
		attr, 4, "ffffffff", "81020304", AT(remote_id), 0x81020304                         \
	}

/* clang-format off */
static const struct row rows[] = {
	{VB_CM_REQ, 0, "ffffffff", "01020384", AT(local_id), 0x01020384},
	{VB_CM_REQ, 5, "ffffff", "0002c9", AT(vendor_id), 0x0002c9},
	{VB_CM_REQ, 8, "ffffffffffffffff", "0102030405060788", AT(service_id), 0x0102030405060788},
	{VB_CM_REQ, 16, "ffffffffffffffff", "8102030405060708", AT(ca_guid), 0x8102030405060708},
	{VB_CM_REQ, 28, "ffffffff", "80010002", AT(qkey), 0x80010002},
	{VB_CM_REQ, 32, "ffffff", "123456", AT(qpn), 0x123456},
	{VB_CM_REQ, 35, "ff", "83", AT(resources), 0x83},
	{VB_CM_REQ, 39, "ff", "c1", AT(depth), 0xc1},
	{VB_CM_REQ, 43, "f8", "98", AT(remote_timeout), 19},
	{VB_CM_REQ, 43, "06", "02", AT(transport), 1},
	{VB_CM_REQ, 43, "01", "01", AT(flow_control), 1},
	{VB_CM_REQ, 44, "ffffff", "fedcba", AT(psn), 0xfedcba},
	{VB_CM_REQ, 47, "f8", "a0", AT(local_timeout), 20},
	{VB_CM_REQ, 47, "07", "06", AT(retries), 6},
	{VB_CM_REQ, 48, "ffff", "8001", AT(pkey), 0x8001},
	{VB_CM_REQ, 50, "f0", "30", AT(mtu), 3},
	{VB_CM_REQ, 50, "07", "05", AT(rnr_retries), 5},
	{VB_CM_REQ, 51, "f0", "b0", AT(cm_retries), 11},
	{VB_CM_REQ, 51, "08", "08", AT(srq), 1},
	{VB_CM_REQ, 51, "07", "01", AT(ext_transport), 1},
	REQ_PATH(52, path),
	REQ_PATH(96, alt),
	IDS(VB_CM_MRA),
	{VB_CM_MRA, 8, "c0", "80", AT(about), VB_CM_ABOUT_OTHER},
	{VB_CM_MRA, 9, "f8", "98", AT(service_timeout), 19},
	IDS(VB_CM_REJ),
	{VB_CM_REJ, 8, "c0", "40", AT(about), VB_CM_ABOUT_REP},
	{VB_CM_REJ, 9, "fe", "48", AT(ari_len), 36},
	{VB_CM_REJ, 10, "ffff", "001c", AT(reason), VB_CM_REJ_CONSUMER},
	IDS(VB_CM_REP),
	{VB_CM_REP, 8, "ffffffff", "80010002", AT(qkey), 0x80010002},
	{VB_CM_REP, 12, "ffffff", "123456", AT(qpn), 0x123456},
	{VB_CM_REP, 15, "ff000000ff000000ff", "010000000200000083", AT(vendor_id), 0x010283},
	{VB_CM_REP, 20, "ffffff", "fedcba", AT(psn), 0xfedcba},
	{VB_CM_REP, 24, "ff", "83", AT(resources), 0x83},
	{VB_CM_REP, 25, "ff", "c1", AT(depth), 0xc1},
	{VB_CM_REP, 26, "f8", "98", AT(ack_delay), 19},
	{VB_CM_REP, 26, "06", "04", AT(failover), 2},
	{VB_CM_REP, 26, "01", "01", AT(flow_control), 1},
	{VB_CM_REP, 27, "e0", "c0", AT(rnr_retries), 6},
	{VB_CM_REP, 27, "10", "10", AT(srq), 1},
	{VB_CM_REP, 28, "ffffffffffffffff", "8102030405060708", AT(ca_guid), 0x8102030405060708},
	IDS(VB_CM_RTU),
	IDS(VB_CM_DREQ),
	{VB_CM_DREQ, 8, "ffffff", "123456", AT(qpn), 0x123456},
	IDS(VB_CM_DREP),
	{VB_CM_SIDR_REQ, 0, "ffffffff", "01020384", AT(local_id), 0x01020384},
	{VB_CM_SIDR_REQ, 4, "ffff", "8001", AT(pkey), 0x8001},
	{VB_CM_SIDR_REQ, 8, "ffffffffffffffff", "0102030405060788", AT(service_id),
	 0x0102030405060788},
	{VB_CM_SIDR_REP, 0, "ffffffff", "01020384", AT(local_id), 0x01020384},
	{VB_CM_SIDR_REP, 4, "ff", "03", AT(status), VB_CM_SIDR_NO_QP},
	{VB_CM_SIDR_REP, 5, "ff", "24", AT(ari_len), 36},
	{VB_CM_SIDR_REP, 8, "ffffff", "123456", AT(qpn), 0x123456},
	{VB_CM_SIDR_REP, 12, "ffffffffffffffff", "0102030405060788", AT(service_id),
	 0x0102030405060788},
	{VB_CM_SIDR_REP, 20, "ffffffff", "01234567", AT(qkey), 0x01234567},
	IDS(VB_CM_LAP),
	{VB_CM_LAP, 12, "ffffff", "123456", AT(qpn), 0x123456},
	{VB_CM_LAP, 15, "f8", "98", AT(remote_timeout), 19},
	PATH(VB_CM_LAP, 20, alt),
	{VB_CM_LAP, 59, "ff", "a1", AT(alt.traffic_class), 0xa1},
	{VB_CM_LAP, 60, "ff", "40", AT(alt.hop_limit), 64},
	{VB_CM_LAP, 61, "3f", "25", AT(alt.rate), 0x25},
	IDS(VB_CM_APR),
	{VB_CM_APR, 8, "ff", "24", AT(ari_len), 36},
	{VB_CM_APR, 9, "ff", "02", AT(status), VB_CM_APR_NOT_SUPPORTED},
};

/* Fields that are bytes. */
static const struct {
	uint16_t attr, at;
	size_t member, size;
} blocks[] = {
	{VB_CM_REQ, 56, AT(path.sgid)},	   {VB_CM_REQ, 72, AT(path.dgid)},
	{VB_CM_REQ, 100, AT(alt.sgid)},	   {VB_CM_REQ, 116, AT(alt.dgid)},
	{VB_CM_LAP, 24, AT(alt.sgid)},	   {VB_CM_LAP, 40, AT(alt.dgid)},
	{VB_CM_REJ, 12, AT(ari)},	   {VB_CM_APR, 12, AT(ari)},
	{VB_CM_SIDR_REP, 24, AT(ari)},
};

/* Private data: from where to the end, and how much that is. */
static const struct {
	uint16_t attr, at, len;
} private_data[] = {
	{VB_CM_REQ, 140, 92}, {VB_CM_MRA, 10, 222}, {VB_CM_REJ, 84, 148}, {VB_CM_REP, 36, 196},
	{VB_CM_RTU, 8, 224}, {VB_CM_DREQ, 12, 220}, {VB_CM_DREP, 8, 224},
	{VB_CM_SIDR_REQ, 16, 216}, {VB_CM_SIDR_REP, 96, 136}, {VB_CM_LAP, 64, 168},
	{VB_CM_APR, 84, 148},
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void header(uint16_t attr, uint8_t *bytes)
{
	memset(bytes, 0, VB_MAD_LEN);
	memcpy(bytes, "\x01\x07\x02\x03", 4);
	bytes[17] = (uint8_t)attr;
}

/* OR the bytes written in hexadecimal. */
static size_t put(uint8_t *to, const char *hex)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		unsigned int byte;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		to[i] |= (uint8_t)byte;
	}
	return n;
}

static void put_member(struct vb_cm_msg *msg, size_t at, size_t size, uint64_t value)
{
	/* Little-endian, as all machines this runs on. */
	memcpy((uint8_t *)msg + at, &value, size);
}

static void same_bytes(const struct vb_cm_msg *msg, const uint8_t *want)
{
	uint8_t got[VB_MAD_LEN];

	memset(got, 0xff, sizeof(got));
	vb_cm_build(msg, got);
	assert_memory_equal(got, want, VB_MAD_LEN);
}

static void same_message(const uint8_t *bytes, const struct vb_cm_msg *want)
{
	struct vb_cm_msg got;

	memset(&got, 0xff, sizeof(got));
	assert_true(vb_cm_parse(bytes, VB_MAD_LEN, &got));
	assert_memory_equal(&got, want, sizeof(got));
}

static void test_fields(void **state)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct row *r = &rows[i];
		struct vb_cm_msg msg = {.attr = r->attr};
		uint8_t bytes[VB_MAD_LEN];

		header(r->attr, bytes);
		put(bytes + HEADER + r->at, r->example);
		put_member(&msg, r->member, r->size, r->value);
		same_bytes(&msg, bytes);
		same_message(bytes, &msg);
	}
}

static void test_blocks(void **state)
{
	for (size_t i = 0; i < COUNT(blocks); i++) {
		struct vb_cm_msg msg = {.attr = blocks[i].attr};
		uint8_t bytes[VB_MAD_LEN];

		header(msg.attr, bytes);
		for (size_t b = 0; b < blocks[i].size; b++) {
			bytes[HEADER + blocks[i].at + b] = (uint8_t)(b + 1);
			((uint8_t *)&msg)[blocks[i].member + b] = (uint8_t)(b + 1);
		}
		same_bytes(&msg, bytes);
		same_message(bytes, &msg);
	}
}

static void test_private_data(void **state)
{
	assert_int_equal(COUNT(private_data), VB_CM_APR - VB_CM_REQ + 1);
	for (size_t i = 0; i < COUNT(private_data); i++) {
		uint16_t attr = private_data[i].attr, len = private_data[i].len;
		struct vb_cm_msg msg = {.attr = attr};
		uint8_t bytes[VB_MAD_LEN];

		assert_int_equal(HEADER + private_data[i].at + len, VB_MAD_LEN);
		assert_int_equal(vb_cm_private_len(attr), len);
		header(attr, bytes);
		for (size_t b = 0; b < len; b++) {
			bytes[HEADER + private_data[i].at + b] = (uint8_t)(b + 1);
			msg.private_data[b] = (uint8_t)(b + 1);
		}
		same_message(bytes, &msg);
		/* More than the message has is left out. */
		memset(msg.private_data + len, 0x5a, sizeof(msg.private_data) - len);
		same_bytes(&msg, bytes);
	}
	assert_int_equal(vb_cm_private_len(VB_CM_REQ - 1), 0);
	assert_int_equal(vb_cm_private_len(VB_CM_APR + 1), 0);
	assert_int_equal(vb_cm_private_len(0xffff), 0);
	assert_int_equal(vb_cm_private_len(VB_CM_REQ), VB_CM_REQ_PRIV);
	assert_int_equal(vb_cm_private_len(VB_CM_REP), VB_CM_REP_PRIV);
	assert_int_equal(vb_cm_private_len(VB_CM_REJ), VB_CM_REJ_PRIV);
	assert_int_equal(vb_cm_private_len(VB_CM_SIDR_REQ), VB_CM_SIDR_REQ_PRIV);
	assert_int_equal(vb_cm_private_len(VB_CM_SIDR_REP), VB_CM_SIDR_REP_PRIV);
}

static void test_header(void **state)
{
	static const uint8_t want[HEADER] = {1, 7, 2, 3, 0, 0,	  0, 0, 0x81, 2,   3,	4,
					     5, 6, 7, 8, 0, 0x15, 0, 0, 9,    0xa, 0xb, 0xc};
	struct vb_cm_msg msg = {
		.attr = VB_CM_DREQ, .tid = 0x8102030405060708, .attr_mod = 0x090a0b0c};
	uint8_t bytes[VB_MAD_LEN] = {0};

	memcpy(bytes, want, sizeof(want));
	same_bytes(&msg, bytes);
	same_message(bytes, &msg);
}

/* The bits that some row names, all others being reserved. */
static void meant(uint16_t attr, uint8_t *mask)
{
	memset(mask, 0, VB_MAD_LEN);
	/* Transaction, attribute, modifier. */
	memset(mask + 8, 0xff, 10);
	memset(mask + 20, 0xff, 4);
	memset(mask, 0xff, 4);
	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].attr == attr)
			put(mask + HEADER + rows[i].at, rows[i].all);
	for (size_t i = 0; i < COUNT(blocks); i++)
		if (blocks[i].attr == attr)
			memset(mask + HEADER + blocks[i].at, 0xff, blocks[i].size);
	for (size_t i = 0; i < COUNT(private_data); i++)
		if (private_data[i].attr == attr)
			memset(mask + HEADER + private_data[i].at, 0xff, private_data[i].len);
}

/* A field of the length of something else, which is cut. */
static void cut_length(uint16_t attr, uint8_t *bytes)
{
	if (attr == VB_CM_REJ && bytes[HEADER + 9] >> 1 > VB_CM_ARI_LEN)
		bytes[HEADER + 9] = (uint8_t)(VB_CM_ARI_LEN << 1);
	if (attr == VB_CM_APR && bytes[HEADER + 8] > VB_CM_ARI_LEN)
		bytes[HEADER + 8] = VB_CM_ARI_LEN;
	if (attr == VB_CM_SIDR_REP && bytes[HEADER + 5] > VB_CM_ARI_LEN)
		bytes[HEADER + 5] = VB_CM_ARI_LEN;
}

/* Any bytes under a good header: what is reserved is lost, all else comes back. */
static void test_random(void **state)
{
	uint8_t bytes[VB_MAD_LEN], again[VB_MAD_LEN], mask[VB_MAD_LEN];
	unsigned int seed = 1;

	for (int i = 0; i < 2000; i++) {
		uint16_t attr = (uint16_t)(VB_CM_REQ + i % (VB_CM_APR - VB_CM_REQ + 1));
		struct vb_cm_msg msg;

		header(attr, bytes);
		for (size_t b = 4; b < VB_MAD_LEN; b++)
			if (b != 16 && b != 17)
				bytes[b] = (uint8_t)(rand_r(&seed) >> 8);
		assert_true(vb_cm_parse(bytes, VB_MAD_LEN, &msg));
		assert_true(msg.ari_len <= VB_CM_ARI_LEN);
		vb_cm_build(&msg, again);
		meant(attr, mask);
		for (size_t b = 0; b < VB_MAD_LEN; b++)
			bytes[b] &= mask[b];
		cut_length(attr, bytes);
		assert_memory_equal(again, bytes, VB_MAD_LEN);
		same_message(again, &msg);
	}
}

/* A number that does not fit in its field leaves the neighbours alone. */
static void test_too_wide(void **state)
{
	struct vb_cm_msg msg = {.attr = VB_CM_REQ, .qpn = 0xff123456, .mtu = 0xf3, .retries = 0xfe};
	struct vb_cm_msg fits = {.attr = VB_CM_REQ, .qpn = 0x123456, .mtu = 3, .retries = 6};
	uint8_t bytes[VB_MAD_LEN];

	vb_cm_build(&fits, bytes);
	same_bytes(&msg, bytes);
}

static void refused(const uint8_t *bytes, size_t len)
{
	struct vb_cm_msg msg, before;

	memset(&msg, 0x5a, sizeof(msg));
	before = msg;
	assert_false(vb_cm_parse(bytes, len, &msg));
	assert_memory_equal(&msg, &before, sizeof(msg));
}

static void test_malformed(void **state)
{
	static const uint8_t zeroes[VB_MAD_LEN];
	uint8_t bytes[VB_MAD_LEN + 1] = {0}, *exact;
	struct vb_cm_msg msg = {.attr = VB_CM_REQ - 1};

	/* An attribute that is none: an empty message, which nobody takes for one. */
	same_bytes(&msg, zeroes);
	refused(zeroes, VB_MAD_LEN);
	for (unsigned int attr = 0; attr < 0x10000; attr++) {
		header(VB_CM_REQ, bytes);
		bytes[16] = (uint8_t)(attr >> 8);
		bytes[17] = (uint8_t)attr;
		assert_int_equal(vb_cm_parse(bytes, VB_MAD_LEN, &msg),
				 attr >= VB_CM_REQ && attr <= VB_CM_APR);
	}
	/* Base version, class, class version, method: the only good value of each. */
	for (int at = 0; at < 4; at++) {
		for (int value = 0; value < 256; value++) {
			header(VB_CM_REQ, bytes);
			if (bytes[at] == value)
				continue;
			bytes[at] = (uint8_t)value;
			refused(bytes, VB_MAD_LEN);
		}
	}
	/* In memory of just that size, so that a read past it is seen. */
	header(VB_CM_REQ, bytes);
	for (size_t len = 0; len <= VB_MAD_LEN + 1; len++) {
		if (len == VB_MAD_LEN)
			continue;
		exact = malloc(len + (len == 0));
		assert_non_null(exact);
		memcpy(exact, bytes, len);
		refused(exact, len);
		free(exact);
	}
}

static void test_ip(void **state)
{
	static const uint8_t v4[VB_CM_IP_LEN] = {0, 0x40, 0x12, 0x34, 0,  0,  0, 0, 0,	0,  0, 0,
						 0, 0,	  0,	0,    10, 77, 0, 2, 0,	0,  0, 0,
						 0, 0,	  0,	0,    0,  0,  0, 0, 10, 77, 0, 1};
	struct vb_cm_ip ip = {.version = 4,
			      .port = 0x1234,
			      .src = {[12] = 10, 77, 0, 2},
			      .dst = {[12] = 10, 77, 0, 1}};
	struct vb_cm_ip got = {0};
	uint8_t bytes[VB_CM_IP_LEN];

	memset(bytes, 0xff, sizeof(bytes));
	vb_cm_ip_build(&ip, bytes);
	assert_memory_equal(bytes, v4, sizeof(v4));
	assert_true(vb_cm_ip_parse(v4, &got));
	assert_memory_equal(&got, &ip, sizeof(ip));

	ip.version = 6;
	memset(ip.src, 0x81, 16);
	memset(ip.dst, 0x42, 16);
	vb_cm_ip_build(&ip, bytes);
	assert_int_equal(bytes[1], 0x60);
	assert_true(vb_cm_ip_parse(bytes, &got));
	assert_memory_equal(&got, &ip, sizeof(ip));

	/* The low half of the second byte is reserved, the first one is a version: major, minor. */
	bytes[1] = 0x6f;
	bytes[0] = 0x01;
	assert_true(vb_cm_ip_parse(bytes, &got));
	bytes[0] = 0x10;
	assert_false(vb_cm_ip_parse(bytes, &got));
	bytes[0] = 0;
	for (int version = 0; version < 16; version++) {
		bytes[1] = (uint8_t)(version << 4);
		assert_int_equal(vb_cm_ip_parse(bytes, &got), version == 4 || version == 6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),	     cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_private_data), cmocka_unit_test(test_header),
		cmocka_unit_test(test_random),	     cmocka_unit_test(test_too_wide),
		cmocka_unit_test(test_malformed),    cmocka_unit_test(test_ip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
