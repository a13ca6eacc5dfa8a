/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles: what they need, what they keep busy, and those made for a reply. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/rule.h"
#include "lib/verbs_many.h"

static struct verbs_end end;

static struct ibv_ah_attr good_attr(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	attr.grh.dgid = end.gid;
	attr.grh.sgid_index = (uint8_t)end.opts.gid_index;
	attr.grh.hop_limit = 64;
	return attr;
}

static void refused(struct ibv_ah_attr attr, int err, const char *rule)
{
	errno = 0;
	CHECK(!ibv_create_ah(end.pd, &attr) && errno == err);
	CHECK(rule_said(rule));
}

static void rules(void *arg)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	rule_log_start();
	many_open(&end, IBV_QPT_UD, &pair_defaults);
	for (int port = 0; port < 256; port += port ? 84 : 2) {
		attr = good_attr();
		attr.port_num = (uint8_t)port;
		refused(attr, EINVAL, "create-ah-port");
	}
	attr = good_attr();
	attr.is_global = 0;
	attr.dlid = 7;
	refused(attr, EINVAL, "create-ah-grh");
	/* A hole of the table, and far beyond its end. */
	attr = good_attr();
	attr.grh.sgid_index = 63;
	refused(attr, EINVAL, "create-ah-sgid");
	attr.grh.sgid_index = 255;
	refused(attr, EINVAL, "create-ah-sgid");
	/* It is of use all the same, and keeps its PD. */
	ah = many_ah(end.pd, end.opts.gid_index, &end.gid);
	CHECK(ibv_destroy_qp(end.qp) == 0);
	end.qp = NULL;
	CHECK(ibv_dealloc_pd(end.pd) == EBUSY);
	CHECK(rule_said("busy"));
	CHECK(ibv_destroy_ah(ah) == 0);
	end_close(&end);
}
CASE_IN_CHILD(rules)

/* Addresses of others, and multicast ones, can be named: they are resolved when they are used. */
static void destinations(void *arg)
{
	union ibv_gid gids[] = {
		{.raw = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 99}},
		{.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}},
		{.raw = {0xff, 0x0e, [15] = 9}},
		{.raw = {0xfe, 0x80, [15] = 9}},
	};

	many_open(&end, IBV_QPT_UD, &pair_defaults);
	for (size_t i = 0; i < sizeof(gids) / sizeof(gids[0]); i++)
		CHECK(ibv_destroy_ah(many_ah(end.pd, end.opts.gid_index, &gids[i])) == 0);
	end_close(&end);
}
CASE_IN_CHILD(destinations)

static void limit(void *arg)
{
	struct ibv_ah_attr attr;
	struct ibv_device_attr dev;
	struct ibv_ah *ah[3];

	rule_log_start();
	setenv("VERBENA_MAX_AH", "3", 1);
	many_open(&end, IBV_QPT_UD, &pair_defaults);
	CHECK(ibv_query_device(end.context, &dev) == 0 && dev.max_ah == 3);
	attr = good_attr();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++) {
			ah[i] = ibv_create_ah(end.pd, &attr);
			CHECK(ah[i]);
			CHECK(!i || ah[i]->handle != ah[i - 1]->handle);
		}
		errno = 0;
		CHECK(!ibv_create_ah(end.pd, &attr) && errno == ENOMEM);
		CHECK(round || rule_said("ah-limit"));
		for (int i = 0; i < 3; i++)
			CHECK(ibv_destroy_ah(ah[i]) == 0);
	}
	end_close(&end);
}
CASE_IN_CHILD(limit)

/* A request keeps its own copy of the address. */
static void destroyed_after_post(void *arg)
{
	struct slots in;
	struct ibv_sge sge;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	many_open(&end, IBV_QPT_UD, &pair_defaults);
	slots_new(&in, end.pd, 256, 4);
	CHECK(many_init(&end) == 0 && many_rtr(&end, 0, &end.gid, 0) == 0);
	sge = slots_sge(&in, 0);
	CHECK(post_recv(&end, 0, &sge, 1) == 0);
	/* Posted before RTS: it waits, and the handle goes meanwhile. */
	ah = many_ah(end.pd, end.opts.gid_index, &end.gid);
	sge = slots_sge(&in, 1);
	sge.length = 16;
	CHECK(post_ud(&end, IBV_WR_SEND, 1, &sge, 1, ah, end.qp->qp_num, MANY_QKEY,
		      IBV_SEND_SIGNALED) == 0);
	CHECK(ibv_destroy_ah(ah) == 0);
	CHECK(many_rts(&end) == 0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == MANY_GRH + 16);
	slots_free(&in);
	end_close(&end);
}
CASE_IN_CHILD(destroyed_after_post)

/* The receiver answers with what came, over IPv4 and IPv6. */
static void reply(void *arg)
{
	struct ibv_gid_entry entries[64];
	struct slots in;
	int tried = 0;

	many_open(&end, IBV_QPT_UD, &pair_defaults);
	many_up(&end, 0, NULL, 0);
	slots_new(&in, end.pd, 512, 4);
	ssize_t n = ibv_query_gid_table(end.context, entries, 64, 0);

	CHECK(n > 0);
	for (ssize_t i = 0; i < n; i++) {
		struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1}, back;
		struct ibv_sge sge = slots_sge(&in, 0), out = slots_sge(&in, 1);
		struct ibv_ah *ah, *answer;
		struct ibv_wc wc;

		if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		attr.grh = (struct ibv_global_route){.dgid = entries[i].gid,
						     .sgid_index = (uint8_t)entries[i].gid_index,
						     .traffic_class = 0x68,
						     .flow_label = 0x12345,
						     .hop_limit = 17};
		ah = ibv_create_ah(end.pd, &attr);
		CHECK(ah);
		out.length = 24;
		CHECK(post_recv(&end, 3, &sge, 1) == 0);
		CHECK(post_ud(&end, IBV_WR_SEND, 1, &out, 1, ah, end.qp->qp_num, MANY_QKEY,
			      IBV_SEND_SIGNALED) == 0);
		wait_wc(end.send_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS);
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_GRH);
		memset(&back, 0x77, sizeof(back));
		CHECK(ibv_init_ah_from_wc(end.context, 1, &wc, (struct ibv_grh *)(void *)in.bytes,
					  &back) == 0);
		CHECK(back.is_global == 1 && back.port_num == 1);
		CHECK(!memcmp(&back.grh.dgid, &entries[i].gid, 16));
		CHECK(back.grh.sgid_index == entries[i].gid_index);
		CHECK(back.grh.traffic_class == 0x68);
		answer = ibv_create_ah_from_wc(end.pd, &wc, (struct ibv_grh *)(void *)in.bytes, 1);
		CHECK(answer);
		CHECK(post_recv(&end, 4, &sge, 1) == 0);
		CHECK(post_ud(&end, IBV_WR_SEND, 2, &out, 1, answer, wc.src_qp, MANY_QKEY,
			      IBV_SEND_SIGNALED) == 0);
		wait_wc(end.send_cq, &wc);
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 4);
		CHECK(ibv_destroy_ah(ah) == 0 && ibv_destroy_ah(answer) == 0);
		tried++;
	}
	CHECK(tried);
	slots_free(&in);
	end_close(&end);
}
CASE_IN_CHILD(reply)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_destinations),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_reply),
		cmocka_unit_test(test_destroyed_after_post),
	};

	many_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
