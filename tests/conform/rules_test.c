/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every rule of objects, queues and completions is provoked, each in a process of its own,
 * and must be explained by its name, by no other, and with the values that broke it. A row of
 * the rules without a provocation fails the test, unless another test is named for it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/child.h"
#include "lib/verbs_pair.h"

static char path[64];
static struct verbs_end end;
static struct test_mem mem;
static char wanted[4][96]; /* texts that a provocation expects beside the table's */

#define WANT(i, ...) snprintf(wanted[i], sizeof(wanted[i]), __VA_ARGS__)

static void want_qp(void)
{
	WANT(0, "qp#0x%x", end.qp->qp_num);
}

static size_t read_said(char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

#include "rules_test_objects.h"
#include "rules_test_queues.h"

/* ---- The table ---- */

static const struct row {
	const char *rule;
	void (*provoke)(void);
	const char *texts[3];
	const char *setting, *value;
	const char *also; /* a note that comes with it */
	bool on_stderr;	  /* there is no descriptor left to open the file with */
} rows[] = {
	{.rule = "not-supported", .provoke = not_supported, .texts = {"comp_mask=0x100000"}},
	{.rule = "old-abi", .provoke = old_abi, .texts = {0}},
	{.rule = "bad-handle", .provoke = bad_handle, .texts = {0}},
	{.rule = "other-context", .provoke = other_context, .texts = {0}},
	{.rule = "no-memory", .provoke = no_memory, .texts = {0}},
	{.rule = "forked", .provoke = forked, .texts = {0}},
	{.rule = "busy", .provoke = busy, .texts = {"ibv_dealloc_pd", "2 live objects"}},
	{.rule = "comp-mask", .provoke = comp_mask, .texts = {"ibv_query_rt_values_ex"}},
	{.rule = "pd-limit",
	 .provoke = pd_limit,
	 .texts = {"max_pd=2"},
	 .setting = "VERBENA_MAX_PD",
	 .value = "2"},
	{.rule = "reg-mr-local-write",
	 .provoke = reg_local_write,
	 .texts = {"access=REMOTE_WRITE"}},
	{.rule = "reg-mr-access-bits", .provoke = reg_bits, .texts = {"0x8000"}},
	{.rule = "reg-mr-not-offered", .provoke = reg_not_offered, .texts = {"FLUSH_PERSISTENT"}},
	{.rule = "reg-mr-length", .provoke = reg_length, .texts = {"length=0"}},
	{.rule = "reg-mr-range", .provoke = reg_range, .texts = {"length=18446744073709551607"}},
	{.rule = "reg-mr-offset", .provoke = reg_offset, .texts = {0}},
	{.rule = "reg-mr-memory", .provoke = reg_memory, .texts = {0}},
	{.rule = "reg-mr-limit",
	 .provoke = reg_limit,
	 .texts = {"max_mr=2"},
	 .setting = "VERBENA_MAX_MR",
	 .value = "2"},
	{.rule = "reg-mr-memlock",
	 .provoke = reg_memlock,
	 .texts = {"64 KiB", "RLIMIT_MEMLOCK is 0 KiB"}},
	{.rule = "channel-descriptors",
	 .provoke = channel_descriptors,
	 .texts = {0},
	 .on_stderr = true},
	{.rule = "channel-empty", .provoke = channel_empty, .texts = {0}},
	{.rule = "wait-unarmed",
	 .provoke = wait_unarmed,
	 .texts = {"holds 3 completions and is not armed"},
	 .also = "channel-signal"},
	{.rule = "channel-signal", .provoke = channel_signal, .texts = {0}},
	{.rule = "channel-descriptor", .provoke = channel_closed, .texts = {0}},
	{.rule = "create-cq-cqe", .provoke = cq_cqe, .texts = {"cqe=0", "max_cqe="}},
	{.rule = "create-cq-vector", .provoke = cq_vector, .texts = {"comp_vector=-3"}},
	{.rule = "create-cq-wc-flags", .provoke = cq_flags, .texts = {0}},
	{.rule = "create-cq-domain", .provoke = cq_domain, .texts = {0}},
	{.rule = "create-cq-limit",
	 .provoke = cq_limit,
	 .texts = {"max_cq=2"},
	 .setting = "VERBENA_MAX_CQ",
	 .value = "2"},
	{.rule = "start-poll-mask", .provoke = start_poll_mask, .texts = {0}},
	{.rule = "destroy-waits", .provoke = destroy_waits, .texts = {0}},
	{.rule = "create-qp-cap", .provoke = qp_cap, .texts = {"max_inline_data 99999 > "}},
	{.rule = "create-qp-type", .provoke = qp_type, .texts = {"qp_type=77"}},
	{.rule = "create-qp-type-not-offered",
	 .provoke = qp_type_not_offered,
	 .texts = {"RAW_PACKET"}},
	{.rule = "create-qp-cq", .provoke = qp_cq, .texts = {"recv_cq=(nil)"}},
	{.rule = "create-qp-ops", .provoke = qp_ops, .texts = {"0x200000000"}},
	{.rule = "create-qp-pd", .provoke = qp_pd, .texts = {"comp_mask=0x0"}},
	{.rule = "qp-limit",
	 .provoke = qp_limit,
	 .texts = {"max_qp=2"},
	 .setting = "VERBENA_MAX_QP",
	 .value = "2"},
	{.rule = "modify-qp-transition",
	 .provoke = modify_transition,
	 .texts = {"RC: RESET -> RTS"}},
	{.rule = "modify-qp-mask",
	 .provoke = modify_mask,
	 .texts = {"RC RESET -> INIT", "missing IBV_QP_PORT", "not allowed IBV_QP_AV"}},
	{.rule = "modify-qp-cur-state",
	 .provoke = modify_cur_state,
	 .texts = {"cur_qp_state=SQD, is RTS"}},
	{.rule = "modify-qp-value",
	 .provoke = modify_value,
	 .texts = {"min_rnr_timer=32, allowed 0..31"}},
	{.rule = "modify-qp-grh", .provoke = modify_grh, .texts = {"is_global is 0"}},
	{.rule = "modify-qp-sgid", .provoke = modify_sgid, .texts = {"sgid_index=63 of 64"}},
	{.rule = "modify-qp-path-in-rts", .provoke = modify_path_in_rts, .texts = {"IBV_QP_AV"}},
	{.rule = "modify-qp-unreachable",
	 .provoke = modify_unreachable,
	 .texts = {"RC: dgid is no entry"},
	 .setting = "VERBENA_CARRIER",
	 .value = "local"},
	{.rule = "post-send-full",
	 .provoke = send_full,
	 .texts = {"2 posted, 2 of them completed"}},
	{.rule = "post-send-unsignaled",
	 .provoke = send_unsignaled,
	 .texts = {"2 posted, none of them signaled"}},
	{.rule = "post-send-opcode", .provoke = send_opcode, .texts = {"RC: opcode 10"}},
	{.rule = "post-send-sge", .provoke = send_sge, .texts = {"num_sge 5, max_send_sge 4"}},
	{.rule = "post-send-flags", .provoke = send_flags, .texts = {"send_flags 0x100000"}},
	{.rule = "post-send-inline",
	 .provoke = send_inline,
	 .texts = {"129 bytes, max_inline_data 128"}},
	{.rule = "post-send-inline-read", .provoke = send_inline_read, .texts = {"opcode 4"}},
	{.rule = "post-send-reset", .provoke = send_reset, .texts = {0}},
	{.rule = "post-send-state",
	 .provoke = send_state,
	 .texts = {": RESET"},
	 .setting = "VERBENA_POST_STATES",
	 .value = "strict"},
	{.rule = "post-recv-state",
	 .provoke = recv_state,
	 .texts = {": RESET"},
	 .setting = "VERBENA_PROFILE",
	 .value = "strict"},
	{.rule = "post-recv-sge", .provoke = recv_sge, .texts = {"num_sge 5, max_recv_sge 4"}},
	{.rule = "post-recv-full", .provoke = recv_full, .texts = {"max_recv_wr 2"}},
	{.rule = "post-recv-reset", .provoke = recv_reset, .texts = {0}},
	{.rule = "wr-opcode", .provoke = wr_opcode, .texts = {"opcode 4"}},
	{.rule = "wr-setter", .provoke = wr_setter, .texts = {0}},
	{.rule = "wc-local-protection",
	 .provoke = local_protection,
	 .texts = {"sge[0]", "an MR's rkey"}},
	{.rule = "wc-atomic-length", .provoke = atomic_length, .texts = {"7 bytes"}},
	{.rule = "wc-message-length",
	 .provoke = message_length,
	 .texts = {"1025 bytes, max_msg_sz 1024"},
	 .setting = "VERBENA_MAX_MSG_SIZE",
	 .value = "1024"},
	{.rule = "wc-no-rd-atomic", .provoke = no_rd_atomic, .texts = {"max_rd_atomic is 0"}},
	{.rule = "wc-rd-atomic",
	 .provoke = rd_atomic,
	 .texts = {"max_dest_rd_atomic"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-retry",
	 .provoke = retry,
	 .texts = {"no process of this host has a QP of that number"}},
	{.rule = "wc-receiver-not-ready", .provoke = rnr, .texts = {"no receive posted"}},
	{.rule = "wc-alignment",
	 .provoke = alignment,
	 .texts = {"multiple of 8"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-receive-length",
	 .provoke = receive_length,
	 .texts = {"shorter"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-qp-access",
	 .provoke = qp_access,
	 .texts = {"qp_access_flags"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-rkey",
	 .provoke = rkey_is_lkey,
	 .texts = {"looks like an lkey"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-rkey",
	 .provoke = rkey_range,
	 .texts = {"outside the MR", "access "},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-receive-protection",
	 .provoke = receive_protection,
	 .texts = {"lkey"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-flush", .provoke = flush, .texts = {"moved to ERR by the program"}},
	{.rule = "qp-failed-by-peer",
	 .provoke = qp_access,
	 .texts = {"access_qp_flags"},
	 .also = "wc-qp-access"},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Every "[name]" of a head line is the rule or the note that comes with it. */
static void check_names(const struct row *row, const char *text)
{
	bool found = false;

	for (const char *at = strstr(text, "verbena: "); at; at = strstr(at + 1, "\nverbena: ")) {
		const char *open = strchr(at, '['), *close = open ? strchr(open, ']') : NULL;
		char name[64];

		CHECK(open && close && close - open < (long)sizeof(name));
		snprintf(name, sizeof(name), "%.*s", (int)(close - open - 1), open + 1);
		if (strcmp(name, row->rule) != 0 && (!row->also || strcmp(name, row->also) != 0)) {
			fprintf(stderr, "%s: also said: %s\n", row->rule, text);
			exit(1);
		}
		found |= !strcmp(name, row->rule);
	}
	if (!found) {
		fprintf(stderr, "%s: not said, but: %s\n", row->rule, text);
		exit(1);
	}
}

static void check_text(const char *rule, const char *text, const char *want)
{
	if (want && *want && !strstr(text, want)) {
		fprintf(stderr, "%s: '%s' is missing in: %s\n", rule, want, text);
		exit(1);
	}
}

static void run_row(void *arg)
{
	const struct row *row = arg;
	static char text[65536];
	int fd;

	snprintf(path, sizeof(path), "/tmp/verbena-explain-%d", getpid());
	unlink(path);
	setenv("VERBENA_EXPLAIN", path, 1);
	if (row->on_stderr) {
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
		close(fd);
		setenv("VERBENA_EXPLAIN", "1", 1);
	}
	if (row->setting)
		setenv(row->setting, row->value, 1);
	row->provoke();
	read_said(text, sizeof(text));
	unlink(path);
	check_names(row, text);
	for (int i = 0; i < 3; i++)
		check_text(row->rule, text, row->texts[i]);
	for (int i = 0; i < 4; i++)
		check_text(row->rule, text, wanted[i]);
}

static void test_rows(void **state)
{
	int bad = 0;

	for (size_t i = 0; i < ROWS; i++) {
#ifdef VB_SANITIZED
		if (rows[i].provoke == no_memory)
			continue; /* a sanitizer cannot live with so little address space */
#endif
		if (run_in_child(run_row, (void *)(uintptr_t)&rows[i]) != 0) {
			print_error("rule %s\n", rows[i].rule);
			bad++;
		}
	}
	assert_int_equal(bad, 0);
}

/* Rules that other tests provoke. */
static const struct {
	const char *pattern, *test;
} elsewhere[] = {
	{"ah-*", "ah_test"},
	{"create-ah-*", "ah_test"},
	{"create-srq-*", "srq_test"},
	{"create-qp-srq*", "srq_test"},
	{"modify-srq-*", "srq_test"},
	{"post-srq-*", "srq_test"},
	{"post-recv-srq*", "srq_test"},
	{"srq-*", "srq_test"},
	{"wc-ud-*", "ud_test"},
	{"wc-address-handle*", "ud_test"},
	{"wc-opcode*", "ud_test"},
	{"resize-cq*", "cq_resize_test"},
	{"cq-overrun*", "cq_overrun_test"},
	{"cq-small*", "hints_test"},
	{"reg-mr-hugetlb*", "memory tests"},
	{"rereg-mr-*", "memory tests"},
	{"advise-mr-*", "memory tests"},
	{"parent-domain-*", "memory tests"},
	{"dm-*", "memory tests"},
	{"reg-dm-*", "memory tests"},
	{"reg-mr-ex-*", "memory tests"},
	{"dmabuf*", "memory tests"},
	{"buf-*", "memory tests"},
	{"import-*", "memory tests"},
	{"capture-file", "apps/capture_test"},
	{"faults-*", "apps/faults_test"},
	{"device-lost", "conform/faults_test"},
	{"wc-unreachable*", "memory ladder tests: needs a host that forbids every step"},
};

static bool is_covered(const char *rule)
{
	for (size_t i = 0; i < ROWS; i++)
		if (!strcmp(rows[i].rule, rule))
			return true;
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (!fnmatch(elsewhere[i].pattern, rule, 0))
			return true;
	return false;
}

static void test_none_forgotten(void **state)
{
	static const char *const names[] = {
#define VB_RULE(sym, name, verb, err, sentence, source, advice)	      name,
#define VB_RULE_WC(sym, name, verb, status, sentence, source, advice) name,
#include "base/rules/general.def"
#include "base/rules/memory.def"
#include "base/rules/cq.def"
#include "base/rules/qp.def"
#include "base/rules/post.def"
#include "base/rules/completion.def"
#undef VB_RULE
#undef VB_RULE_WC
	};
	int bad = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!is_covered(names[i])) {
			print_error("no provocation of rule %s\n", names[i]);
			bad++;
		}
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none_forgotten),
		cmocka_unit_test(test_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
