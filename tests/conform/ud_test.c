/* SPDX-License-Identifier: BSD-2-Clause */
/* UD: what a datagram brings along, who may send it, what becomes of those nobody takes. */
#include <sys/mman.h>

#include "lib/ud_bed.h"

/* ---- Contents ---- */

static void check_ipv4(const uint8_t *ip, const struct ibv_gid_entry *entry, uint32_t bytes,
		       uint8_t tos)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	CHECK((sum & 0xffff) + (sum >> 16) == 0xffff);
	CHECK(ip[0] == 0x45 && ip[1] == tos && ip[8] == 64 && ip[9] == 17);
	/* IP, UDP, BTH, DETH, data padded to 4, ICRC. */
	CHECK(((uint32_t)ip[2] << 8 | ip[3]) == 20 + 8 + 12 + 8 + ((bytes + 3) & ~3u) + 4);
	CHECK(!memcmp(ip + 12, entry->gid.raw + 12, 4) && !memcmp(ip + 16, entry->gid.raw + 12, 4));
}

static void check_ipv6(const uint8_t *ip, const struct ibv_gid_entry *entry, uint32_t bytes,
		       uint8_t tclass)
{
	CHECK(ip[0] >> 4 == 6 && (uint8_t)(ip[0] << 4 | ip[1] >> 4) == tclass);
	CHECK(((ip[1] & 0xfu) << 16 | (uint32_t)ip[2] << 8 | ip[3]) == 0xabcde);
	CHECK(((uint32_t)ip[4] << 8 | ip[5]) == 8 + 12 + 8 + ((bytes + 3) & ~3u) + 4);
	CHECK(ip[6] == 17 && ip[7] == 64);
	CHECK(!memcmp(ip + 8, entry->gid.raw, 16) && !memcmp(ip + 24, entry->gid.raw, 16));
}

static void one_header(const struct ibv_gid_entry *entry, uint32_t bytes, uint8_t tclass)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	bool v4 = is_ipv4(entry->gid.raw);
	struct ibv_ah *ah;
	struct ibv_wc wc;

	attr.grh = (struct ibv_global_route){.dgid = entry->gid,
					     .sgid_index = (uint8_t)entry->gid_index,
					     .traffic_class = tclass,
					     .flow_label = 0xabcde,
					     .hop_limit = 64};
	ah = ibv_create_ah(end.pd, &attr);
	CHECK(ah);
	memset(in.bytes, 0xee, in.size);
	recv_slot(0, in.size);
	datagram(IBV_WR_SEND_WITH_IMM, bytes, end.qp->qp_num, MANY_QKEY, ah, 0, IBV_WC_SUCCESS);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == 0);
	CHECK(wc.byte_len == MANY_GRH + bytes && wc.src_qp == end.qp->qp_num);
	CHECK(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && be32toh(wc.imm_data) == 0x1234);
	CHECK(wc.pkey_index == 0 && wc.slid == 0 && wc.qp_num == end.qp->qp_num);
	/* The kind of header, as ConnectX says it: over UDP, IPv4 or IPv6. */
	CHECK(wc.sl == (8 | (v4 ? 2 : 1)));
	CHECK(!memcmp(in.bytes + MANY_GRH, in.bytes + 63 * in.size, bytes));
	CHECK(in.bytes[MANY_GRH + bytes] == 0xee);
	if (v4)
		check_ipv4(in.bytes + 20, entry, bytes, tclass);
	else
		check_ipv6(in.bytes, entry, bytes, tclass);
	CHECK(ibv_destroy_ah(ah) == 0);
}

static void headers(void *arg)
{
	const uint32_t sizes[] = {0, 1, 7, 23, 24, 25, 64, 65, 1000, 4056, 4057, 4096};
	struct ibv_gid_entry entries[64];
	struct ibv_port_attr port;
	int v4 = 0;
	ssize_t n;

	open_up();
	CHECK(ibv_query_port(end.context, 1, &port) == 0);
	n = ibv_query_gid_table(end.context, entries, 64, 0);
	CHECK(n > 0);
	for (ssize_t i = 0; i < n; i++) {
		if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		v4 += is_ipv4(entries[i].gid.raw);
		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
			if (sizes[k] <= 128u << port.active_mtu)
				one_header(&entries[i], sizes[k], (uint8_t)(k * 0x14));
	}
	CHECK(v4);
	close_end();
}
CASE_IN_CHILD(headers)

