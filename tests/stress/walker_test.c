/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process of the random walk (tests/stress/walking.py): with "serve" it does what lines on
 * standard input say, a word and numbers, one verb each, and answers each with one line:
 * the verb's errno and what it gave. What to expect is known to the one that asks.
 *
 * Without arguments it is a test of itself: a short script with the answers it must give.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include <signal.h>

#define MEMORY (1u << 18)
#define SLOTS  64
#define GID    1
#define QKEY   0x1234

static struct ibv_context *ctx;
static union ibv_gid gid;
static uint8_t *memory;
static struct ibv_pd *pds[SLOTS];
static struct ibv_mr *mrs[SLOTS];
static struct ibv_cq *cqs[SLOTS];
static struct ibv_srq *srqs[SLOTS];
static struct ibv_qp *qps[SLOTS];
static struct ibv_ah *ahs[SLOTS]; /* of UD QPs, to this host */

static char answer[16384];
static unsigned long long arg[10];

static void tell(int err, const char *more)
{
	snprintf(answer, sizeof(answer), "%d%s", err, more);
}

/* An object was asked for: its slot is filled, or errno says why not. */
static void tell_made(const void *object, unsigned long long a, unsigned long long b)
{
	if (object)
		snprintf(answer, sizeof(answer), "0 %llu %llu", a, b);
	else
		snprintf(answer, sizeof(answer), "%d", errno);
}

static void do_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (list)
		ibv_free_device_list(list);
	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!ctx || memory == MAP_FAILED || ibv_query_gid(ctx, 1, GID, &gid))
		tell(errno ? errno : ENODEV, "");
	else
		tell_made(ctx, (uintptr_t)memory, 0);
}

static void do_pd(void)
{
	pds[arg[0]] = ibv_alloc_pd(ctx);
	tell_made(pds[arg[0]], 0, 0);
}

static void do_pdx(void)
{
	tell(ibv_dealloc_pd(pds[arg[0]]), "");
}

static void do_mr(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pds[arg[1]], memory + arg[2], arg[3], (int)arg[4]);

	mrs[arg[0]] = mr;
	tell_made(mr, mr ? mr->lkey : 0, mr ? mr->rkey : 0);
}

static void do_mrx(void)
{
	tell(ibv_dereg_mr(mrs[arg[0]]), "");
}

static void do_cq(void)
{
	cqs[arg[0]] = ibv_create_cq(ctx, (int)arg[1], NULL, NULL, 0);
	tell_made(cqs[arg[0]], 0, 0);
}

static void do_cqx(void)
{
	tell(ibv_destroy_cq(cqs[arg[0]]), "");
}

static void do_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = (uint32_t)arg[2], .max_sge = 1}};

	srqs[arg[0]] = ibv_create_srq(pds[arg[1]], &init);
	tell_made(srqs[arg[0]], 0, 0);
}

static void do_srqx(void)
{
	tell(ibv_destroy_srq(srqs[arg[0]]), "");
}

/* qp SLOT PD SEND-CQ RECV-CQ SRQ+1 TYPE */
static void do_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cqs[arg[2]],
		.recv_cq = cqs[arg[3]],
		.srq = arg[4] ? srqs[arg[4] - 1] : NULL,
		.qp_type = (enum ibv_qp_type)arg[5],
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 32, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = gid, .sgid_index = GID, .hop_limit = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pds[arg[1]], &init);

	qps[arg[0]] = qp;
	ahs[arg[0]] = qp && init.qp_type == IBV_QPT_UD ? ibv_create_ah(pds[arg[1]], &attr) : NULL;
	tell_made(qp, qp ? qp->qp_num : 0, 0);
}

static void do_qpx(void)
{
	int err = ibv_destroy_qp(qps[arg[0]]);

	if (!err && ahs[arg[0]])
		err = ibv_destroy_ah(ahs[arg[0]]);
	tell(err, "");
}

