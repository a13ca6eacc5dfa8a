/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/numbers.h"

#include <errno.h>
#include <sys/socket.h>

#include "unit/host/other.h"

#define DEVICE "numberstest0"

static const char *runtime;
static struct vb_adapter *a;
static uint8_t seen[1u << 24];

/* Takes a number of each block it can get, then says how many. */
static int role_taker(void)
{
	struct vb_adapter *mine;
	uint32_t index, number, n = 0;

	if (vb_adapter_open(DEVICE, &mine))
		return 1;
	while (!vb_adapter_new_index(mine, VB_NUMBER_QP, &index, &number))
		n++;
	say(&n, sizeof(n));
	say(mine->block, sizeof(mine->block));
	listen_for_command();
	vb_adapter_close(mine);
	return 0;
}

const struct role roles[] = {
	{"taker", role_taker},
	{NULL, NULL},
};

static int open_adapter(void **state)
{
	memset(seen, 0, sizeof(seen));
	return vb_adapter_open(DEVICE, &a);
}

static int close_adapter(void **state)
{
	vb_adapter_close(a);
	return count_files(runtime);
}

static void every_number_is_another(void **state)
{
	uint32_t index, number, back;
	unsigned int n = 0;
	int err;

	while (!(err = vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number))) {
		assert_true(number > 1 && number < 0xffffff);
		assert_true(index < VB_INDEXES);
		assert_false(seen[number]);
		seen[number] = 1;
		assert_int_equal(vb_adapter_number(a, index), number);
		assert_true(vb_adapter_index(a, number, &back));
		assert_int_equal(back, index);
		n++;
	}
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(n, VB_INDEXES);
	assert_int_equal(a->n_blocks, VB_OWN_BLOCKS);
	/* Kinds count for themselves; one back, one out. */
	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_KEY, &index, &number), 0);
	vb_adapter_free_index(a, VB_NUMBER_QP, 4711);
	vb_adapter_free_index(a, VB_NUMBER_QP, 4711); /* once more does nothing */
	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number), 0);
	assert_int_equal(index, 4711);
	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number), -ENOSPC);
	vb_adapter_free_index(a, VB_NUMBER_QP, VB_INDEXES);
	vb_adapter_free_index(a, VB_NUMBER_SRQ, 5);
}

static void a_number_given_back_comes_last(void **state)
{
	uint32_t index, number, first;

	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_PD, &index, &first), 0);
	vb_adapter_free_index(a, VB_NUMBER_PD, index);
	for (unsigned int i = 1; i < VB_BLOCK_IDS; i++) {
		assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_PD, &index, &number), 0);
		assert_int_not_equal(number, first);
		vb_adapter_free_index(a, VB_NUMBER_PD, index);
	}
	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_PD, &index, &number), 0);
	assert_int_equal(number, first);
	assert_int_equal(a->n_blocks, 1);
}

static void numbers_of_others_have_no_index(void **state)
{
	uint32_t index, number, block[VB_OWN_BLOCKS], n;
	struct other other = other_start("taker", NULL);

	assert_true(other_hear(&other, &n, sizeof(n)));
	assert_int_equal(n, VB_INDEXES);
	assert_true(other_hear(&other, block, sizeof(block)));
	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number), 0);
	for (unsigned int i = 0; i < VB_OWN_BLOCKS; i++) {
		assert_true(block[i] > 0 && block[i] < VB_BLOCKS - 1);
		assert_int_not_equal(block[i], number >> VB_BLOCK_BITS);
		assert_false(vb_adapter_index(a, block[i] << VB_BLOCK_BITS, &index));
	}
	assert_false(vb_adapter_index(a, 0, &index));
	other_end(&other, SIGKILL);
}

/* What is sent to a block's name arrives at the process that has the block. */
static void a_block_is_a_socket(void **state)
{
	struct sockaddr_un to;
	uint32_t index, number;
	socklen_t len;
	char got[8];
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(vb_adapter_block_socket(a, 0), -1);
	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number), 0);
	len = vb_block_address(number >> VB_BLOCK_BITS, &to);
	assert_int_equal(sendto(fd, "packet", 7, 0, (struct sockaddr *)&to, len), 7);
	assert_int_equal(recv(vb_adapter_block_socket(a, 0), got, sizeof(got), 0), 7);
	assert_string_equal(got, "packet");
	assert_int_equal(recv(vb_adapter_block_socket(a, 0), got, sizeof(got), 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, len), -1);
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_adapter, close_adapter)
		TEST(every_number_is_another),
		TEST(a_number_given_back_comes_last),
		TEST(numbers_of_others_have_no_index),
		TEST(a_block_is_a_socket),
	};
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}