/* The data continues behind the header over the elements of the receive, wherever they part. */
static void scattered(void *arg)
{
	const uint32_t parts[][3] = {
		{40, 1, 63}, {1, 39, 64}, {20, 40, 44}, {41, 62, 1}, {0, 52, 52}};

	open_up();
	for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
		struct ibv_sge sges[3];
		uint8_t got[104];
		uint32_t at = 0;
		struct ibv_wc wc;

		for (int i = 0; i < 3; i++) {
			sges[i] = slots_sge(&in, (uint64_t)i);
			sges[i].length = parts[k][i];
		}
		CHECK(post_recv(&end, k, sges, 3) == 0);
		send_ok(64, end.qp->qp_num, MANY_QKEY);
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 104);
		for (int i = 0; i < 3; at += parts[k][i++])
			memcpy(got + at, in.bytes + (uint32_t)i * in.size, parts[k][i]);
		CHECK(!memcmp(got + 40, in.bytes + 63 * in.size, 64));
	}
	close_end();
}
CASE_IN_CHILD(scattered)

/* The requests of ibv_wr_*: the address is set by a setter, the data in every way. */
static void wr_calls(void *arg)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_UD,
		.cap = {8, 8, 4, 4, 64},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM};
	uint8_t text[64];
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;

	rule_log_start();
	open_end();
	CHECK(ibv_destroy_qp(end.qp) == 0);
	attr.pd = end.pd;
	attr.send_cq = end.send_cq;
	attr.recv_cq = end.recv_cq;
	attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE;
	CHECK(!ibv_create_qp_ex(end.context, &attr) && errno == EOPNOTSUPP);
	attr.send_ops_flags &= ~(uint64_t)IBV_QP_EX_WITH_RDMA_WRITE;
	end.qp = ibv_create_qp_ex(end.context, &attr);
	CHECK(end.qp);
	ex = ibv_qp_to_qp_ex(end.qp);
	many_up(&end, 0, NULL, 0);
	message_make(text, 1, 5, sizeof(text));
	for (int i = 0; i < 2; i++)
		recv_slot((uint64_t)i, 128);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, self, end.qp->qp_num, MANY_QKEY);
	ibv_wr_set_inline_data(ex, text, sizeof(text));
	ex->wr_id = 2;
	ibv_wr_send_imm(ex, htobe32(77));
	memcpy(in.bytes + 63 * in.size, text, sizeof(text));
	ibv_wr_set_sge(ex, in.mr->lkey, slots_sge(&in, 63).addr, sizeof(text));
	ibv_wr_set_ud_addr(ex, self, end.qp->qp_num, 0x80000000u);
	CHECK(ibv_wr_complete(ex) == 0);
	for (int i = 0; i < 2; i++) {
		wait_wc(end.send_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i + 1);
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i);
		CHECK(!memcmp(in.bytes + (uint32_t)i * in.size + MANY_GRH, text, sizeof(text)));
		CHECK(wc.wc_flags == (IBV_WC_GRH | (i ? IBV_WC_WITH_IMM : 0u)));
		CHECK(!i || be32toh(wc.imm_data) == 77);
	}
	/* Without an address there is nowhere to send it. */
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, text, 8);
	CHECK(ibv_wr_complete(ex) == 0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.status == IBV_WC_LOC_QP_OP_ERR);
	CHECK(rule_said("wc-address-handle"));
	close_end();
}
CASE_IN_CHILD(wr_calls)

