/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The workload of end.h as a program. Without arguments it is a test: both ends in this
 * process, two threads, a sanitizer sees both sides. With "serve" it is one end, driven by
 * lines on standard input (tests/stress/workers.py): a command and its options
 * `name=value`; each command answers with one line, a word and `name=value`s.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "stress/end.h"

static struct end end;

/* ---- Options of a command ---- */

static const char *option(const char *line, const char *name, const char *fallback)
{
	static char value[16][4096];
	static unsigned int turn;
	char *out = value[turn++ % 16];
	size_t len = strlen(name);

	for (const char *at = line; (at = strstr(at, name)); at++) {
		if (at != line && at[-1] == ' ' && at[len] == '=') {
			size_t n = strcspn(at + len + 1, " \n");

			if (n >= sizeof(value[0]))
				n = sizeof(value[0]) - 1;
			memcpy(out, at + len + 1, n);
			out[n] = 0;
			return out;
		}
	}
	return fallback;
}

static uint64_t number(const char *line, const char *name, uint64_t fallback)
{
	const char *text = option(line, name, NULL);

	return text ? strtoull(text, NULL, 0) : fallback;
}

static unsigned int ops_of(const char *text)
{
	static const char letters[] = "wrafs";
	unsigned int ops = 0;

	for (int i = 0; letters[i]; i++)
		if (strchr(text, letters[i]))
			ops |= 1u << i;
	return ops;
}

static void options_of(const char *line, struct end_options *opt)
{
	*opt = (struct end_options){
		.links = (unsigned int)number(line, "links", 2),
		.size = (uint32_t)number(line, "size", 16384),
		.memfd = number(line, "memfd", 0),
		.events = number(line, "events", 0),
		.shared = number(line, "srq", 0),
		.ops = ops_of(option(line, "ops", "wrafs")),
		.rounds = number(line, "rounds", 0),
		.timeout = (uint8_t)number(line, "timeout", 13),
		.retry = (uint8_t)number(line, "retry", 7),
		.rnr = (uint8_t)number(line, "rnr", 7),
		.gid_index = (uint8_t)number(line, "gid", 0),
	};
	if (!opt->links || opt->links > MAX_LINKS)
		opt->links = 1;
}

/* ---- Commands ---- */

static void tell_open(const char *word)
{
	printf("%s base=%llu rkey=%u gid=", word, (unsigned long long)(uintptr_t)end.mem,
	       end.mr->rkey);
	for (int i = 0; i < 16; i++)
		printf("%02x", end.gid.raw[i]);
	printf(" qpn=");
	for (unsigned int i = 0; i < end.opt.links; i++)
		printf("%s%u", i ? "," : "", end.link[i].qp->qp_num);
	printf("\n");
}

static void do_open(const char *line)
{
	struct end_options opt;
	const char *failed;

	options_of(line, &opt);
	failed = end_open(&end, &opt);
	if (failed)
		printf("failed what=%s errno=%d\n", failed, errno);
	else
		tell_open("opened");
}

/* The peer's answer to open; its link k is joined to our link from + k. */
static void do_connect(const char *line)
{
	const char *qpn = option(line, "qpn", ""), *gid = option(line, "gid", "");
	unsigned int from = (unsigned int)number(line, "from", 0);
	unsigned int first = (unsigned int)number(line, "first", 0);
	unsigned int count = (unsigned int)number(line, "count", MAX_LINKS);
	uint32_t rkey = (uint32_t)number(line, "rkey", 0);
	uint64_t base = number(line, "base", 0);
	union ibv_gid raw;
	int err = 0;

	end.opt.rnr = (uint8_t)number(line, "rnr", end.opt.rnr);
	for (int i = 0; i < 16; i++) {
		unsigned int byte = 0;

		sscanf(gid + 2 * i, "%2x", &byte);
		raw.raw[i] = (uint8_t)byte;
	}
	for (unsigned int k = 0; !err && *qpn; k++) {
		uint32_t number_of = (uint32_t)strtoul(qpn, (char **)&qpn, 10);
		struct link *l;

		qpn += *qpn == ',';
		if (k < first || k >= first + count || from + k - first >= end.opt.links)
			continue;
		l = &end.link[from + k - first];
		l->peer_qpn = number_of;
		l->peer_rkey = rkey;
		l->peer_base = base + k * link_bytes(&end);
		l->peer_gid = raw;
		err = link_connect(&end, from + k - first);
	}
	printf("connected errno=%d\n", err);
}