static int to_init(const struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	attr->port_num = 1;
	attr->qkey = QKEY;
	attr->qp_access_flags =
		IBV_ACCESS_REMOTE_WRITE |
		(qp->qp_type == IBV_QPT_RC ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0);
	return mask | (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(const struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	if (qp->qp_type == IBV_QPT_UD)
		return IBV_QP_STATE;
	attr->path_mtu = IBV_MTU_1024;
	attr->dest_qp_num = (uint32_t)arg[2];
	attr->rq_psn = (uint32_t)arg[3];
	attr->max_dest_rd_atomic = 4;
	attr->min_rnr_timer = 1;
	attr->ah_attr = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = gid, .sgid_index = GID, .hop_limit = 1},
	};
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       (qp->qp_type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
}

/* Silence lasts 2 times 1 ms; a receiver that is not ready is asked once. */
static int to_rts(const struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	attr->sq_psn = (uint32_t)arg[4];
	attr->timeout = 8;
	attr->retry_cnt = 1;
	attr->rnr_retry = 0;
	attr->max_rd_atomic = 4;
	return IBV_QP_STATE | IBV_QP_SQ_PSN |
	       (qp->qp_type == IBV_QPT_RC ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						    IBV_QP_MAX_QP_RD_ATOMIC
					  : 0);
}

/* mod SLOT STATE DEST-QPN RQ-PSN SQ-PSN */
static void do_mod(void)
{
	struct ibv_qp *qp = qps[arg[0]];
	struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)arg[1]};
	int mask = attr.qp_state == IBV_QPS_INIT  ? to_init(qp, &attr)
		   : attr.qp_state == IBV_QPS_RTR ? to_rtr(qp, &attr)
		   : attr.qp_state == IBV_QPS_RTS ? to_rts(qp, &attr)
						  : IBV_QP_STATE;

	tell(ibv_modify_qp(qp, &attr, mask), "");
}

static void do_state(void)
{
	struct ibv_qp_attr attr = {0};
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(qps[arg[0]], &attr, IBV_QP_STATE, &init);

	snprintf(answer, sizeof(answer), "%d %d", err, attr.qp_state);
}

/* recv SLOT OF-SRQ WR-ID OFFSET LENGTH LKEY */
static void do_recv(void)
{
	struct ibv_sge sge = {(uintptr_t)memory + arg[3], (uint32_t)arg[4], (uint32_t)arg[5]};
	struct ibv_recv_wr wr = {.wr_id = arg[2], .sg_list = &sge, .num_sge = 1}, *bad;

	tell(arg[1] ? ibv_post_srq_recv(srqs[arg[0]], &wr, &bad)
		    : ibv_post_recv(qps[arg[0]], &wr, &bad),
	     "");
}

static int send_one(void)
{
	struct ibv_sge sge = {(uintptr_t)memory + arg[3], (uint32_t)arg[4], (uint32_t)arg[5]};
	struct ibv_send_wr wr = {.wr_id = arg[1],
				 .opcode = (enum ibv_wr_opcode)arg[2],
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	if (qps[arg[0]]->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = ahs[arg[0]];
		wr.wr.ud.remote_qpn = (uint32_t)arg[6];
		wr.wr.ud.remote_qkey = (uint32_t)arg[7];
	} else if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = arg[6];
		wr.wr.atomic.rkey = (uint32_t)arg[7];
		wr.wr.atomic.compare_add = arg[8];
	} else {
		wr.wr.rdma.remote_addr = arg[6];
		wr.wr.rdma.rkey = (uint32_t)arg[7];
	}
	return ibv_post_send(qps[arg[0]], &wr, &bad);
}

/* send QP WR-ID OPCODE OFFSET LENGTH LKEY ADDRESS|QPN RKEY|QKEY ADD */
static void do_send(void)
{
	tell(send_one(), "");
}

static size_t tell_wc(size_t at, const struct ibv_wc *wc)
{
	return at + (size_t)snprintf(answer + at, sizeof(answer) - at, " %llu:%d:%d:%u:%u",
				     (unsigned long long)wc->wr_id, wc->status,
				     wc->status ? 0 : (int)wc->opcode,
				     wc->status ? 0 : wc->byte_len, wc->qp_num);
}

