/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers the peer writes into. */
#include "conform/rsocket/bed.h"

static void mapped(int ends[2], int places)
{
	int at = listener(2);

	ends[0] = stream();
	assert_int_equal(rsetsockopt(ends[0], SOL_RDMA, RDMA_IOMAPSIZE, &places, 4), 0);
	assert_int_equal(rsetsockopt(at, SOL_RDMA, RDMA_IOMAPSIZE, &places, 4), 0);
	assert_int_equal(connect_to(ends[0], port_of(at)), 0);
	ends[1] = raccept(at, NULL, NULL);
	assert_true(ends[1] >= 0);
	rclose(at);
}

static void write_at_offsets(void **state)
{
	static uint8_t near[300000], far[5000], out[300000];
	int ends[2];
	char c;

	mapped(ends, 4);
	assert_int_equal(riomap(ends[1], near, sizeof(near), PROT_WRITE, 0, 0), 0);
	assert_int_equal(riomap(ends[1], far, sizeof(far), PROT_WRITE, 0, 1 << 20), 1 << 20);
	/* The peer may write once it received something sent after that. */
	assert_int_equal(rsend(ends[1], "g", 1, 0), 1);
	assert_int_equal(rrecv(ends[0], &c, 1, 0), 1);

	fill(out, 0, sizeof(out));
	assert_int_equal(riowrite(ends[0], out, sizeof(out), 0, 0), sizeof(out));
	assert_int_equal(riowrite(ends[0], out + 7, 1000, (1 << 20) + 7, 0), 1000);
	assert_int_equal(riowrite(ends[0], out + 3, 3, (1 << 20) + 3, 0), 3);
	/* A message sent after the writes comes after them. */
	assert_int_equal(rsend(ends[0], "d", 1, 0), 1);
	assert_int_equal(rrecv(ends[1], &c, 1, 0), 1);
	assert_true(right(near, 0, sizeof(near)));
	assert_true(right(far + 7, 7, 1000));
	assert_true(right(far + 3, 3, 3));
	assert_int_equal(far[0], 0);
	/* As far as the mapping goes; nothing where there is none. */
	assert_int_equal(riowrite(ends[0], out, sizeof(out), (1 << 20) + 4000, 0), 1000);
	assert_int_equal(riowrite(ends[0], out, 10, 1 << 25, 0), 0);
	assert_int_equal(riounmap(ends[1], near, sizeof(near)), 0);
	assert_int_equal(riounmap(ends[1], far, sizeof(far)), 0);
	close_both(ends);
}

static void places_are_used_again(void **state)
{
	static uint8_t a[100], b[100], c[100];
	int ends[2];
	char sign;

	mapped(ends, 2);
	assert_int_equal(riomap(ends[1], a, 100, PROT_WRITE, 0, 1000), 1000);
	assert_int_equal(riomap(ends[1], b, 100, PROT_WRITE, 0, -1), (uintptr_t)b);
	assert_int_equal(riomap(ends[1], c, 100, PROT_WRITE, 0, 2000), -1);
	assert_int_equal(errno, ENOMEM);
	/* For this side only: takes no place of the peer's. */
	assert_int_equal(riomap(ends[1], c, 100, PROT_NONE, 0, 0), 0);
	assert_int_equal(riounmap(ends[1], c, 100), 0);
	assert_int_equal(riounmap(ends[1], a, 100), 0);
	assert_int_equal(riomap(ends[1], c, 100, PROT_WRITE, 0, 2000), 2000);
	rsend(ends[1], "g", 1, 0);
	assert_int_equal(rrecv(ends[0], &sign, 1, 0), 1);
	assert_int_equal(riowrite(ends[0], "new", 3, 2000, 0), 3);
	assert_int_equal(riowrite(ends[0], "b", 1, (off_t)(uintptr_t)b, 0), 1);
	rsend(ends[0], "d", 1, 0);
	assert_int_equal(rrecv(ends[1], &sign, 1, 0), 1);
	assert_memory_equal(c, "new", 3);
	assert_int_equal(b[0], 'b');
	close_both(ends);
}

/* A write through a mapping that was taken back: no memory is harmed, the connection ends. */
static void taken_back(void **state)
{
	static uint8_t a[100];
	int ends[2];
	char sign;

	mapped(ends, 1);
	assert_int_equal(riomap(ends[1], a, 100, PROT_WRITE, 0, 0), 0);
	rsend(ends[1], "g", 1, 0);
	assert_int_equal(rrecv(ends[0], &sign, 1, 0), 1);
	assert_int_equal(riounmap(ends[1], a, 100), 0);
	riowrite(ends[0], "bad", 3, 0, 0);
	assert_int_equal(wait_for(ends[0], POLLIN) & (POLLERR | POLLHUP), POLLERR | POLLHUP);
	assert_int_equal(rrecv(ends[0], &sign, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(a[0], 0);
	close_both(ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_at_offsets),
		cmocka_unit_test(places_are_used_again),
		cmocka_unit_test(taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