static void tell_result(const char *word)
{
	unsigned int dead = 0, outstanding = 0;
	const char *comma = "";

	for (unsigned int i = 0; i < end.opt.links; i++) {
		dead += end.link[i].dead;
		if (end.link[i].dead)
			outstanding += end.link[i].sends + end.link[i].recvs;
	}
	printf("%s sent=%llu received=%llu bad=%llu why=%s dead=%u outstanding=%u longest_us=%llu "
	       "first=",
	       word, (unsigned long long)end.sent, (unsigned long long)end.received,
	       (unsigned long long)end.bad, end.why[0] ? end.why : "-", dead, outstanding,
	       (unsigned long long)(end.longest_ns / 1000));
	for (unsigned int i = 0; i < end.opt.links; i++)
		if (end.link[i].dead) {
			printf("%s%d/%d", comma, end.link[i].first_send, end.link[i].first_recv);
			comma = ",";
		}
	printf(" statuses=");
	comma = "";
	for (int i = 0; i < STATUSES; i++)
		if (end.status[i]) {
			printf("%s%d:%llu", comma, i, (unsigned long long)end.status[i]);
			comma = ",";
		}
	printf("\n");
}

static bool line_waits(int timeout_ms)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};

	return poll(&in, 1, timeout_ms) > 0;
}