static void solicited(void *arg)
{
	struct pair_opts opts = pair_defaults;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	opts.channel = true;
	many_open(&end, IBV_QPT_UD, &opts);
	slots_new(&in, end.pd, 8192, 64);
	self = many_ah(end.pd, opts.gid_index, &end.gid);
	many_up(&end, 0, NULL, 0);
	CHECK(ibv_req_notify_cq(end.recv_cq, 1) == 0);
	recv_slot(0, 128);
	recv_slot(1, 128);
	send_ok(8, end.qp->qp_num, MANY_QKEY);
	CHECK(!readable(end.channel->fd));
	datagram(IBV_WR_SEND, 8, end.qp->qp_num, MANY_QKEY, self, IBV_SEND_SOLICITED,
		 IBV_WC_SUCCESS);
	wait_readable(end.channel->fd);
	CHECK(ibv_get_cq_event(end.channel, &cq, &context) == 0 && cq == end.recv_cq);
	ibv_ack_cq_events(cq, 1);
	for (int i = 0; i < 2; i++)
		wait_wc(end.recv_cq, &wc);
	close_end();
}
CASE_IN_CHILD(solicited)

/* ---- What nobody takes ---- */

/* Nothing was consumed: the receive that waits takes the next good datagram. */
static void still_waits(uint64_t slot)
{
	struct ibv_wc wc;

	CHECK(no_wc(end.recv_cq));
	send_ok(8, end.qp->qp_num, MANY_QKEY);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == slot && wc.byte_len == MANY_GRH + 8);
}

static void dropped(void *arg)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct verbs_end other;
	uint32_t qpn;

	rule_log_start();
	open_up();
	qpn = end.qp->qp_num;
	send_ok(8, qpn, MANY_QKEY); /* none posted */
	CHECK(no_wc(end.recv_cq));
	CHECK(rule_said("wc-ud-dropped"));
	recv_slot(0, MANY_GRH + 8);
	send_ok(8, qpn, MANY_QKEY + 1);
	CHECK(rule_said("wc-ud-dropped"));
	still_waits(0);
	recv_slot(1, MANY_GRH + 8);
	send_ok(8, qpn ^ 0x400000, MANY_QKEY); /* of nobody */
	send_ok(8, qpn ^ 1, MANY_QKEY);
	still_waits(1);
	recv_slot(2, MANY_GRH + 8);
	send_ok(9, qpn, MANY_QKEY); /* too short, and not consumed */
	CHECK(rule_said("wc-ud-dropped"));
	still_waits(2);
	/* A QP of another type, and UD ones that are not ready. */
	other = end;
	other.qp = many_qp(&end, IBV_QPT_RC, NULL);
	end_self(&other);
	CHECK(post_recv(&other, 9, NULL, 0) == 0);
	send_ok(8, other.qp->qp_num, MANY_QKEY);
	CHECK(no_wc(end.recv_cq));
	CHECK(ibv_destroy_qp(other.qp) == 0);
	other.qp = many_qp(&end, IBV_QPT_UD, NULL);
	send_ok(8, other.qp->qp_num, MANY_QKEY);
	CHECK(many_init(&other) == 0);
	CHECK(post_recv(&other, 9, NULL, 0) == 0);
	send_ok(8, other.qp->qp_num, MANY_QKEY);
	CHECK(no_wc(end.recv_cq));
	CHECK(ibv_modify_qp(other.qp, &err, IBV_QP_STATE) == 0);
	struct ibv_wc wc;

	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 9);
	send_ok(8, other.qp->qp_num, MANY_QKEY);
	CHECK(no_wc(end.recv_cq));
	qpn = other.qp->qp_num;
	CHECK(ibv_destroy_qp(other.qp) == 0);
	send_ok(8, qpn, MANY_QKEY);
	close_end();
}
CASE_IN_CHILD(dropped)

/* An address that is none of this host's, where no packet may be sent. */
static void unreachable(void *arg)
{
	union ibv_gid nobody = {.raw = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 99}};
	struct ibv_ah *ah;

	CHECK(!setenv("VERBENA_CARRIER", "local", 1));
	open_up();
	ah = many_ah(end.pd, end.opts.gid_index, &nobody);
	recv_slot(0, 128);
	datagram(IBV_WR_SEND, 8, end.qp->qp_num, MANY_QKEY, ah, 0, IBV_WC_SUCCESS);
	still_waits(0);
	CHECK(ibv_destroy_ah(ah) == 0);
	close_end();
}
CASE_IN_CHILD(unreachable)

