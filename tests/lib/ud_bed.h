/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_UD_BED_H
#define VB_TESTS_UD_BED_H

/* What the tests of UD begin with: one QP, an address handle of itself, receives by slot. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/rule.h"
#include "lib/verbs_many.h"

__attribute__((unused)) static struct verbs_end end;
__attribute__((unused)) static struct slots in;
__attribute__((unused)) static struct ibv_ah *self;

static inline bool is_ipv4(const uint8_t *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, prefix, sizeof(prefix));
}

static inline void open_end(void)
{
	struct pair_opts opts = pair_defaults;

	opts.recvs = MANY_SLOTS;
	opts.cqe = 4096;
	many_open(&end, IBV_QPT_UD, &opts);
	slots_new(&in, end.pd, 8192, 64);
	self = many_ah(end.pd, opts.gid_index, &end.gid);
}

static inline void open_up(void)
{
	open_end();
	many_up(&end, 0, NULL, 0);
}

static inline void close_end(void)
{
	CHECK(ibv_destroy_ah(self) == 0);
	slots_free(&in);
	end_close(&end);
}

static inline void recv_slot(uint64_t slot, uint32_t bytes)
{
	struct ibv_sge sge = slots_sge(&in, slot);

	sge.length = bytes;
	CHECK(post_recv(&end, slot, &sge, 1) == 0);
}

/* One datagram to a QP, which the sender completes with a status. */
static inline void datagram(enum ibv_wr_opcode opcode, uint32_t bytes, uint32_t qpn, uint32_t qkey,
			    struct ibv_ah *ah, unsigned int flags, enum ibv_wc_status status)
{
	struct ibv_sge sge = slots_sge(&in, 63);
	struct ibv_wc wc;

	sge.length = bytes;
	message_make(in.bytes + 63 * in.size, 1, 0, 8192);
	CHECK(post_ud(&end, opcode, 0x1234, &sge, 1, ah, qpn, qkey, flags | IBV_SEND_SIGNALED) ==
	      0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.status == status && wc.wr_id == 0x1234 && wc.qp_num == end.qp->qp_num);
}

static inline void send_ok(uint32_t bytes, uint32_t qpn, uint32_t qkey)
{
	datagram(IBV_WR_SEND, bytes, qpn, qkey, self, 0, IBV_WC_SUCCESS);
}

#endif
