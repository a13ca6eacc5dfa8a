/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/registry.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#include "host/adapter.h"
#include "unit/host/other.h"

#define DEVICE "registrytest0"

static const char *runtime;

static void *my_line(struct vb_registry *reg)
{
	return reg->file->slot[reg->slot].counters;
}

/* Opens and closes, each time sure to be alone in its slot. */
static int role_storm(void)
{
	struct vb_registry_entry mine = {.pid = getpid(), .pub_fd = 1, .mbx_fd = 2}, read;
	static struct vb_registry reg;
	pid_t pid;

	for (int round = 0; round < 150; round++) {
		if (vb_registry_open(&reg, DEVICE))
			return 1;
		memset(mine.id, round + 1, sizeof(mine.id));
		memcpy(mine.id, &mine.pid, sizeof(mine.pid));
		vb_registry_publish(&reg, &mine);
		if (round % 4 == 0)
			sched_yield();
		if (vb_registry_read(&reg, reg.slot, &read) || memcmp(&read, &mine, sizeof(read)))
			return 2;
		if (!vb_registry_locked(&reg, reg.slot, &pid) || pid != getpid())
			return 3;
		vb_registry_close(&reg);
	}
	return 0;
}

struct entered {
	int err;
	uint32_t slot;
	char dir[256];
};

static int role_enter(void)
{
	static struct vb_registry reg;
	struct entered told = {0};
	uint64_t add;

	told.err = vb_registry_open(&reg, DEVICE);
	told.slot = reg.slot;
	memcpy(told.dir, reg.dir, sizeof(told.dir));
	say(&told, sizeof(told));
	while (read(0, &add, sizeof(add)) == sizeof(add)) {
		*(_Atomic uint64_t *)my_line(&reg) += add;
		say("a", 1);
	}
	if (!told.err)
		vb_registry_close(&reg);
	return 0;
}

/* The runtime directory is a file system with no room. */
static int role_full(void)
{
	char dir[] = "/tmp/verbena-full-XXXXXX", inner[64];
	struct entered told = {0};

	if (!mkdtemp(dir) || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", getenv("VERBENA_RUNTIME_DIR"), "tmpfs", 0, "size=64k,mode=0700")) {
		rmdir(dir);
		told.err = -ENOSYS;
		say(&told, sizeof(told));
		return 0;
	}
	rmdir(dir);
	snprintf(inner, sizeof(inner), "%s", getenv("VERBENA_RUNTIME_DIR"));
	role_enter();
	return count_files(inner) != 0;
}

const struct role roles[] = {
	{"storm", role_storm},
	{"enter", role_enter},
	{"full", role_full},
	{NULL, NULL},
};

static struct other enter(const char *role, const char *setting, struct entered *told)
{
	const char *env[] = {setting, NULL};
	struct other other = other_start(role, env);

	assert_true(other_hear(&other, told, sizeof(*told)));
	return other;
}

static void add(struct other *other, uint64_t n)
{
	char answer;

	other_tell(other, &n, sizeof(n));
	assert_true(other_hear(other, &answer, 1));
}

static void slots_are_counted_up_and_used_again(void **state)
{
	struct entered one, two, three;
	struct other a = enter("enter", NULL, &one), b = enter("enter", NULL, &two), c;

	assert_int_equal(one.err, 0);
	assert_string_equal(one.dir, runtime);
	assert_int_equal(one.slot, 0);
	assert_int_equal(two.slot, 1);
	other_end(&a, SIGKILL);
	c = enter("enter", NULL, &three);
	assert_int_equal(three.slot, 0);
	other_end(&b, 0);
	assert_int_equal(count_files(runtime), 2);
	other_end(&c, 0);
	assert_int_equal(count_files(runtime), 0);
}

static void many_come_and_go(void **state)
{
	struct other others[6];

	for (int i = 0; i < 6; i++)
		others[i] = other_start("storm", NULL);
	for (int i = 0; i < 6; i++)
		assert_int_equal(other_end(&others[i], 0), 0);
	assert_int_equal(count_files(runtime), 0);
}