/* The high bit asks for the sender's own Q_Key; a change counts from the next datagram on. */
static void qkeys(void *arg)
{
	struct ibv_qp_attr attr = {.qkey = 0x22222222};
	struct verbs_end other;
	uint32_t qpn;
	struct ibv_wc wc;

	open_up();
	qpn = end.qp->qp_num;
	other = end;
	other.qp = many_qp(&end, IBV_QPT_UD, NULL);
	many_up(&other, 0, NULL, 0);
	recv_slot(0, 128);
	recv_slot(1, 128);
	send_ok(8, qpn, 0x80000000u);
	send_ok(8, qpn, 0xffffffffu);
	for (uint64_t i = 0; i < 2; i++) {
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.wr_id == i);
	}
	/* Now it differs between the two. */
	CHECK(ibv_modify_qp(end.qp, &attr, IBV_QP_QKEY) == 0);
	struct ibv_sge sge = slots_sge(&in, 2);

	CHECK(post_recv(&other, 2, &sge, 1) == 0);
	send_ok(8, other.qp->qp_num, 0x80000000u);
	CHECK(no_wc(end.recv_cq));
	send_ok(8, other.qp->qp_num, MANY_QKEY);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.wr_id == 2 && wc.qp_num == other.qp->qp_num && wc.src_qp == qpn);
	recv_slot(3, 128);
	send_ok(8, qpn, MANY_QKEY);
	CHECK(no_wc(end.recv_cq));
	send_ok(8, qpn, 0x22222222);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.wr_id == 3);
	CHECK(ibv_destroy_qp(other.qp) == 0);
	close_end();
}
CASE_IN_CHILD(qkeys)

/* ---- Requests that fail at the sender ---- */

static enum ibv_qp_state state(void)
{
	return end_query(&end);
}

/* In SQE sends flush and receives go on; back in RTS all is as before. */
static void recovers(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
	struct verbs_end other = end;
	struct ibv_sge sge = slots_sge(&in, 63);
	struct ibv_wc wc;

	CHECK(state() == IBV_QPS_SQE);
	datagram(IBV_WR_SEND, 8, end.qp->qp_num, MANY_QKEY, self, 0, IBV_WC_WR_FLUSH_ERR);
	other.qp = many_qp(&end, IBV_QPT_UD, NULL);
	many_up(&other, 0, NULL, 0);
	recv_slot(0, 128);
	sge.length = 8;
	CHECK(post_ud(&other, IBV_WR_SEND, 3, &sge, 1, self, end.qp->qp_num, MANY_QKEY,
		      IBV_SEND_SIGNALED) == 0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == end.qp->qp_num);
	CHECK(ibv_destroy_qp(other.qp) == 0);
	CHECK(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == 0);
	CHECK(state() == IBV_QPS_RTS);
	recv_slot(1, 128);
	still_waits(1);
	CHECK(!readable(end.context->async_fd));
}

static void sender_errors(void *arg)
{
	const enum ibv_wr_opcode not_ud[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
					     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
					     IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_port_attr port;
	struct ibv_sge sge;
	struct ibv_pd *pd;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	rule_log_start();
	open_up();
	CHECK(ibv_query_port(end.context, 1, &port) == 0);
	datagram(IBV_WR_SEND, (128u << port.active_mtu) + 1, end.qp->qp_num, MANY_QKEY, self, 0,
		 IBV_WC_LOC_LEN_ERR);
	CHECK(rule_said("wc-ud-length"));
	recovers();
	for (size_t i = 0; i < sizeof(not_ud) / sizeof(not_ud[0]); i++) {
		datagram(not_ud[i], 8, end.qp->qp_num, MANY_QKEY, self, 0, IBV_WC_LOC_QP_OP_ERR);
		CHECK(i || rule_said("wc-opcode"));
		recovers();
	}
	pd = ibv_alloc_pd(end.context);
	ah = many_ah(pd, end.opts.gid_index, &end.gid);
	recv_slot(2, 128);
	datagram(IBV_WR_SEND, 8, end.qp->qp_num, MANY_QKEY, ah, 0, IBV_WC_LOC_QP_OP_ERR);
	CHECK(rule_said("wc-address-handle"));
	CHECK(ibv_destroy_ah(ah) == 0 && ibv_dealloc_pd(pd) == 0);
	CHECK(no_wc(end.recv_cq));
	/* A bad key: what is behind it in the queue flushes. */
	CHECK(end_state(&end, IBV_QPS_RESET) == 0);
	many_up(&end, 0, NULL, 0);
	sge = slots_sge(&in, 63);
	sge.length = 8;
	sge.lkey ^= 0x100;
	CHECK(post_ud(&end, IBV_WR_SEND, 1, &sge, 1, self, end.qp->qp_num, MANY_QKEY, 0) == 0);
	CHECK(post_ud(&end, IBV_WR_SEND, 2, &sge, 1, self, end.qp->qp_num, MANY_QKEY, 0) == 0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.wr_id == 1 && wc.status == IBV_WC_LOC_PROT_ERR);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR);
	recovers();
	close_end();
}
CASE_IN_CHILD(sender_errors)