/* Wait for an event or a line, for ever: what is not announced hangs. */
static void wait_event(void)
{
	struct pollfd in[2] = {{.fd = end.channel->fd, .events = POLLIN},
			       {.fd = 0, .events = POLLIN}};
	struct ibv_cq *cq;
	void *context;

	if (poll(in, 2, -1) <= 0 || !(in[0].revents & POLLIN))
		return;
	if (ibv_get_cq_event(end.channel, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		end_bad(&end, "req_notify_cq", 0, (uint64_t)errno, 0);
}

/* Work until a line comes; it is the caller's next command. */
static void do_busy(const char *line)
{
	bool told = false, until = number(line, "until", 0);
	int idle = 0, n;

	end.opt.rounds = number(line, "rounds", 0);
	end.opt.ops = ops_of(option(line, "ops", "wrafs"));
	end.longest_ns = 0;
	for (unsigned int turn = 0;; turn++) {
		n = end_step(&end);
		if (n < 0) {
			end_bad(&end, "poll_cq", 0, (uint64_t)-n, 0);
			break;
		}
		if (!told && end_finished(&end)) {
			tell_result("finished");
			told = true;
		}
		if (until && told)
			return;
		idle = n ? 0 : idle + 1;
		if ((turn % 64 == 0 || idle > 200) && line_waits(0))
			break;
		/* Only after an empty poll: what came before the arming has been taken. */
		if (!n && end.channel && idle > 1)
			wait_event();
		else if (idle > 1000)
			sched_yield();
	}
	tell_result("done");
}

/* One request on a link, waited for. With wrong=1 the key is no key. */
static void do_one(const char *line)
{
	unsigned int i = (unsigned int)number(line, "link", 0);
	unsigned int ops = end.opt.ops, before;
	struct link *l = &end.link[i];
	uint32_t rkey = l->peer_rkey;
	uint64_t start = end_now(), limit = number(line, "limit", 20) * 1000000000u;
	struct ibv_wc wc;

	end.opt.ops = ops_of(option(line, "ops", "w"));
	if (number(line, "wrong", 0))
		l->peer_rkey ^= 0x5500;
	link_begin(&end, l);
	before = l->dead;
	while (l->busy && !(l->dead && !l->sends) && end_now() - start < limit)
		if (ibv_poll_cq(end.cq, 1, &wc) == 1)
			end_completion(&end, &wc);
	l->peer_rkey = rkey;
	end.opt.ops = ops;
	printf("one us=%llu done=%d died=%d status=%d bad=%llu why=%s\n",
	       (unsigned long long)((end_now() - start) / 1000), !l->sends, l->dead && !before,
	       l->first_send, (unsigned long long)end.bad, end.why[0] ? end.why : "-");
}

/* Take receives until there are as many, or time is over. */
static void do_receive(const char *line)
{
	uint64_t want = number(line, "count", 1);
	uint64_t until = end_now() + number(line, "limit", 20) * 1000000000u;
	struct ibv_wc wc;

	while (end.received < want && end_now() < until)
		if (ibv_poll_cq(end.cq, 1, &wc) == 1)
			end_completion(&end, &wc);
	tell_result("received");
}

/* What the peer's last WRITE and its FETCH_ADDs left in our memory. */
static void do_look(const char *line)
{
	const struct link *l = &end.link[number(line, "link", 0)];
	uint64_t round = number(line, "round", 0), counter;

	memcpy(&counter, l->base + at_counter(&end), 8);
	printf("seen inbox=%d counter=%llu\n",
	       end_is(l->base + at_inbox(&end), end_length(l->peer_qpn, round, 1, end.opt.size),
		      end_key(l->peer_qpn, round, 1)),
	       (unsigned long long)counter);
}

/* New QPs for a new peer. */
static void do_remake(const char *line)
{
	uint64_t start = end_now();

	memset(end.status, 0, sizeof(end.status));
	for (unsigned int i = 0; i < end.opt.links; i++) {
		if (ibv_destroy_qp(end.link[i].qp)) {
			printf("failed what=destroy_qp errno=%d\n", errno);
			return;
		}
		if (!link_create(&end, i)) {
			printf("failed what=create_qp errno=%d\n", errno);
			return;
		}
	}
	printf("took us=%llu ", (unsigned long long)((end_now() - start) / 1000));
	tell_open("remade");
}

/* Keys, CQs and QPs come and go. */
static void do_churn(const char *line)
{
	uint64_t times = number(line, "times", 10);
	int err = 0;

	for (uint64_t i = 0; i < times && !err; i++) {
		struct ibv_mr *mr = ibv_reg_mr(end.pd, end.mem, 4096, IBV_ACCESS_LOCAL_WRITE);
		struct ibv_cq *cq = ibv_create_cq(end.ctx, 4, NULL, NULL, 0);
		struct ibv_qp_init_attr init = {.send_cq = cq,
						.recv_cq = cq,
						.qp_type = IBV_QPT_RC,
						.cap = {1, 1, 1, 1, 0}};
		struct ibv_qp *qp = cq ? ibv_create_qp(end.pd, &init) : NULL;

		err = !mr || !cq || !qp || ibv_destroy_qp(qp) || ibv_destroy_cq(cq) ||
		      ibv_dereg_mr(mr);
	}
	printf("churned errno=%d\n", err ? errno : 0);
}

/* Objects that stay: the segment grows while peers look at it. */
static void do_grow(const char *line)
{
	uint64_t times = number(line, "times", 1000), made = 0;

	for (; made < times; made++) {
		struct ibv_mr *mr = ibv_reg_mr(end.pd, end.mem, 4096, IBV_ACCESS_LOCAL_WRITE);
		struct ibv_cq *cq = ibv_create_cq(end.ctx, 4, NULL, NULL, 0);
		struct ibv_qp_init_attr init = {.send_cq = cq,
						.recv_cq = cq,
						.qp_type = IBV_QPT_RC,
						.cap = {4, 16, 1, 1, 0}};

		if (!mr || !cq || !ibv_create_qp(end.pd, &init))
			break;
	}
	printf("grown made=%llu errno=%d\n", (unsigned long long)made, made < times ? errno : 0);
}

static int serve(void)
{
	static const struct {
		const char *word;
		void (*act)(const char *line);
	} commands[] = {
		{"open", do_open},     {"connect", do_connect}, {"busy", do_busy},
		{"one", do_one},       {"receive", do_receive}, {"look", do_look},
		{"remake", do_remake}, {"churn", do_churn},	{"grow", do_grow},
		{"result", NULL},
	};
	static char line[8192];
	size_t n = 0;
	char byte;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Byte by byte: what is not read yet must be seen by poll. */
	while (read(0, &byte, 1) == 1) {
		if (byte != '\n') {
			if (n < sizeof(line) - 1)
				line[n++] = byte;
			continue;
		}
		line[n] = 0;
		n = 0;
		if (!strcmp(line, "quit")) {
			end_close(&end);
			tell_result("closed");
			return end.bad != 0;
		}
		if (!strcmp(line, "exit"))
			return 0;
		if (!strncmp(line, "result", 6))
			tell_result("result");
		for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
			if (commands[i].act &&
			    !strncmp(line, commands[i].word, strlen(commands[i].word)))
				commands[i].act(line);
	}
	return 0;
}

/* ---- Both ends in this process ---- */

struct side {
	struct end end;
	_Atomic bool *others;
	_Atomic bool finished;
	int churn_errno; /* of the thread that makes and takes away objects, 0 none */
};

static void *side_main(void *arg)
{
	struct side *s = arg;

	while (!atomic_load(&s->finished) || !atomic_load(s->others)) {
		if (end_step(&s->end) < 0)
			end_bad(&s->end, "poll_cq", 0, 0, 0);
		if (end_finished(&s->end))
			atomic_store(&s->finished, true);
	}
	/* What the other sent last has arrived, but may not have been polled. */
	while (end_step(&s->end) > 0)
		;
	return NULL;
}

/* Keys and QPs come and go beside the traffic, on the CQ that it uses. */
static bool churn_once(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_mr *mr = ibv_reg_mr(e->pd, e->mem, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *qp = ibv_create_qp(e->pd, &init);
	struct link l = {.qp = qp, .peer_gid = e->gid};

	if (!mr || !qp)
		return false;
	l.peer_qpn = qp->qp_num;
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    link_to_rts(e, &l) || ibv_req_notify_cq(e->cq, 0))
		return false;
	attr.qp_state = IBV_QPS_RESET;
	return !ibv_modify_qp(qp, &attr, IBV_QP_STATE) && !ibv_destroy_qp(qp) && !ibv_dereg_mr(mr);
}

static void *churn_main(void *arg)
{
	struct side *s = arg;

	while (!atomic_load(&s->finished))
		if (!churn_once(&s->end)) {
			s->churn_errno = errno;
			break;
		}
	return NULL;
}

static void join(struct end *a, struct end *b)
{
	for (unsigned int i = 0; i < a->opt.links; i++) {
		a->link[i].peer_qpn = b->link[i].qp->qp_num;
		a->link[i].peer_rkey = b->mr->rkey;
		a->link[i].peer_base = (uintptr_t)b->link[i].base;
		a->link[i].peer_gid = b->gid;
	}
}

/* The sides keep their own lists, so that registering, arming and posting of one overlap
 * with messages of the other. */
static int both(uint64_t rounds, bool memfd, bool shared)
{
	static struct side side[2];
	struct end_options opt = {.links = 4,
				  .size = 16384,
				  .memfd = memfd,
				  .shared = shared,
				  .ops = OP_ALL,
				  .rounds = rounds,
				  .timeout = 18,
				  .retry = 7,
				  .rnr = 7};
	pthread_t thread[4];
	uint64_t bad;

	for (int i = 0; i < 2; i++) {
		const char *failed = end_open(&side[i].end, &opt);

		if (failed) {
			fprintf(stderr, "%s: %s\n", failed, strerror(errno));
			return 1;
		}
		side[i].others = &side[1 - i].finished;
		side[i].finished = false;
	}
	join(&side[0].end, &side[1].end);
	join(&side[1].end, &side[0].end);
	for (int i = 0; i < 2; i++)
		for (unsigned int k = 0; k < opt.links; k++)
			if (link_connect(&side[i].end, k))
				return 1;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, side_main, &side[i]) ||
		    pthread_create(&thread[2 + i], NULL, churn_main, &side[i]))
			return 1;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2; i++)
		end_close(&side[i].end);
	bad = side[0].end.bad + side[1].end.bad;
	for (int i = 0; i < 2; i++) {
		bad += side[i].churn_errno != 0;
		if (side[i].churn_errno)
			fprintf(stderr, "churn: %s\n", strerror(side[i].churn_errno));
		if (side[i].end.bad)
			fprintf(stderr, "%s\n", side[i].end.why);
		for (int k = 1; k < STATUSES; k++)
			bad += side[i].end.status[k];
	}
	printf("%s memory, %s receive queue: %llu and %llu rounds, %llu wrong\n",
	       memfd ? "shared" : "private", shared ? "one" : "a link's own",
	       (unsigned long long)side[0].end.sent, (unsigned long long)side[1].end.sent,
	       (unsigned long long)bad);
	return bad || side[0].end.sent != rounds * opt.links ||
	       side[1].end.received != rounds * opt.links;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "serve")) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return serve();
	}
	for (int i = 0; i < 3; i++)
		if (both(argc > 1 ? strtoull(argv[1], NULL, 0) : 1000, i == 1, i == 2))
			return 1;
	return 0;
}