/* As send, ADD times, each waited for: how many were good, and what else was in the CQ. */
static void do_burst(void)
{
	unsigned int good = 0, times = (unsigned int)arg[8];
	struct ibv_wc wc = {0};
	size_t at = 16;

	while (good < times && !send_one()) {
		do {
			int n = 0;

			while (!n)
				n = ibv_poll_cq(qps[arg[0]]->send_cq, 1, &wc);
			if (n > 0 && wc.wr_id != arg[1])
				at = tell_wc(at, &wc);
		} while (wc.wr_id != arg[1]);
		if (wc.status)
			break;
		good++;
	}
	/* The head in front of the list, padded. */
	snprintf(answer, 17, "%-4d %11u", wc.status, good);
	answer[16] = at > 16 ? ' ' : 0;
}

static void do_poll(void)
{
	struct ibv_wc wc[64];
	int n = ibv_poll_cq(cqs[arg[0]], 64, wc);
	size_t at = (size_t)snprintf(answer, sizeof(answer), "%d", n < 0 ? -n : 0);

	for (int i = 0; i < n; i++)
		at = tell_wc(at, &wc[i]);
}

/* The CRC of zlib, so that the other side has it at hand. */
static void do_crc(void)
{
	uint32_t crc = 0xffffffff;

	for (unsigned long long i = 0; i < arg[1]; i++) {
		crc ^= memory[arg[0] + i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	snprintf(answer, sizeof(answer), "0 %u", ~crc);
}

/* fill OFFSET LENGTH KEY */
static void do_fill(void)
{
	for (unsigned long long i = 0; i < arg[1]; i++)
		memory[arg[0] + i] = (uint8_t)(arg[2] * 31 + i * 7);
	tell(0, "");
}

static void do_close(void)
{
	tell(ibv_close_device(ctx), "");
}

static const struct {
	const char *word;
	void (*act)(void);
} commands[] = {
	{"open", do_open},   {"pd", do_pd},	{"pdx", do_pdx},   {"mr", do_mr},
	{"mrx", do_mrx},     {"cq", do_cq},	{"cqx", do_cqx},   {"srq", do_srq},
	{"srqx", do_srqx},   {"qp", do_qp},	{"qpx", do_qpx},   {"mod", do_mod},
	{"state", do_state}, {"recv", do_recv}, {"send", do_send}, {"burst", do_burst},
	{"poll", do_poll},   {"crc", do_crc},	{"fill", do_fill}, {"close", do_close},
};

static void obey(char *line)
{
	char *rest, *word = strtok_r(line, " \n", &rest);

	memset(arg, 0, sizeof(arg));
	for (size_t i = 0; i < sizeof(arg) / sizeof(arg[0]); i++) {
		char *text = strtok_r(NULL, " \n", &rest);

		arg[i] = text ? strtoull(text, NULL, 0) : 0;
	}
	snprintf(answer, sizeof(answer), "what?");
	errno = 0;
	for (size_t i = 0; word && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(word, commands[i].word))
			commands[i].act();
}

static int test(void)
{
	static const struct {
		const char *line, *want;
	} script[] = {
		{"open", "0 "},	    {"pd 1", "0 "},	      {"mr 1 1 0 4096 7", "0 "},
		{"cq 1 16", "0 "},  {"qp 1 1 1 1 0 4", "0 "}, {"mod 1 1", "0"},
		{"mod 1 2", "0"},   {"mod 1 3", "0"},	      {"state 1", "0 3"},
		{"pdx 1", "16"},    {"cqx 1", "16"},	      {"fill 0 9 1", "0"},
		{"crc 0 0", "0 0"}, {"poll 1", "0"},	      {"mod 1 1", "22"},
		{"qpx 1", "0"},	    {"mrx 1", "0"},	      {"cqx 1", "0"},
		{"pdx 1", "0"},	    {"nonsense", "what?"},    {"close", "0"},
	};
	int bad = 0;

	for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
		char line[64];

		snprintf(line, sizeof(line), "%s", script[i].line);
		obey(line);
		if (strncmp(answer, script[i].want, strlen(script[i].want))) {
			fprintf(stderr, "%s: %s, not %s\n", script[i].line, answer, script[i].want);
			bad = 1;
		}
	}
	return bad;
}

int main(int argc, char **argv)
{
	static char line[4096];

	if (argc < 2 || strcmp(argv[1], "serve"))
		return test();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (fgets(line, sizeof(line), stdin)) {
		obey(line);
		puts(answer);
		fflush(stdout);
	}
	return 0;
}