/* From on-demand memory that is not there. */
static void absent_memory(void *arg)
{
	void *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge sge = {.addr = (uintptr_t)none, .length = 8};
	struct ibv_mr *mr;
	struct ibv_wc wc;

	open_up();
	mr = ibv_reg_mr(end.pd, none, 4096, IBV_ACCESS_ON_DEMAND);
	CHECK(none != MAP_FAILED && mr);
	sge.lkey = mr->lkey;
	recv_slot(0, 128);
	CHECK(post_ud(&end, IBV_WR_SEND, 3, &sge, 1, self, end.qp->qp_num, MANY_QKEY, 0) == 0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.wr_id == 3 && wc.status == IBV_WC_LOC_PROT_ERR);
	CHECK(state() == IBV_QPS_SQE && no_wc(end.recv_cq));
	CHECK(!ibv_dereg_mr(mr) && !munmap(none, 4096));
	close_end();
}
CASE_IN_CHILD(absent_memory)

/* A receive whose buffer is not ours to write: the receiver's QP ends, the sender's does not. */
static void receive_error(void *arg)
{
	struct verbs_end other;
	struct ibv_sge sge;
	struct ibv_wc wc;

	open_up();
	other = end;
	other.qp = many_qp(&end, IBV_QPT_UD, NULL);
	many_up(&other, 0, NULL, 0);
	sge = slots_sge(&in, 0);
	CHECK(post_recv(&other, 5, &sge, 1) == 0);
	sge.lkey ^= 0x100;
	CHECK(post_recv(&other, 6, &sge, 1) == 0);
	CHECK(post_recv(&other, 7, NULL, 0) == 0);
	send_ok(8, other.qp->qp_num, MANY_QKEY);
	send_ok(8, other.qp->qp_num, MANY_QKEY);
	send_ok(8, other.qp->qp_num, MANY_QKEY);
	for (uint64_t i = 5; i < 8; i++) {
		const enum ibv_wc_status want[] = {IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR,
						   IBV_WC_WR_FLUSH_ERR};

		wait_wc(end.recv_cq, &wc);
		CHECK(wc.wr_id == i && wc.status == want[i - 5]);
	}
	CHECK(end_query(&other) == IBV_QPS_ERR && state() == IBV_QPS_RTS);
	CHECK(ibv_destroy_qp(other.qp) == 0);
	close_end();
}
CASE_IN_CHILD(receive_error)

/* ---- Many senders ---- */

#define SENDERS 4
#define EACH	200u

/* Everything posted before, nothing may be lost, and each sender is heard in order. */
static void count_all(struct tally *tally, uint32_t count, const struct slots *slots)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < count; i++) {
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wc_flags == IBV_WC_GRH);
		message_count(tally, slots->bytes + wc.wr_id * slots->size + MANY_GRH,
			      wc.byte_len - MANY_GRH);
	}
}

