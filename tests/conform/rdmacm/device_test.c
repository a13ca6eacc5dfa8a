/* SPDX-License-Identifier: BSD-2-Clause */
/* What ids hear of their device: another Ethernet address, and that it is gone. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cm_bed.h"
#include "lib/verbs_many.h"

static struct bed bed;
static struct rdma_event_channel *aside; /* of an id that is bound to no device */
static struct rdma_cm_id *wildcard;

static void make_interface(void)
{
	CHECK(enter_namespace());
	run_ip("link set lo up");
	run_ip("link add v0 type veth peer name v1");
	run_ip("link set v0 addrgenmode none");
	run_ip("link set v1 up");
	run_ip("link set v0 up");
	run_ip("addr add 192.0.2.1/24 dev v0");
	setenv("VERBENA_NETDEV", "v0", 1);
}

/* Connected, with a listener at the device's address and one at all. */
static void start(void)
{
	union bed_addr addr = {.v4 = {.sin_family = AF_INET}}, any = bed_wildcard(AF_INET);

	CHECK(inet_pton(AF_INET, "192.0.2.1", &addr.v4.sin_addr) == 1);
	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
	bed_connect(&bed);
	aside = rdma_create_event_channel();
	CHECK(aside && !rdma_create_id(aside, &wildcard, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(wildcard, &any.any) && !rdma_listen(wildcard, 1));
}

static void end(void)
{
	CHECK(bed_quiet(aside));
	CHECK(!rdma_destroy_id(wildcard));
	rdma_destroy_event_channel(aside);
	bed_close(&bed);
}

/* Each of the ids on a channel hears it once. */
static void all_hear(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	bool listener = false, server = false;

	for (int i = 0; i < 2; i++) {
		event = bed_want(bed.passive, type, 0);
		listener = listener || event->id == bed.listener;
		server = server || event->id == bed.server;
		CHECK(!rdma_ack_cm_event(event));
	}
	CHECK(listener && server && bed_quiet(bed.passive));
	event = bed_want(bed.active, type, 0);
	CHECK(event->id == bed.client && !rdma_ack_cm_event(event));
	CHECK(bed_quiet(bed.active));
}

static void another_address(void *arg)
{
	make_interface();
	start();
	for (int i = 0; i < 3; i++) {
		run_ip("link set v0 address 02:00:00:00:00:%02d", i + 10);
		all_hear(RDMA_CM_EVENT_ADDR_CHANGE);
		/* A hint: the connection goes on. */
		bed_ping(bed.client, bed.server);
		/* Nothing of that is about the address. */
		run_ip("addr add 192.0.2.%d/24 dev v0", i + 10);
	}
	end();
}
CASE_IN_CHILD(another_address)

static void no_interface(void *arg)
{
	make_interface();
	start();
	run_ip("link del v0");
	all_hear(RDMA_CM_EVENT_DEVICE_REMOVAL);
	/* It is there again, and gone again: these ids have lost it already. */
	run_ip("link add v0 type veth peer name v1");
	run_ip("link set v0 up");
	run_ip("link del v0");
	end();
}
CASE_IN_CHILD(no_interface)

static void lost_device(void *arg)
{
	setenv("VERBENA_FAULTS", "fatal=#1,opcode=write", 1);
	setenv("VERBENA_CARRIER", "udp", 1);
	make_interface();
	start();
	CHECK(!rdma_post_write(bed.client, NULL, NULL, 0, NULL, IBV_SEND_SIGNALED, 0, 0));
	all_hear(RDMA_CM_EVENT_DEVICE_REMOVAL);
	end();
}
CASE_IN_CHILD(lost_device)

static void probe(void *arg)
{
	if (!enter_namespace())
		_exit(77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_address),
		cmocka_unit_test(test_no_interface),
		cmocka_unit_test(test_lost_device),
	};

	if (run_in_child(probe, NULL) == 77) {
		puts("no network namespace can be made here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
