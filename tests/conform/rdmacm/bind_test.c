/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids, addresses and ports: who may bind what, and what an id that was refused is afterwards. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

static struct rdma_event_channel *channel;

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	if (!channel)
		channel = rdma_create_event_channel();
	CHECK(channel);
	CHECK(!rdma_create_id(channel, &id, NULL, ps));
	return id;
}

static uint16_t port_of(struct rdma_cm_id *id)
{
	return ntohs(rdma_get_src_port(id));
}

/* One bound at a port that the library chose. */
static struct rdma_cm_id *bound(enum rdma_port_space ps, union bed_addr addr)
{
	struct rdma_cm_id *id = new_id(ps);

	CHECK(!rdma_bind_addr(id, &addr.any));
	CHECK(port_of(id));
	return id;
}

/* What binding to an address and port gives: 0, or errno; the id is as it was then. */
static int try_bind(struct rdma_cm_id *id, union bed_addr addr, uint16_t port)
{
	struct bed_shape before = bed_shape(id);
	int ret;

	bed_set_port(&addr, port);
	errno = 0;
	ret = rdma_bind_addr(id, &addr.any);
	if (!ret) {
		CHECK(port_of(id) == port || !port);
		return 0;
	}
	CHECK(ret == -1 && errno && bed_same(&before, id));
	return errno;
}

static void port_spaces(void *arg)
{
	static const struct {
		enum rdma_port_space ps;
		enum ibv_qp_type type;
	} rows[] = {{RDMA_PS_TCP, IBV_QPT_RC},
		    {RDMA_PS_IB, IBV_QPT_RC},
		    {RDMA_PS_UDP, IBV_QPT_UD},
		    {RDMA_PS_IPOIB, IBV_QPT_UD}};
	struct rdma_cm_id *id = NULL;
	struct rdma_cm_id *const untouched = (struct rdma_cm_id *)0x10;
	int mine;

	channel = rdma_create_event_channel();
	for (int i = 0; i < 4; i++) {
		CHECK(!rdma_create_id(channel, &id, &mine, rows[i].ps));
		CHECK(id->ps == rows[i].ps && id->qp_type == rows[i].type);
		CHECK(id->channel == channel && id->context == &mine && !id->verbs);
		CHECK(!rdma_destroy_id(id));
	}
	id = untouched;
	FAILS(rdma_create_id(channel, &id, NULL, (enum rdma_port_space)0), EPROTONOSUPPORT);
	FAILS(rdma_create_id(channel, &id, NULL, (enum rdma_port_space)0x1234), EPROTONOSUPPORT);
	CHECK(id == untouched);
	rdma_destroy_event_channel(channel);
}

static void a_chosen_port_is_nobody_elses(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *first = bound(RDMA_PS_TCP, addr), *second = new_id(RDMA_PS_TCP);
	struct rdma_cm_id *third = bound(RDMA_PS_TCP, addr);

	CHECK(first->verbs && first->port_num == 1 && first->pd);
	CHECK(port_of(first) != port_of(third));
	CHECK(try_bind(second, addr, port_of(first)) == EADDRINUSE);
	CHECK(try_bind(second, bed_wildcard(AF_INET), port_of(first)) == EADDRINUSE);
	/* Another space has ports of its own. */
	CHECK(!rdma_destroy_id(second));
	second = new_id(RDMA_PS_UDP);
	CHECK(!try_bind(second, addr, port_of(first)));
	CHECK(!rdma_destroy_id(second) && !rdma_destroy_id(first) && !rdma_destroy_id(third));
}

static void a_port_is_free_when_its_id_is_gone(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *id = bound(RDMA_PS_TCP, addr);
	uint16_t port = port_of(id);

	for (int i = 0; i < 50; i++) {
		CHECK(!rdma_listen(id, 0));
		CHECK(!rdma_destroy_id(id));
		id = new_id(RDMA_PS_TCP);
		CHECK(!try_bind(id, addr, port));
	}
	CHECK(!rdma_destroy_id(id));
}

static void wildcards(void *arg)
{
	union bed_addr any4 = bed_wildcard(AF_INET), any6 = bed_wildcard(AF_INET6);
	union bed_addr lo4 = bed_loopback(AF_INET), lo6 = bed_loopback(AF_INET6);
	struct rdma_cm_id *id = bound(RDMA_PS_TCP, any6), *other = new_id(RDMA_PS_TCP);
	int only = 1;

	CHECK(!id->verbs && !id->pd && !id->port_num);
	CHECK(try_bind(other, any6, port_of(id)) == EADDRINUSE);
	CHECK(try_bind(other, any4, port_of(id)) == EADDRINUSE);
	CHECK(try_bind(other, lo4, port_of(id)) == EADDRINUSE);
	CHECK(try_bind(other, lo6, port_of(id)) == EADDRINUSE);
	CHECK(!rdma_destroy_id(id));

	/* Without IPv4 the other family's is free. */
	id = new_id(RDMA_PS_TCP);
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof(only)));
	CHECK(!try_bind(id, any6, 0));
	CHECK(try_bind(other, any6, port_of(id)) == EADDRINUSE);
	CHECK(try_bind(other, lo6, port_of(id)) == EADDRINUSE);
	CHECK(!try_bind(other, any4, port_of(id)));
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(other));

	/* The other way round. */
	id = bound(RDMA_PS_TCP, any4);
	other = new_id(RDMA_PS_TCP);
	CHECK(try_bind(other, any6, port_of(id)) == EADDRINUSE);
	CHECK(!try_bind(other, lo6, port_of(id)));
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(other));
}

