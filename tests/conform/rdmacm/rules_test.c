/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every rule of librdmacm is provoked, each in a process of its own, and must be explained by its
 * name, by no other, and with the values that broke it. A row of the rules without a
 * provocation fails the test.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

static struct bed bed;
static char path[64];

static size_t read_said(char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static void start(void)
{
	union bed_addr addr = bed_loopback(AF_INET);

	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
}

static struct rdma_cm_id *fresh(void)
{
	struct rdma_cm_id *id;

	start();
	CHECK(!rdma_create_id(bed.active, &id, NULL, RDMA_PS_TCP));
	return id;
}

static union bed_addr address(const char *text)
{
	union bed_addr addr = bed_wildcard(AF_INET);

	CHECK(inet_pton(AF_INET, text, &addr.v4.sin_addr) == 1);
	return addr;
}

/* ---- Devices and addresses ---- */

static void no_device(void)
{
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id;
	int n = 7;

	errno = 0;
	CHECK(!rdma_create_event_channel() && errno == ENODEV);
	FAILS(rdma_getaddrinfo("127.0.0.1", "7", NULL, &res), ENODEV);
	FAILS(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), ENODEV);
	errno = 0;
	CHECK(!rdma_get_devices(&n) && errno == ENODEV && n == 0);
}

/* Two interfaces, one of them the device's. */
static void two_interfaces(void)
{
	CHECK(enter_namespace());
	run_ip("link set lo up");
	run_ip("link add v0 type veth peer name v1");
	run_ip("addr add 198.51.100.1/24 dev v0");
	run_ip("addr add 192.0.2.9/24 dev v1");
	run_ip("link set v0 up");
	run_ip("link set v1 up");
	CHECK(!setenv("VERBENA_NETDEV", "v0", 1));
}

static void no_device_address(void)
{
	union bed_addr addr = address("192.0.2.9");
	struct rdma_cm_id *id;

	two_interfaces();
	id = fresh();
	FAILS(rdma_bind_addr(id, &addr.any), ENODEV);
}

static void no_route(void)
{
	union bed_addr addr = address("203.0.113.5");
	struct rdma_cm_id *id;

	two_interfaces();
	id = fresh();
	FAILS(rdma_resolve_addr(id, NULL, &addr.any, 100), ENETUNREACH);
}

static void not_local(void)
{
	union bed_addr addr = address("192.0.2.77");

	FAILS(rdma_bind_addr(fresh(), &addr.any), EADDRNOTAVAIL);
}

static void family(void)
{
	union bed_addr addr = bed_wildcard(AF_UNIX);

	FAILS(rdma_bind_addr(fresh(), &addr.any), EAFNOSUPPORT);
}

static void in_use(void)
{
	struct rdma_cm_id *id = fresh();

	FAILS(rdma_bind_addr(id, &bed.addr.any), EADDRINUSE);
}

/* ---- States and arguments ---- */

static void state(void)
{
	FAILS(rdma_connect(fresh(), NULL), EINVAL);
}

static void argument(void)
{
	FAILS(rdma_bind_addr(NULL, NULL), EINVAL);
}

static void forked_child(void *arg)
{
	FAILS(rdma_listen(bed.listener, 0), EINVAL);
}

static void forked(void)
{
	start();
	CHECK(!run_in_child(forked_child, NULL));
}

static void private_data(void)
{
	uint8_t data[57] = {0};
	struct rdma_conn_param param = bed_param();

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	param.private_data = data;
	param.private_data_len = 57;
	FAILS(rdma_connect(bed.client, &param), EINVAL);
}

static void private_data_ud(void)
{
	union bed_addr addr = bed_loopback(AF_INET);
	uint8_t data[181] = {0};
	struct rdma_conn_param param = bed_param();

	bed_listen(&bed, RDMA_PS_UDP, &addr, 0);
	bed_resolve(&bed);
	bed_qp(bed.client);
	param.private_data = data;
	param.private_data_len = 181;
	FAILS(rdma_connect(bed.client, &param), EINVAL);
}

static void resources(void)
{
	struct rdma_conn_param param = bed_param();

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	param.responder_resources = 200;
	FAILS(rdma_connect(bed.client, &param), EINVAL);
}

static void no_qp(void)
{
	start();
	bed_resolve(&bed);
	FAILS(rdma_connect(bed.client, NULL), EINVAL);
}

