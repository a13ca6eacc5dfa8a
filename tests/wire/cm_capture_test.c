/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages by which Linux connected its own programs are understood, and built again byte for
 * byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/capture.h"
#include "wire/cm.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define MESSAGES 16

struct seen {
	struct vb_cm_msg msgs[MESSAGES];
	size_t n, frames;
};

static void one_packet(const uint8_t *ip, size_t len, struct seen *seen)
{
	uint8_t again[VB_MAD_LEN];
	struct vb_packet pkt;
	uint32_t crc;
	size_t skip = vb_icrc_headers(ip, len, &crc);

	assert_true(skip > 0);
	assert_int_equal(vb_packet_parse(ip + skip, len - skip, &pkt), VB_PARSE_OK);
	if (pkt.dest_qpn != VB_CM_QPN)
		return;
	assert_true(seen->n < MESSAGES);
	assert_int_equal(pkt.src_qpn, VB_CM_QPN);
	assert_int_equal(pkt.qkey, VB_CM_QKEY);
	assert_true(vb_cm_parse(pkt.payload, pkt.payload_len, &seen->msgs[seen->n]));
	memset(again, 0xff, sizeof(again));
	vb_cm_build(&seen->msgs[seen->n++], again);
	assert_memory_equal(again, pkt.payload, VB_MAD_LEN);
}

static void read_all(const char *name, struct seen *seen)
{
	struct capture cap;

	memset(seen, 0, sizeof(*seen));
	capture_load(name, &cap);
	for (size_t i = 0; i < cap.count; i++)
		one_packet(cap.frame[i].ip, cap.frame[i].len, seen);
	seen->frames = cap.count;
	capture_free(&cap);
}

static void has_address(const struct vb_cm_msg *msg)
{
	static const uint8_t client[4] = {10, 77, 0, 2}, server[4] = {10, 77, 0, 1};
	static const uint8_t zeroes[12];
	struct vb_cm_ip ip;
	uint8_t again[VB_CM_IP_LEN];

	assert_true(vb_cm_ip_parse(msg->private_data, &ip));
	assert_int_equal(ip.version, 4);
	assert_true(ip.port >= 1024);
	assert_memory_equal(ip.src, zeroes, 12);
	assert_memory_equal(ip.src + 12, client, 4);
	assert_memory_equal(ip.dst, zeroes, 12);
	assert_memory_equal(ip.dst + 12, server, 4);
	vb_cm_ip_build(&ip, again);
	assert_memory_equal(again, msg->private_data, VB_CM_IP_LEN);
}

static void test_rping(void **state)
{
	static const uint16_t order[] = {VB_CM_REQ, VB_CM_REP, VB_CM_RTU, VB_CM_DREQ, VB_CM_DREP};
	struct seen seen;
	const struct vb_cm_msg *req = &seen.msgs[0], *rep = &seen.msgs[1], *rtu = &seen.msgs[2];
	const struct vb_cm_msg *dreq = &seen.msgs[3], *drep = &seen.msgs[4];

	read_all("rping.pcap", &seen);
	assert_int_equal(seen.n, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(seen.msgs[i].attr, order[i]);
	has_address(req);
	/* RDMA_PS_TCP, and rping's port. */
	assert_true(req->service_id == 0x01061c06);
	/* The QP to which the packets of the same capture go. */
	assert_int_equal(req->qpn, 0x16);
	assert_int_equal(rep->qpn, 0x16);
	assert_int_equal(dreq->qpn, 0x16);
	assert_int_equal(req->transport, 0);
	assert_int_equal(req->pkey, 0xffff);
	assert_int_equal(req->mtu, 3);
	assert_int_equal(req->path.hop_limit, 64);
	assert_memory_equal(req->path.sgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x4d\0\x02", 16);
	assert_memory_equal(req->path.dgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x4d\0\x01", 16);
	/* Each names the other's id as it was told. */
	assert_int_equal(rep->remote_id, req->local_id);
	assert_int_equal(rtu->local_id, req->local_id);
	assert_int_equal(rtu->remote_id, rep->local_id);
	assert_int_equal(dreq->remote_id, rep->local_id);
	assert_int_equal(drep->remote_id, dreq->local_id);
	assert_true(rep->tid == req->tid && drep->tid == dreq->tid);
}

static void test_udaddy(void **state)
{
	struct seen seen;
	const struct vb_cm_msg *req = &seen.msgs[0], *rep = &seen.msgs[1];

	read_all("udaddy.pcap", &seen);
	assert_int_equal(seen.n, 2);
	assert_int_equal(req->attr, VB_CM_SIDR_REQ);
	assert_int_equal(rep->attr, VB_CM_SIDR_REP);
	has_address(req);
	assert_int_equal(rep->local_id, req->local_id);
	assert_true(rep->service_id == req->service_id);
	assert_int_equal(rep->status, VB_CM_SIDR_VALID);
	assert_int_equal(rep->qpn, 0x17);
	assert_int_equal(rep->qkey, 0x01234567);
}

/* A group by IP address needs no message: it is joined by IGMP. */
static void test_mckey(void **state)
{
	struct seen seen;

	read_all("mckey.pcap", &seen);
	assert_int_equal(seen.frames, 2);
	assert_int_equal(seen.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rping),
		cmocka_unit_test(test_udaddy),
		cmocka_unit_test(test_mckey),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