static void addresses_may_share_a_number(void *arg)
{
	union bed_addr own;
	struct rdma_cm_id *id = bound(RDMA_PS_TCP, bed_loopback(AF_INET));
	struct rdma_cm_id *other = new_id(RDMA_PS_TCP);

	CHECK(!try_bind(other, bed_loopback(AF_INET6), port_of(id)));
	CHECK(!rdma_listen(id, 0) && !rdma_listen(other, 0));
	if (bed_own(AF_INET, &own)) {
		struct rdma_cm_id *third = new_id(RDMA_PS_TCP);

		CHECK(!try_bind(third, own, port_of(id)));
		CHECK(!rdma_listen(third, 0));
		CHECK(!rdma_destroy_id(third));
	}
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(other));
}

static void set_reuse(struct rdma_cm_id *id, int on)
{
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)));
}

static void ports_are_shared_by_those_who_say_so(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *probe = bound(RDMA_PS_TCP, addr);
	struct rdma_cm_id *ids[3];
	uint16_t port = port_of(probe);

	CHECK(!rdma_destroy_id(probe));
	for (int i = 0; i < 3; i++)
		ids[i] = new_id(RDMA_PS_TCP);
	set_reuse(ids[0], 1);
	set_reuse(ids[1], 1);
	CHECK(!try_bind(ids[0], addr, port));
	CHECK(try_bind(ids[2], addr, port) == EADDRINUSE);
	CHECK(!try_bind(ids[1], addr, port));
	/* One may listen. */
	CHECK(!rdma_listen(ids[1], 0));
	FAILS(rdma_listen(ids[0], 0), EADDRINUSE);
	set_reuse(ids[2], 1);
	CHECK(try_bind(ids[2], addr, port) == EADDRINUSE);
	for (int i = 0; i < 3; i++)
		CHECK(!rdma_destroy_id(ids[i]));

	/* Who does not say so shares with nobody. */
	ids[0] = new_id(RDMA_PS_TCP);
	ids[1] = new_id(RDMA_PS_TCP);
	set_reuse(ids[1], 1);
	CHECK(!try_bind(ids[0], addr, port));
	CHECK(try_bind(ids[1], addr, port) == EADDRINUSE);
	CHECK(!rdma_destroy_id(ids[0]) && !rdma_destroy_id(ids[1]));
}

static void foreign_addresses_are_refused(void *arg)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	union bed_addr addr = bed_wildcard(AF_INET);

	/* Of nobody, by RFC 5737. */
	addr.v4.sin_addr.s_addr = htonl(0xcb00714d);
	CHECK(try_bind(id, addr, 0) == EADDRNOTAVAIL);
	addr = bed_wildcard(AF_INET);
	addr.any.sa_family = AF_UNIX;
	CHECK(try_bind(id, addr, 0) == EAFNOSUPPORT);
	addr.any.sa_family = AF_IB;
	CHECK(try_bind(id, addr, 0) == EAFNOSUPPORT);
	FAILS(rdma_bind_addr(id, NULL), EINVAL);
	/* It can be bound still. */
	CHECK(!try_bind(id, bed_loopback(AF_INET), 0));
	FAILS(rdma_bind_addr(id, &addr.any), EAFNOSUPPORT);
	addr = bed_loopback(AF_INET);
	FAILS(rdma_bind_addr(id, &addr.any), EINVAL);
	CHECK(!rdma_destroy_id(id));
}