static void many_come_and_are_killed(void **state)
{
	struct vb_adapter *a;
	struct other others[4];

	for (int round = 0; round < 15; round++) {
		for (int i = 0; i < 4; i++)
			others[i] = other_start("storm", NULL);
		usleep((useconds_t)(round * 300)); /* where they are does not matter */
		for (int i = 0; i < 4; i++)
			other_end(&others[i], SIGKILL);
	}
	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	assert_null(a->alone_reason);
	assert_int_equal(a->slot, 0);
	vb_adapter_close(a);
	assert_int_equal(count_files(runtime), 0);
}

static void counters_outlive_processes(void **state)
{
	uint64_t sum[VB_COUNTERS];
	struct entered told;
	struct other a, b;

	assert_int_equal(vb_registry_sum_counters(DEVICE, sum), -ENOENT);
	assert_int_equal(sum[0], 0);
	a = enter("enter", NULL, &told);
	b = enter("enter", NULL, &told);
	add(&a, 3);
	add(&b, 4);
	assert_int_equal(vb_registry_sum_counters(DEVICE, sum), 0);
	assert_int_equal(sum[0], 7);
	assert_int_equal(sum[1], 0);
	other_end(&a, SIGKILL);
	a = enter("enter", NULL, &told);
	assert_int_equal(told.slot, 0); /* the dead one's */
	add(&a, 5);
	assert_int_equal(vb_registry_sum_counters(DEVICE, sum), 0);
	assert_int_equal(sum[0], 12);
	other_end(&a, 0);
	other_end(&b, 0);
	assert_int_equal(vb_registry_sum_counters(DEVICE, sum), -ENOENT);
}

/* Whoever reads counters in a process that has the adapter open does not unlock it. */
static void reading_counters_loses_no_lock(void **state)
{
	uint64_t sum[VB_COUNTERS];
	struct vb_adapter *a, *b;
	struct entered told;
	struct other other;

	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	assert_int_equal(vb_registry_sum_counters(DEVICE, sum), 0);
	/* Nor does opening another device, which sweeps. */
	assert_int_equal(vb_adapter_open(DEVICE "x", &b), 0);
	vb_adapter_close(b);
	other = enter("enter", NULL, &told);
	assert_int_equal(told.slot, 1);
	other_end(&other, 0);
	vb_adapter_close(a);
}

