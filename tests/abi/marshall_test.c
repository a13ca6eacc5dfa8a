/* SPDX-License-Identifier: BSD-2-Clause */
/* Every field arrives: each gets a value of its own, there and, for path records, back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

/* Bytes 1, 2, 3, ... so that no two fields are alike. */
static void number(void *object, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)object)[i] = (uint8_t)(i + 1);
}

static void assert_same_ah(const struct ibv_ah_attr *a, const struct ib_uverbs_ah_attr *b)
{
	assert_memory_equal(a->grh.dgid.raw, b->grh.dgid, 16);
	assert_int_equal(a->grh.flow_label, b->grh.flow_label);
	assert_int_equal(a->grh.sgid_index, b->grh.sgid_index);
	assert_int_equal(a->grh.hop_limit, b->grh.hop_limit);
	assert_int_equal(a->grh.traffic_class, b->grh.traffic_class);
	assert_int_equal(a->dlid, b->dlid);
	assert_int_equal(a->sl, b->sl);
	assert_int_equal(a->src_path_bits, b->src_path_bits);
	assert_int_equal(a->static_rate, b->static_rate);
	assert_int_equal(a->is_global, b->is_global);
	assert_int_equal(a->port_num, b->port_num);
}

static void ah_attr(void **state)
{
	struct ib_uverbs_ah_attr src;
	struct ibv_ah_attr dst = {0};

	number(&src, sizeof(src));
	ibv_copy_ah_attr_from_kern(&dst, &src);
	assert_same_ah(&dst, &src);
}

static void qp_attr(void **state)
{
	struct ib_uverbs_qp_attr src;
	struct ibv_qp_attr dst = {0};

	number(&src, sizeof(src));
	ibv_copy_qp_attr_from_kern(&dst, &src);
	assert_int_equal(dst.qp_state, src.qp_state);
	assert_int_equal(dst.cur_qp_state, src.cur_qp_state);
	assert_int_equal(dst.path_mtu, src.path_mtu);
	assert_int_equal(dst.path_mig_state, src.path_mig_state);
	assert_int_equal(dst.qkey, src.qkey);
	assert_int_equal(dst.rq_psn, src.rq_psn);
	assert_int_equal(dst.sq_psn, src.sq_psn);
	assert_int_equal(dst.dest_qp_num, src.dest_qp_num);
	assert_int_equal(dst.qp_access_flags, src.qp_access_flags);
	assert_int_equal(dst.cap.max_send_wr, src.max_send_wr);
	assert_int_equal(dst.cap.max_recv_wr, src.max_recv_wr);
	assert_int_equal(dst.cap.max_send_sge, src.max_send_sge);
	assert_int_equal(dst.cap.max_recv_sge, src.max_recv_sge);
	assert_int_equal(dst.cap.max_inline_data, src.max_inline_data);
	assert_same_ah(&dst.ah_attr, &src.ah_attr);
	assert_same_ah(&dst.alt_ah_attr, &src.alt_ah_attr);
	assert_int_equal(dst.pkey_index, src.pkey_index);
	assert_int_equal(dst.alt_pkey_index, src.alt_pkey_index);
	assert_int_equal(dst.en_sqd_async_notify, src.en_sqd_async_notify);
	assert_int_equal(dst.sq_draining, src.sq_draining);
	assert_int_equal(dst.max_rd_atomic, src.max_rd_atomic);
	assert_int_equal(dst.max_dest_rd_atomic, src.max_dest_rd_atomic);
	assert_int_equal(dst.min_rnr_timer, src.min_rnr_timer);
	assert_int_equal(dst.port_num, src.port_num);
	assert_int_equal(dst.timeout, src.timeout);
	assert_int_equal(dst.retry_cnt, src.retry_cnt);
	assert_int_equal(dst.rnr_retry, src.rnr_retry);
	assert_int_equal(dst.alt_port_num, src.alt_port_num);
	assert_int_equal(dst.alt_timeout, src.alt_timeout);
}

static void path_record(void **state)
{
	struct ib_user_path_rec src, back;
	struct ibv_sa_path_rec dst = {0};

	number(&src, sizeof(src));
	src.mtu = 3; /* a byte on the other side */
	ibv_copy_path_rec_from_kern(&dst, &src);
	assert_memory_equal(dst.dgid.raw, src.dgid, 16);
	assert_memory_equal(dst.sgid.raw, src.sgid, 16);
	assert_int_equal(dst.dlid, src.dlid);
	assert_int_equal(dst.hop_limit, src.hop_limit);
	assert_int_equal(dst.preference, src.preference);

	memset(&back, 0, sizeof(back));
	ibv_copy_path_rec_to_kern(&back, &dst);
	assert_memory_equal(&back, &src, sizeof(src));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ah_attr),
		cmocka_unit_test(qp_attr),
		cmocka_unit_test(path_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