static void addresses_of_no_route(void *arg)
{
	union bed_addr dst = bed_loopback(AF_INET), src = bed_loopback(AF_INET6);
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct bed_shape before = bed_shape(id);

	FAILS(rdma_resolve_addr(id, NULL, NULL, 100), EINVAL);
	FAILS(rdma_resolve_addr(id, &src.any, &dst.any, 100), EAFNOSUPPORT);
	src = bed_wildcard(AF_INET);
	src.v4.sin_addr.s_addr = htonl(0xcb00714d);
	FAILS(rdma_resolve_addr(id, &src.any, &dst.any, 100), EADDRNOTAVAIL);
	dst.any.sa_family = AF_UNIX;
	FAILS(rdma_resolve_addr(id, NULL, &dst.any, 100), EAFNOSUPPORT);
	CHECK(bed_same(&before, id) && bed_quiet(channel));
	FAILS(rdma_resolve_route(id, 100), EINVAL);
	FAILS(rdma_connect(id, NULL), EINVAL);
	CHECK(bed_same(&before, id) && bed_quiet(channel));
	/* The wildcard as a destination is this host. */
	dst = bed_wildcard(AF_INET);
	bed_set_port(&dst, 7);
	CHECK(!rdma_resolve_addr(id, NULL, &dst.any, 100));
	bed_take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	FAILS(rdma_resolve_addr(id, NULL, &dst.any, 100), EINVAL);
	CHECK(!rdma_destroy_id(id));
}

static void listening_without_binding(void *arg)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	CHECK(!rdma_listen(id, 3));
	CHECK(port_of(id));
	CHECK(!rdma_destroy_id(id));
}

static void connections_do_not_listen(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	bed_set_port(&addr, 7);
	CHECK(!rdma_resolve_addr(id, NULL, &addr.any, 100));
	FAILS(rdma_listen(id, 0), EINVAL);
	bed_take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 100));
	FAILS(rdma_listen(id, 0), EINVAL);
	bed_take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!rdma_destroy_id(id));
	/* Nor is a listener one. */
	id = bound(RDMA_PS_TCP, bed_loopback(AF_INET));
	CHECK(!rdma_listen(id, 0));
	FAILS(rdma_resolve_addr(id, NULL, &addr.any, 100), EINVAL);
	FAILS(rdma_connect(id, NULL), EINVAL);
	FAILS(rdma_accept(id, NULL), EINVAL);
	FAILS(rdma_reject(id, NULL, 0), EINVAL);
	FAILS(rdma_disconnect(id), EINVAL);
	FAILS(rdma_establish(id), EINVAL);
	CHECK(!rdma_destroy_id(id));
}

static void devices_are_the_ids_own(void *arg)
{
	struct rdma_cm_id *id = bound(RDMA_PS_TCP, bed_loopback(AF_INET));
	int n = 0;
	struct ibv_context **list = rdma_get_devices(&n), **again = rdma_get_devices(NULL);

	CHECK(list && again && n > 0 && !list[n] && list != again);
	CHECK(list[0] == id->verbs && again[0] == id->verbs);
	rdma_free_devices(list);
	rdma_free_devices(again);
	/* They stay open. */
	CHECK(!ibv_query_port(id->verbs, 1, &(struct ibv_port_attr){0}));
	CHECK(!rdma_destroy_id(id));
}

/* ---- Between processes ---- */

static void the_other_process(int to, int from, union bed_addr addr)
{
	struct rdma_cm_id *id = bound(RDMA_PS_TCP, addr);
	uint16_t port = port_of(id);
	char go;

	CHECK(write(to, &port, sizeof(port)) == sizeof(port));
	CHECK(read(from, &go, 1) == 1);
	CHECK(!rdma_listen(id, 0));
	CHECK(write(to, &port, sizeof(port)) == sizeof(port));
	while (read(from, &go, 1) == 1)
		;
	_exit(0);
}

static void ports_are_shared_by_processes(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *id;
	int there[2], here[2];
	uint16_t port;
	pid_t pid;

	CHECK(!pipe(there) && !pipe(here));
	pid = fork();
	if (!pid) {
		close(there[1]);
		close(here[0]);
		the_other_process(here[1], there[0], addr);
	}
	close(there[0]);
	close(here[1]);
	CHECK(read(here[0], &port, sizeof(port)) == sizeof(port));
	id = new_id(RDMA_PS_TCP);
	CHECK(try_bind(id, addr, port) == EADDRINUSE);
	CHECK(try_bind(id, bed_wildcard(AF_INET6), port) == EADDRINUSE);
	CHECK(write(there[1], "x", 1) == 1);
	CHECK(read(here[0], &port, sizeof(port)) == sizeof(port));
	CHECK(try_bind(id, addr, port) == EADDRINUSE);
	/* It dies, and with it what it had. */
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	CHECK(!try_bind(id, addr, port));
	CHECK(!rdma_listen(id, 0));
	CHECK(!rdma_destroy_id(id));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(port_spaces),
		BED_TEST(a_chosen_port_is_nobody_elses),
		BED_TEST(a_port_is_free_when_its_id_is_gone),
		BED_TEST(wildcards),
		BED_TEST(addresses_may_share_a_number),
		BED_TEST(ports_are_shared_by_those_who_say_so),
		BED_TEST(foreign_addresses_are_refused),
		BED_TEST(addresses_of_no_route),
		BED_TEST(listening_without_binding),
		BED_TEST(connections_do_not_listen),
		BED_TEST(devices_are_the_ids_own),
		BED_TEST(ports_are_shared_by_processes),
	};

	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