static void many_processes(void *arg)
{
	const uint32_t sizes[] = {8, 60, 300, 1000};
	struct remote remote[SENDERS];
	struct tally tally = {.got = 0};
	struct slots big;

	open_up();
	slots_new(&big, end.pd, 1100, MANY_SLOTS);
	for (uint32_t i = 0; i < SENDERS; i++)
		remote_start(&remote[i], i, IBV_QPT_UD, NULL);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < SENDERS * EACH; i++) {
			struct ibv_sge sge = slots_sge(&big, i);

			CHECK(post_recv(&end, i, &sge, 1) == 0);
		}
		for (uint32_t i = 0; i < SENDERS; i++)
			remote_send(&remote[i], &end, round * EACH, EACH, sizes[(i + round) % 4]);
		count_all(&tally, SENDERS * EACH, &big);
		for (uint32_t i = 0; i < SENDERS; i++)
			CHECK(remote_hear(&remote[i]) == 0);
		CHECK(no_wc(end.recv_cq));
	}
	CHECK(tally.got == 2 * SENDERS * EACH && !tally.gaps);
	for (uint32_t i = 0; i < SENDERS; i++)
		remote_quit(&remote[i]);
	slots_free(&big);
	close_end();
}
CASE_IN_CHILD(many_processes)

struct sender {
	struct verbs_end end;
	struct ibv_cq *cq;
	struct slots out;
	uint32_t number;
};

static void *send_all(void *arg)
{
	struct sender *s = arg;
	struct ibv_wc wc;

	for (uint32_t i = 0; i < EACH; i++) {
		struct ibv_sge sge = slots_sge(&s->out, 0);

		message_make(s->out.bytes, s->number, i, sge.length);
		CHECK(post_ud(&s->end, IBV_WR_SEND, i, &sge, 1, self, end.qp->qp_num, MANY_QKEY,
			      IBV_SEND_SIGNALED) == 0);
		wait_wc(s->cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS);
	}
	return NULL;
}

static void many_threads(void *arg)
{
	struct sender senders[SENDERS];
	pthread_t thread[SENDERS];
	struct tally tally = {.got = 0};
	struct slots big;

	open_up();
	slots_new(&big, end.pd, 512, MANY_SLOTS);
	for (uint32_t i = 0; i < SENDERS * EACH; i++) {
		struct ibv_sge sge = slots_sge(&big, i);

		CHECK(post_recv(&end, i, &sge, 1) == 0);
	}
	for (uint32_t i = 0; i < SENDERS; i++) {
		struct sender *s = &senders[i];

		s->end = end;
		s->number = i;
		s->cq = s->end.send_cq = ibv_create_cq(end.context, 64, NULL, NULL, 0);
		CHECK(s->cq);
		s->end.qp = many_qp(&s->end, IBV_QPT_UD, NULL);
		many_up(&s->end, 0, NULL, 0);
		slots_new(&s->out, end.pd, 100 + i, 1);
		CHECK(pthread_create(&thread[i], NULL, send_all, s) == 0);
	}
	count_all(&tally, SENDERS * EACH, &big);
	CHECK(tally.got == SENDERS * EACH && !tally.gaps);
	CHECK(no_wc(end.recv_cq));
	for (uint32_t i = 0; i < SENDERS; i++) {
		pthread_join(thread[i], NULL);
		CHECK(ibv_destroy_qp(senders[i].end.qp) == 0);
		CHECK(ibv_destroy_cq(senders[i].cq) == 0);
		slots_free(&senders[i].out);
	}
	slots_free(&big);
	close_end();
}
CASE_IN_CHILD(many_threads)

/* Few receives, posted again as they come: what arrives is whole and in order; a datagram
 * may be lost, a receive may not. */