static struct ibv_qp_init_attr qp_attr(void)
{
	return (struct ibv_qp_init_attr){
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
}

static void qp_exists(void)
{
	struct ibv_qp_init_attr attr = qp_attr();

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	FAILS(rdma_create_qp(bed.client, NULL, &attr), EINVAL);
}

static void other_device(void)
{
	struct ibv_qp_init_attr attr = qp_attr();
	struct ibv_context *other;
	struct ibv_pd *pd;

	start();
	bed_resolve(&bed);
	other = ibv_open_device(bed.client->verbs->device);
	pd = other ? ibv_alloc_pd(other) : NULL;
	CHECK(pd);
	FAILS(rdma_create_qp(bed.client, pd, &attr), EINVAL);
	CHECK(!bed.client->qp && !bed.client->send_cq);
}

static void sync_only(void)
{
	struct rdma_cm_id *id;

	start();
	FAILS(rdma_get_request(bed.listener, &id), EINVAL);
}

static void option(void)
{
	int on = 1;

	FAILS(rdma_set_option(fresh(), 0, 99, &on, sizeof(on)), ENOSYS);
}

static void option_length(void)
{
	int on = 1;

	FAILS(rdma_set_option(fresh(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof(on)),
	      EINVAL);
}

static void no_event(void)
{
	struct rdma_cm_event *event;

	start();
	CHECK(!fcntl(bed.active->fd, F_SETFL, O_NONBLOCK));
	FAILS(rdma_get_cm_event(bed.active, &event), EAGAIN);
}

static void port_space(void)
{
	struct rdma_cm_id *id;

	start();
	FAILS(rdma_create_id(bed.active, &id, NULL, (enum rdma_port_space)0x77), EPROTONOSUPPORT);
}

static void not_member(void)
{
	union bed_addr addr = address("239.1.2.3");

	FAILS(rdma_leave_multicast(fresh(), &addr.any), EADDRNOTAVAIL);
}

/* ---- Shortage ---- */

/* Until nothing of a size can be had. */
static void use_up(size_t size)
{
	void *volatile last;

	do
		last = malloc(size);
	while (last);
}

static void no_memory(void)
{
	struct rlimit limit;
	struct rdma_cm_id *id;
	int ret;

	start();
	CHECK(!getrlimit(RLIMIT_AS, &limit));
	limit.rlim_cur = 4096;
	CHECK(!setrlimit(RLIMIT_AS, &limit));
	for (size_t size = 1u << 16; size >= 16; size /= 2)
		use_up(size);
	errno = 0;
	ret = rdma_create_id(bed.active, &id, NULL, RDMA_PS_TCP);
	CHECK(ret == -1 && errno == ENOMEM);
	limit.rlim_cur = limit.rlim_max;
	CHECK(!setrlimit(RLIMIT_AS, &limit));
}

static void no_descriptors(void)
{
	struct rlimit limit;

	start();
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 0;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	errno = 0;
	CHECK(!rdma_create_event_channel() && errno == EMFILE);
	limit.rlim_cur = limit.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* ---- Peers and events ---- */

static void refused(void)
{
	struct rdma_cm_id *id;

	start();
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, &bed.addr.any, 100) && !rdma_resolve_route(id, 100));
	bed_qp(id);
	bed_end_id(&bed.listener);
	FAILS(rdma_connect(id, NULL), ECONNREFUSED);
}

static void *destroy(void *arg)
{
	CHECK(!rdma_destroy_id(arg));
	return NULL;
}

static void unacked(void)
{
	struct rdma_cm_event *first, *second;
	static char text[4096];
	pthread_t thread;

	start();
	CHECK(!rdma_create_id(bed.active, &bed.client, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(bed.client, NULL, &bed.addr.any, 100));
	first = bed_want(bed.active, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_resolve_route(bed.client, 100));
	second = bed_want(bed.active, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(!pthread_create(&thread, NULL, destroy, bed.client));
	while (!read_said(text, sizeof(text)))
		sched_yield();
	CHECK(!rdma_ack_cm_event(first));
	CHECK(!rdma_ack_cm_event(second));
	CHECK(!pthread_join(thread, NULL));
}

static void padded(void)
{
	struct rdma_conn_param param = bed_param();

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	param.private_data = "short";
	param.private_data_len = 6;
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
}

/* ---- The table ---- */

static const struct row {
	const char *rule;
	void (*provoke)(void);
	const char *texts[5];
	const char *setting, *value;
} rows[] = {
	{"cm-no-device", no_device, {"0 in the list"}, "VERBENA_DEVICES", "none"},
	{"cm-no-device-address",
	 no_device_address,
	 {"192.0.2.9", "verbena0 has", "198.51.100.1", "VERBENA_NETDEV"},
	 NULL,
	 NULL},
	{"cm-no-route", no_route, {"203.0.113.5"}, NULL, NULL},
	{"cm-address-not-local", not_local, {"192.0.2.77", " has "}, NULL, NULL},
	{"cm-family", family, {"family=1"}, NULL, NULL},
	{"cm-address-in-use", in_use, {"port ", "space 0x106"}, NULL, NULL},
	{"cm-state", state, {"no route is resolved"}, NULL, NULL},
	{"cm-argument", argument, {"rdma_bind_addr: id is NULL"}, NULL, NULL},
	{"forked", forked, {"rdma_listen"}, NULL, NULL},
	{"cm-private-data",
	 private_data,
	 {"rdma_connect: private_data_len=57, most 56", "180", "196", "148"},
	 NULL,
	 NULL},
	{"cm-private-data",
	 private_data_ud,
	 {"rdma_connect: private_data_len=181, most 180"},
	 NULL,
	 NULL},
	{"cm-resources", resources, {"responder_resources=200 (16)"}, NULL, NULL},
	{"cm-no-qp", no_qp, {"conn_param with qp_num"}, NULL, NULL},
	{"cm-qp-exists", qp_exists, {"has qp#"}, NULL, NULL},
	{"cm-qp-other-device", other_device, {"pd 0x"}, NULL, NULL},
	{"cm-sync", sync_only, {0}, NULL, NULL},
	{"cm-option", option, {"level=0 optname=99"}, NULL, NULL},
	{"cm-option-length", option_length, {"RDMA_OPTION_ID_TOS: optlen=4, want 1"}, NULL, NULL},
	{"cm-no-event", no_event, {"channel fd="}, NULL, NULL},
	{"cm-port-space", port_space, {"ps=0x77"}, NULL, NULL},
	{"cm-not-member", not_member, {0}, NULL, NULL},
	{"cm-memory", no_memory, {0}, NULL, NULL},
	{"cm-descriptors", no_descriptors, {"an event channel"}, NULL, NULL},
	{"cm-refused", refused, {"reason 8"}, NULL, NULL},
	{"cm-unacked",
	 unacked,
	 {"rdma_destroy_id id 0x", "waits for 2 events", "RDMA_CM_EVENT_ADDR_RESOLVED of id 0x",
	  "RDMA_CM_EVENT_ROUTE_RESOLVED of id 0x", "whose handler destroys the id"},
	 NULL,
	 NULL},
	{"cm-padded",
	 padded,
	 {"RDMA_CM_EVENT_CONNECT_REQUEST: private_data_len=56, zeroes after 5 bytes"},
	 NULL,
	 NULL},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Rules that other tests provoke. */
static const char *const elsewhere[] = {
	"cm-timeout",	   /* silence_test */
	"rsocket-unknown", /* of rsockets */
};

static void check_names(const struct row *row, const char *text)
{
	bool found = false;

	for (const char *at = strstr(text, "verbena: "); at; at = strstr(at + 1, "\nverbena: ")) {
		const char *open = strchr(at, '['), *close = open ? strchr(open, ']') : NULL;
		char name[64];

		CHECK(open && close && close - open < (long)sizeof(name));
		snprintf(name, sizeof(name), "%.*s", (int)(close - open - 1), open + 1);
		found |= !strcmp(name, row->rule);
		if (strcmp(name, row->rule) != 0) {
			printf("%s: also said: %s\n", row->rule, text);
			exit(1);
		}
	}
	if (!found) {
		printf("%s: not said, but: %s\n", row->rule, text);
		exit(1);
	}
}

/* Explanations go to standard error, which needs no descriptor any more when they come. */
static void run_row(void *arg)
{
	const struct row *row = arg;
	static char text[65536];
	int fd;

	snprintf(path, sizeof(path), "/tmp/verbena-cm-rules-%d", getpid());
	unlink(path);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
	close(fd);
	CHECK(!setenv("VERBENA_EXPLAIN", "1", 1));
	if (row->setting)
		CHECK(!setenv(row->setting, row->value, 1));
	row->provoke();
	read_said(text, sizeof(text));
	unlink(path);
	check_names(row, text);
	for (int i = 0; i < 5; i++)
		if (row->texts[i] && !strstr(text, row->texts[i])) {
			printf("%s: '%s' is missing in: %s\n", row->rule, row->texts[i], text);
			exit(1);
		}
}

static bool namespaces;

static bool is_inside(const struct row *row)
{
	return row->provoke == no_device_address || row->provoke == no_route;
}

static void probe(void *arg)
{
	if (!enter_namespace())
		_exit(1);
}

static void test_rows(void **arg)
{
	int bad = 0;

	(void)arg;
	for (size_t i = 0; i < ROWS; i++) {
#ifdef VB_SANITIZED
		if (rows[i].provoke == no_memory)
			continue; /* a sanitizer cannot live with so little address space */
#endif
		if (!namespaces && is_inside(&rows[i]))
			continue;
		if (run_in_child(run_row, (void *)(uintptr_t)&rows[i]) != 0) {
			print_error("rule %s\n", rows[i].rule);
			bad++;
		}
	}
	assert_int_equal(bad, 0);
}

static bool is_covered(const char *rule)
{
	for (size_t i = 0; i < ROWS; i++)
		if (!strcmp(rows[i].rule, rule))
			return true;
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (!strcmp(elsewhere[i], rule))
			return true;
	return false;
}

static void test_none_forgotten(void **arg)
{
	static const char *const names[] = {
#define VB_RULE(sym, name, verb, err, sentence, source, advice) name,
#include "base/rules/rdmacm.def"
#undef VB_RULE
	};
	int bad = 0;

	(void)arg;
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

	int failed;

	namespaces = !run_in_child(probe, NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (failed || namespaces)
		return failed;
	printf("network namespaces are forbidden here: two rules are left out\n");
	return 77;
}
