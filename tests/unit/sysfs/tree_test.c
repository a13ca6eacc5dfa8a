/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/sysfs/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "sysfs/tree.h"
#include "sysfs/walk.h"

static char names[4096];

static bool collect(const char *name, const struct vb_tree_node *node, void *arg)
{
	strcat(names, " ");
	strcat(names, name);
	return true;
}

static const char *list(const char *path)
{
	names[0] = 0;
	vb_tree_list(path, collect, NULL);
	return names;
}

static const char *text_of(const char *path, char *text)
{
	struct vb_tree_node node;

	assert_int_equal(vb_tree_lookup(path, &node), 0);
	assert_true(vb_tree_read(&node, path, text) >= 0);
	return text;
}

static void both_devices_are_listed(void **state)
{
	assert_string_equal(list("/sys/class/infiniband"), " alpha beta");
	assert_string_equal(list("/sys/class/infiniband_verbs"), " abi_version uverbs0 uverbs1");
	assert_string_equal(list("/dev/infiniband"), " rdma_cm uverbs0 uverbs1");
	assert_string_equal(list(ALPHA "/infiniband"), " alpha");
	assert_string_equal(list(PORT "/gids"), " 0 1 2 3 4 5 6 7");
	assert_string_equal(list(PORT "/pkeys"), " 0");
	assert_string_equal(list("/sys/class/misc"), " rdma_cm");
	assert_string_equal(list("/dev"), " infiniband");
}

static bool count_to_two(const char *name, const struct vb_tree_node *node, void *arg)
{
	return ++*(int *)arg < 2;
}

static void stops_where_told(void **state)
{
	int calls = 0;

	vb_tree_list(PORT "/gids", count_to_two, &calls);
	assert_int_equal(calls, 2);
	calls = 0;
	vb_tree_list(PORT, count_to_two, &calls);
	assert_int_equal(calls, 2);
}

static void only_what_is_listed_is_found(void **state)
{
	static const char *const not_there[] = {
		"/sys/class/infiniband/gamma",
		"/sys/class/infiniband/",
		"/sys/class/infiniban",
		"/sys/class/infinibandx",
		"/sys/class/infiniband/alph",
		"/sys/class/infiniband/alphax",
		"/sys/class/infiniband_verbs/uverbs2",
		"/sys/class/infiniband_verbs/uverbs00",
		"/sys/devices/virtual/verbena/alpha/infiniband/beta",
		ALPHA "/infiniband/alpha/ports/0",
		ALPHA "/infiniband/alpha/ports/2",
		ALPHA "/infiniband/alpha/ports/01",
		PORT "/gids/8",
		PORT "/gids/00",
		PORT "/gids/-1",
		PORT "/gids/ 1",
		PORT "/gids/",
		PORT "/gids/4294967296",
		PORT "/pkeys/1",
		PORT "/hw_counters/nothing",
		PORT "/counters/rdma_sends",
		PORT "/state/x",
		ALPHA "/infiniband/alpha/board_id",
		ALPHA "/net/eth99",
		"",
		"/",
	};

	for (size_t i = 0; i < sizeof(not_there) / sizeof(not_there[0]); i++) {
		struct vb_tree_node node;

		if (vb_tree_lookup(not_there[i], &node) != -ENOENT)
			fail_msg("%s is found", not_there[i]);
	}
}

struct tour {
	const char *dir;
	unsigned int files, links, dirs, chars;
};

static void visit_dir(struct tour *tour, const char *dir);

/* What is listed is found again, reads, and leads somewhere. */
static bool visit(const char *name, const struct vb_tree_node *node, void *arg)
{
	struct tour *tour = arg;
	char path[PATH_MAX], text[VB_TREE_TEXT_MAX];
	struct vb_tree_node again;
	struct vb_walk walk;
	struct stat st;
	int n;

	snprintf(path, sizeof(path), "%s/%s", tour->dir, name);
	assert_int_equal(vb_tree_lookup(path, &again), 0);
	assert_ptr_equal(again.row, node->row);
	assert_ptr_equal(again.dev, node->dev);
	vb_tree_stat(&again, path, &st);
	assert_true(st.st_ino && st.st_nlink);
	switch (node->kind) {
	case VB_TREE_FILE:
		tour->files++;
		n = vb_tree_read(node, path, text);
		if (n == -EINVAL && strstr(path, "gid_attrs"))
			break;
		assert_in_range(n, 1, VB_TREE_TEXT_MAX - 1);
		assert_int_equal(strlen(text), n);
		assert_int_equal(text[n - 1], '\n');
		assert_true(S_ISREG(st.st_mode));
		break;
	case VB_TREE_LINK:
		tour->links++;
		assert_true(vb_tree_read(node, path, text) > 0);
		assert_int_equal(vb_walk_follow(path, true, &walk), 0);
		assert_true(walk.ours || strstr(path, "/net/"));
		assert_true(S_ISLNK(st.st_mode));
		break;
	case VB_TREE_CHAR:
		tour->chars++;
		assert_true(S_ISCHR(st.st_mode));
		break;
	default:
		assert_true(S_ISDIR(st.st_mode));
		visit_dir(tour, path);
		break;
	}
	return true;
}