static void make_file(const char *name)
{
	char path[400];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", runtime, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void leftovers_are_swept_and_nothing_else(void **state)
{
	char path[400], boot[9] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	struct vb_adapter *a;

	if (read(fd, boot, 8) != 8)
		memcpy(boot, "00000000", 8);
	close(fd);
	make_file("00c0ffee-3-other0-12345678.lock");
	make_file("00c0ffee-3-other0-12345678.slots");
	make_file("00c0ffee-3-orphan0-12345678.slots");
	snprintf(path, sizeof(path), "%s-77-crashed0-12345678.lock", boot);
	make_file(path);
	snprintf(path, sizeof(path), "%s-77-crashed0-12345678.slots", boot);
	make_file(path);
	make_file("somebody's.lock");
	make_file("notes.txt");
	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	assert_int_equal(count_files(runtime), 4);
	vb_adapter_close(a);
	assert_int_equal(count_files(runtime), 2);
	snprintf(path, sizeof(path), "%s/somebody's.lock", runtime);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/notes.txt", runtime);
	assert_int_equal(unlink(path), 0);
}

static void a_full_directory_is_passed_over(void **state)
{
	char xdg[] = "/tmp/verbena-xdg-XXXXXX";
	struct entered told;
	struct other other;
	char setting[300];

	assert_non_null(mkdtemp(xdg));
	snprintf(setting, sizeof(setting), "XDG_RUNTIME_DIR=%s", xdg);
	other = enter("full", setting, &told);
	if (told.err == -ENOSYS) {
		other_end(&other, 0);
		rmdir(xdg);
		skip();
	}
	assert_int_equal(told.err, 0);
	assert_memory_equal(told.dir, xdg, strlen(xdg));
	assert_int_equal(other_end(&other, 0), 0); /* and left nothing in the full one */
	assert_int_equal(rmdir(xdg), 0);	   /* nor in the other */
}

static void unusable_directories_are_passed_over(void **state)
{
	char dir[64], link[80], setting[160];
	struct entered told;
	struct other other;

	snprintf(dir, sizeof(dir), "%s/wide", runtime);
	snprintf(link, sizeof(link), "%s/link", runtime);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(symlink(dir, link), 0);
	snprintf(setting, sizeof(setting), "VERBENA_RUNTIME_DIR=%s", link);
	other = enter("enter", setting, &told);
	assert_int_equal(told.err, 0);
	assert_string_not_equal(told.dir, link);
	other_end(&other, 0);
	assert_int_equal(chmod(dir, 0777), 0);
	snprintf(setting, sizeof(setting), "VERBENA_RUNTIME_DIR=%s", dir);
	other = enter("enter", setting, &told);
	assert_int_equal(told.err, 0);
	assert_string_not_equal(told.dir, dir);
	other_end(&other, 0);
	assert_int_equal(chmod(dir, 0700), 0);
	other = enter("enter", setting, &told);
	assert_string_equal(told.dir, dir);
	other_end(&other, 0);
	unlink(link);
	rmdir(dir);
}

static void all_slots_taken_is_said(void **state)
{
	static struct vb_registry reg;
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = VB_SLOTS - 1};
	struct entered told;
	struct other other;
	int err;

	/* This process is slot 0, then all but the last; somebody else is the last. */
	assert_int_equal(vb_registry_open(&reg, DEVICE), 0);
	assert_int_equal(fcntl(reg.lock_fd, F_SETLK, &lock), 0);
	other = enter("enter", NULL, &told);
	assert_int_equal(told.err, 0);
	assert_int_equal(told.slot, VB_SLOTS - 1);
	{
		struct entered late;
		struct other third = enter("enter", "XDG_RUNTIME_DIR=/nowhere", &late);

		/* It goes on to the next directory rather than fail. */
		err = late.err;
		other_end(&third, 0);
		assert_true(err == -ENOSPC || strcmp(late.dir, runtime));
	}
	other_end(&other, 0);
	lock.l_type = F_UNLCK;
	lock.l_start = 1;
	fcntl(reg.lock_fd, F_SETLK, &lock);
	vb_registry_close(&reg);
	assert_int_equal(count_files(runtime), 0);
}

static void names_tell_the_block(void **state)
{
	struct sockaddr_un address;
	socklen_t len = vb_block_address(77, &address);

	assert_int_equal(vb_block_of_address(&address, len), 0);
	strcpy(address.sun_path + len - offsetof(struct sockaddr_un, sun_path), "/x/12");
	assert_int_equal(vb_block_of_address(&address, len + 5), 77);
	assert_int_equal(vb_block_of_address(&address, len + 1), 77);
	assert_int_equal(vb_block_of_address(&address, sizeof(address.sun_family)), 0);
	address.sun_path[1] = 'V';
	assert_int_equal(vb_block_of_address(&address, len + 5), 0);
	len = vb_block_address(VB_BLOCKS, &address);
	strcpy(address.sun_path + len - offsetof(struct sockaddr_un, sun_path), "/");
	assert_int_equal(vb_block_of_address(&address, len + 1), 0);
}

static void a_blocks_address(void **state)
{
	struct sockaddr_un address;
	socklen_t len = vb_block_address(77, &address);

	assert_int_equal(address.sun_family, AF_UNIX);
	assert_int_equal(address.sun_path[0], 0);
	assert_string_equal(address.sun_path + 1, "verbena/block/77");
	assert_int_equal(len,
			 offsetof(struct sockaddr_un, sun_path) + 1 + strlen("verbena/block/77"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_counted_up_and_used_again),
		cmocka_unit_test(many_come_and_go),
		cmocka_unit_test(many_come_and_are_killed),
		cmocka_unit_test(counters_outlive_processes),
		cmocka_unit_test(reading_counters_loses_no_lock),
		cmocka_unit_test(leftovers_are_swept_and_nothing_else),
		cmocka_unit_test(a_full_directory_is_passed_over),
		cmocka_unit_test(unusable_directories_are_passed_over),
		cmocka_unit_test(all_slots_taken_is_said),
		cmocka_unit_test(a_blocks_address),
		cmocka_unit_test(names_tell_the_block),
	};
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}
