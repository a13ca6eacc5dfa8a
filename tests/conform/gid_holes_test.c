/* SPDX-License-Identifier: BSD-2-Clause */
/* Case 5: a GID table with holes, while an address goes and comes again under a program that
 * runs. All ways to the table agree, and what a scan as of NCCL finds can be used. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/child.h"
#include "lib/verbs_pair.h"

#define OWN	    "10.77.0.1"
#define FURTHER	    "10.78.0.1"
#define OWN_GID	    "\x0a\x4d\x00\x01"
#define FURTHER_GID "\x0a\x4e\x00\x01"

/* With VB_TEST_OTHER the interface is there, with the other host behind it. */
static void make_host(void)
{
	if (getenv("VB_TEST_OTHER"))
		return;
	CHECK(enter_namespace());
	run_ip("link set lo up");
	run_ip("link add eth0 type veth peer name eth1");
	run_ip("link set eth0 up");
	run_ip("link set eth1 up");
	run_ip("addr add " OWN "/24 dev eth0");
}

/* The first line of a file of the port; false: it is empty, or cannot be read. */
static bool read_file(struct ibv_context *context, const char *folder, int index, char *line,
		      size_t size)
{
	char path[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/%s/%d",
		 context->device->name, folder, index);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, line, size - 1);
	close(fd);
	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return n > 0;
}

static void text_of(const union ibv_gid *gid, char *text)
{
	for (int i = 0; i < 16; i += 2)
		text += sprintf(text, "%s%02x%02x", i ? ":" : "", gid->raw[i], gid->raw[i + 1]);
}

/* Programs under `verbena run` see the table as files, too. */
static bool has_files(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "verbena-sysfs");
}

static void check_files(struct ibv_context *context, int index, const union ibv_gid *gid, bool used)
{
	char line[128], want[48];

	text_of(gid, want);
	CHECK(read_file(context, "gids", index, line, sizeof(line)));
	CHECK(strcmp(line, want) == 0);
	CHECK(read_file(context, "gid_attrs/types", index, line, sizeof(line)) == used);
	CHECK(!used || strcmp(line, "RoCE v2") == 0);
}

/* Every index, every way. Returns the index of an IPv4 address, or -1. */
static int scan(struct ibv_context *context, const char *v4)
{
	struct ibv_gid_entry table[256], entry;
	ssize_t used = ibv_query_gid_table(context, table, 256, 0), seen = 0;
	static const union ibv_gid none;
	struct ibv_port_attr port;
	int found = -1;

	CHECK(used > 0 && ibv_query_port(context, 1, &port) == 0);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		union ibv_gid gid;
		bool empty;
		int err;

		CHECK(ibv_query_gid(context, 1, i, &gid) == 0);
		empty = !memcmp(&gid, &none, sizeof(gid));
		err = ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0);
		CHECK(err == (empty ? ENODATA : 0));
		if (has_files())
			check_files(context, i, &gid, !empty);
		if (empty)
			continue;
		CHECK(seen < used && table[seen].gid_index == (uint32_t)i);
		CHECK(!memcmp(&table[seen++].gid, &gid, sizeof(gid)));
		CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2);
		if (!memcmp(gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) &&
		    !memcmp(gid.raw + 12, v4, 4))
			found = i;
	}
	CHECK(seen == used);
	return found;
}

static void exchange(int gid_index)
{
	struct pair_opts opts = pair_defaults;
	struct verbs_pair pair;
	struct ibv_wc wc;

	opts.gid_index = gid_index;
	pair_create(&pair, &opts, true);
	CHECK(pair_b_recv(&pair, 3, 0, NULL, 0) == 0);
	CHECK(post_send(&pair.a, 2, NULL, 0, IBV_SEND_SIGNALED) == 0);
	wait_wc(pair.a.send_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK(pair_b(&pair, PAIR_WAIT_RECV).wc.status == IBV_WC_SUCCESS);
	pair_destroy(&pair);
}

static void holes(void *arg)
{
	struct ibv_context *context;
	int at, further;

	make_host();
	run_ip("addr add " FURTHER "/24 dev eth0");
	context = open_verbs();
	at = scan(context, OWN_GID);
	further = scan(context, FURTHER_GID);
	CHECK(at > 0 && further > at);
	exchange(at);
	/* A hole before an entry that stays where it is. */
	run_ip("addr del " OWN "/24 dev eth0");
	CHECK(scan(context, OWN_GID) == -1 && scan(context, FURTHER_GID) == further);
	for (int round = 0; round < 3; round++) {
		run_ip("addr add " OWN "/24 dev eth0");
		CHECK(scan(context, OWN_GID) == at && scan(context, FURTHER_GID) == further);
		exchange(at);
		run_ip("addr del " OWN "/24 dev eth0");
		CHECK(scan(context, OWN_GID) == -1);
	}
	run_ip("addr del " FURTHER "/24 dev eth0");
	run_ip("addr add " OWN "/24 dev eth0");
	CHECK(scan(context, OWN_GID) == at);
	exchange(at);
	CHECK(ibv_close_device(context) == 0);
}

static void test_holes(void **state)
{
	if (!getenv("VB_TEST_OTHER") && !can_enter_namespace())
		skip();
	assert_int_equal(run_in_child(holes, NULL), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_holes)};
	uint8_t frame[PAIR_STACK_BYTES];

	pair_main(argc, argv, frame);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