static void scarce(void *arg)
{
	struct remote remote[3];
	struct tally tally = {.got = 0};
	uint32_t before;
	struct ibv_wc wc;

	open_up();
	for (uint32_t i = 0; i < 3; i++)
		remote_start(&remote[i], i, IBV_QPT_UD, NULL);
	for (uint64_t i = 0; i < 4; i++)
		recv_slot(i, in.size);
	for (uint32_t i = 0; i < 3; i++)
		remote_send(&remote[i], &end, 0, 500, 300);
	for (uint32_t done = 0; done < 3;) {
		if (ibv_poll_cq(end.recv_cq, 1, &wc) == 1) {
			CHECK(wc.status == IBV_WC_SUCCESS);
			message_count(&tally, in.bytes + wc.wr_id * in.size + MANY_GRH,
				      wc.byte_len - MANY_GRH);
			recv_slot(wc.wr_id, in.size);
			continue;
		}
		if (readable(remote[done].fd))
			CHECK(remote_hear(&remote[done++]) == 0);
	}
	while (ibv_poll_cq(end.recv_cq, 1, &wc) == 1) {
		message_count(&tally, in.bytes + wc.wr_id * in.size + MANY_GRH,
			      wc.byte_len - MANY_GRH);
		recv_slot(wc.wr_id, in.size);
	}
	before = tally.got;
	CHECK(before > 0 && before <= 1500);
	/* All four receives are there. */
	for (uint32_t i = 0; i < 4; i++)
		send_ok(64, end.qp->qp_num, MANY_QKEY);
	for (uint32_t i = 0; i < 4; i++)
		wait_wc(end.recv_cq, &wc);
	CHECK(no_wc(end.recv_cq));
	for (uint32_t i = 0; i < 3; i++)
		remote_quit(&remote[i]);
	close_end();
}
CASE_IN_CHILD(scarce)

/* A queue that took receives before is waited for, whoever sends; it sets the pace. */
static void waited_for(void *arg)
{
	struct ibv_sge sge;
	struct verbs_end other;
	struct ibv_wc wc;

	open_up();
	sge = slots_sge(&in, 63);
	sge.length = 8;
	recv_slot(0, 128);
	send_ok(8, end.qp->qp_num, MANY_QKEY);
	wait_wc(end.recv_cq, &wc);
	other = end;
	other.qp = many_qp(&end, IBV_QPT_UD, NULL);
	many_up(&other, 0, NULL, 0);
	for (uint64_t i = 1; i < 5; i++) {
		CHECK(post_ud(&other, IBV_WR_SEND, 7, &sge, 1, self, end.qp->qp_num, MANY_QKEY,
			      IBV_SEND_SIGNALED) == 0);
		recv_slot(i, 128);
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
		wait_wc(end.send_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 7);
	}
	CHECK(ibv_destroy_qp(other.qp) == 0);
	close_end();
}
CASE_IN_CHILD(waited_for)

/* Datagrams that come before their receives wait a moment for them and stay in order. */
static void late_receives(void *arg)
{
	struct ibv_sge sge;
	struct ibv_wc wc;

	open_up();
	sge = slots_sge(&in, 63);
	recv_slot(0, 128);
	send_ok(8, end.qp->qp_num, MANY_QKEY);
	wait_wc(end.recv_cq, &wc);
	for (uint32_t round = 0; round < 100; round++) {
		for (uint32_t i = 0; i < 4; i++) {
			sge.length = 8 + i;
			CHECK(post_ud(&end, IBV_WR_SEND, 7, &sge, 1, self, end.qp->qp_num,
				      MANY_QKEY, IBV_SEND_SIGNALED) == 0);
		}
		for (int i = 0; i < 100; i++)
			CHECK(no_wc(end.recv_cq));
		for (uint32_t i = 0; i < 4; i++)
			recv_slot(i, 128);
		for (uint32_t i = 0; i < 4; i++) {
			wait_wc(end.recv_cq, &wc);
			CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
			CHECK(wc.byte_len == 40 + 8 + i);
			wait_wc(end.send_cq, &wc);
			CHECK(wc.status == IBV_WC_SUCCESS);
		}
	}
	close_end();
}
CASE_IN_CHILD(late_receives)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_headers),	      cmocka_unit_test(test_scattered),
		cmocka_unit_test(test_wr_calls),      cmocka_unit_test(test_solicited),
		cmocka_unit_test(test_dropped),	      cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_qkeys),	      cmocka_unit_test(test_sender_errors),
		cmocka_unit_test(test_receive_error), cmocka_unit_test(test_many_processes),
		cmocka_unit_test(test_many_threads),  cmocka_unit_test(test_scarce),
		cmocka_unit_test(test_waited_for),    cmocka_unit_test(test_late_receives),
		cmocka_unit_test(test_absent_memory),
	};

	many_main(argc, argv);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