static void visit_dir(struct tour *tour, const char *dir)
{
	const char *outer = tour->dir;

	tour->dirs++;
	tour->dir = dir;
	vb_tree_list(dir, visit, tour);
	tour->dir = outer;
}

static void everything_listed_is_there(void **state)
{
	struct tour tour = {0};

	visit_dir(&tour, "/sys/class");
	visit_dir(&tour, "/sys/devices/virtual");
	visit_dir(&tour, "/dev");
	assert_int_equal(tour.chars, 3);
	assert_int_equal(tour.links, 4 + 2 * 5);
	assert_true(tour.files > 150);
}

static void files_say_what_the_kernel_says(void **state)
{
	char text[VB_TREE_TEXT_MAX];

	assert_string_equal(text_of("/sys/class/infiniband_verbs/abi_version", text), "6\n");
	assert_string_equal(text_of("/sys/class/misc/rdma_cm/abi_version", text), "4\n");
	assert_string_equal(text_of("/sys/class/misc/rdma_cm/dev", text), "10:124\n");
	assert_string_equal(text_of(ALPHA "/infiniband_verbs/uverbs0/dev", text), "231:192\n");
	assert_string_equal(text_of(ALPHA "/infiniband_verbs/uverbs0/ibdev", text), "alpha\n");
	assert_string_equal(text_of(ALPHA "/infiniband/alpha/node_type", text), "1: CA\n");
	assert_string_equal(text_of(PORT "/link_layer", text), "Ethernet\n");
	assert_string_equal(text_of(PORT "/lid", text), "0x0\n");
	assert_string_equal(text_of(PORT "/cap_mask", text), "0x04010000\n");
	assert_string_equal(text_of(PORT "/pkeys/0", text), "0xffff\n");
	assert_string_equal(text_of(PORT "/gids/7", text),
			    "0000:0000:0000:0000:0000:0000:0000:0000\n");
	assert_string_equal(text_of("/sys/class/infiniband/alpha", text),
			    "../../devices/virtual/verbena/alpha/infiniband/alpha");
}

static void empty_entries_refuse_to_be_read(void **state)
{
	char text[VB_TREE_TEXT_MAX];
	struct vb_tree_node node;

	assert_int_equal(vb_tree_lookup(PORT "/gid_attrs/types/7", &node), 0);
	assert_int_equal(vb_tree_read(&node, PORT "/gid_attrs/types/7", text), -EINVAL);
	assert_int_equal(vb_tree_lookup(PORT "/gid_attrs/ndevs/7", &node), 0);
	assert_int_equal(vb_tree_read(&node, PORT "/gid_attrs/ndevs/7", text), -EINVAL);
}

static void device_nodes_have_linux_numbers(void **state)
{
	struct vb_tree_node node;
	struct stat st;

	assert_int_equal(vb_tree_lookup("/dev/infiniband/uverbs1", &node), 0);
	vb_tree_stat(&node, "/dev/infiniband/uverbs1", &st);
	assert_int_equal(st.st_mode, S_IFCHR | 0666);
	assert_int_equal(major(st.st_rdev), 231);
	assert_int_equal(minor(st.st_rdev), 193);
	assert_int_equal(vb_tree_lookup("/dev/infiniband/rdma_cm", &node), 0);
	vb_tree_stat(&node, "/dev/infiniband/rdma_cm", &st);
	assert_int_equal(major(st.st_rdev), 10);
	assert_int_equal(minor(st.st_rdev), 124);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_devices_are_listed),
		cmocka_unit_test(stops_where_told),
		cmocka_unit_test(only_what_is_listed_is_found),
		cmocka_unit_test(everything_listed_is_there),
		cmocka_unit_test(files_say_what_the_kernel_says),
		cmocka_unit_test(empty_entries_refuse_to_be_read),
		cmocka_unit_test(device_nodes_have_linux_numbers),
	};

	return cmocka_run_group_tests(tests, two_devices, NULL);
}
