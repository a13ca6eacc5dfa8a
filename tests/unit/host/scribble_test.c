/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Random bytes all over both parts of a peer's segment, while every accessor is
 * called: nothing crashes, nothing hangs, nothing outside is touched.
 */

#include "unit/host/owner.h"

#define ROUNDS 1000

static const char *runtime;

struct target {
	uint64_t *word;
	uint64_t *kept; /* what stood there at first */
	size_t words;
};

static bool map_target(struct target *t, uint32_t pid, uint32_t fd_number)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd_number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return false;
	t->words = (size_t)st.st_size / 8;
	t->word = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	t->kept = malloc((size_t)st.st_size);
	if (t->word == MAP_FAILED || !t->kept)
		return false;
	memcpy(t->kept, t->word, (size_t)st.st_size);
	return true;
}

/* One in four rounds spares what comes first, so that the tables behind are reached;
 * garbage is sometimes small, so that it passes for a place. */
static void scribble_over(struct target *t, unsigned int round, size_t spare, unsigned int *seed)
{
	for (size_t w = 0; w < t->words; w++) {
		uint64_t garbage = (uint64_t)rand_r(seed) << 33 ^ (uint64_t)rand_r(seed) << 11 ^
				   (uint64_t)rand_r(seed);

		if (round % 4 && w < spare)
			garbage = t->kept[w];
		else if (round % 3 == 1)
			garbage %= t->words * 8 * 2;
		else if (round % 3 == 2)
			garbage = garbage % (t->words * 8) / 8 * 8;
		__atomic_store_n(&t->word[w], garbage, __ATOMIC_RELAXED);
	}
}

/* Writes ROUNDS times over both parts of the process it is told, then says so. */
static int role_scribbler(void)
{
	struct target pub, mbx;
	unsigned int seed = 1;
	uint32_t told[3]; /* pid, descriptor numbers */

	if (read(0, told, sizeof(told)) != sizeof(told) || !map_target(&pub, told[0], told[1]) ||
	    !map_target(&mbx, told[0], told[2]))
		return 1;
	say("s", 1);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		scribble_over(&pub, round, offsetof(struct vb_pub_header, qp_chunk) / 8, &seed);
		scribble_over(&mbx, round, 0, &seed);
	}
	free(pub.kept);
	free(mbx.kept);
	say("d", 1);
	listen_for_command();
	return 0;
}

const struct role roles[] = {
	{"owner", role_owner},
	{"scribbler", role_scribbler},
	{NULL, NULL},
};

/* Reads all of a row, as a caller may, whatever it holds. */
static uint64_t sum_up(const void *row, size_t bytes)
{
	const volatile uint64_t *word = row;
	uint64_t sum = 0;

	for (size_t i = 0; row && i < bytes / 8; i++)
		sum += word[i];
	return sum;
}

static uint64_t look_at_rows(struct vb_peer *p, uint32_t number, uint32_t index)
{
	const struct vb_pub_qp *qp = vb_peer_pub_qp(p, number);
	uint64_t sum = sum_up(qp, sizeof(*qp));

	if (qp) {
		uint64_t bytes = qp->rq_size;

		sum += sum_up(vb_peer_pub_at(p, qp->rq_wqes, bytes), bytes);
		sum += sum_up(vb_peer_mbx_at(p, qp->rq_arrivals, 64), 64);
	}
	sum += sum_up(vb_peer_mbx_qp(p, number), sizeof(struct vb_mbx_qp));
	sum += sum_up(vb_peer_pub_key(p, number), sizeof(struct vb_pub_key));
	sum += sum_up(vb_peer_pub_cq(p, index), sizeof(struct vb_pub_cq));
	return sum + sum_up(vb_peer_mbx_cq(p, index), sizeof(struct vb_mbx_cq));
}

static void use_everything(struct vb_adapter *a, struct vb_peer *p, const struct owner_info *info,
			   uint32_t round)
{
	static uint8_t data[600 << 10];
	struct iovec local = {data, sizeof(data)};
	struct vb_key_facts key;
	uint64_t old;
	int ticket;

	for (uint32_t i = 0; i < 16; i++)
		look_at_rows(p, info->qpn + i * 256, info->cq + i * 256);
	look_at_rows(p, round * 7919 & 0xffffff, round * 104729 % VB_INDEXES);
	vb_peer_dead(p);
	vb_peer_check(p);
	vb_peer_ring(p);
	vb_peer_event_write(p, p->pub->doorbell_fd, "garbage", 8);
	ticket = vb_access_begin(a, p, info->qpn, info->key[0] << 8);
	for (int k = 0; k < OWNER_KEYS; k++) {
		if (vb_memory_key(p, info->key[k], &key))
			continue;
		/* Only what cannot hurt the test's owner: reading, and within its own key. */
		vb_memory_copy_out(p, &key, key.addr, &local, 1,
				   key.length < sizeof(data) ? key.length : sizeof(data));
		vb_memory_step(p, &key, NULL);
	}
	memset(&key, 0, sizeof(key));
	key.addr = info->addr[KEY_PRIVATE];
	key.length = OWNER_BYTES;
	vb_memory_atomic(p, &key, key.addr, VB_MEM_FETCH_ADD, 1, 0, &old);
	vb_access_end(a, ticket);
}

static struct other scribble(pid_t pid, int pub_fd, int mbx_fd)
{
	struct other other = other_start("scribbler", NULL);
	uint32_t told[3] = {(uint32_t)pid, (uint32_t)pub_fd, (uint32_t)mbx_fd};
	char ready;

	other_tell(&other, told, sizeof(told));
	assert_true(other_hear(&other, &ready, 1));
	return other;
}

static bool is_done(const struct other *scribbler)
{
	char done;

	return recv(scribbler->fd, &done, 1, MSG_DONTWAIT) == 1;
}

static void a_peer_full_of_garbage(void **state)
{
	struct vb_adapter *a;
	struct owner_info info;
	struct other owner = owner_start(&info), scribbler;
	struct vb_peer *p;

	assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
	assert_int_equal(vb_peer_get(a, info.qpn >> VB_BLOCK_BITS, &p), 0);
	kill(owner.pid, SIGSTOP); /* its rings and pipes are the test's to lose */
	scribbler = scribble(info.pid, p->pub_fd, p->mbx_fd);
	for (uint32_t round = 0; !is_done(&scribbler); round++)
		use_everything(a, p, &info, round);
	vb_peer_put(p);
	vb_adapter_close(a);
	/* Opened anew: headers are garbage too, the last round's. */
	for (int round = 0; round < 100; round++) {
		int err;

		assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
		err = vb_peer_get_slot(a, info.slot, &p);
		assert_true(!err || err == -EPROTO || err == -ESRCH || err == -EAGAIN);
		if (!err)
			vb_peer_put(p);
		vb_adapter_close(a);
	}
	assert_int_equal(other_end(&scribbler, 0), 0);
	other_end(&owner, SIGKILL);
	assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
	vb_adapter_close(a);
	assert_int_equal(count_files(runtime), 0);
}

/* The owner itself goes on when its own segment is scribbled over. */
static void an_owner_full_of_garbage(void **state)
{
	struct other scribbler;
	struct vb_adapter *a;
	uint32_t index, number;
	uint64_t place;

	assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
	assert_non_null(vb_adapter_pub_qp(a, 3));
	assert_non_null(vb_adapter_mbx_cq(a, 300));
	scribbler = scribble(getpid(), a->pub_part.fd, a->mbx_part.fd);
	for (int round = 0; !is_done(&scribbler); round++) {
		assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number), 0);
		assert_non_null(vb_adapter_pub_qp(a, index));
		assert_non_null(vb_adapter_mbx_qp(a, index));
		assert_non_null(vb_adapter_pub_key(a, index));
		assert_int_equal(vb_adapter_number(a, index), number);
		place = vb_adapter_alloc_mbx(a, 1000, 64);
		assert_true(place);
		vb_adapter_free_mbx(a, place, 1000, 64);
		vb_adapter_ring(a);
		vb_adapter_drain_doorbell(a, true);
		vb_access_end(a, vb_access_begin(a, a->self, number, 5));
		vb_adapter_free_index(a, VB_NUMBER_QP, index);
		look_at_rows(a->self, number, index);
		if (round % 100 == 0)
			vb_access_wait(a, number, 5, 1000000);
	}
	assert_int_equal(other_end(&scribbler, 0), 0);
	vb_adapter_close(a);
	assert_int_equal(count_files(runtime), 0);
}

/* A process that cannot be trusted in its slot: descriptor numbers of anything. */
static void a_slot_full_of_garbage(void **state)
{
	struct vb_registry_entry entry;
	struct vb_adapter *a;
	struct owner_info info;
	struct other owner = owner_start(&info);
	struct vb_registry fake;
	unsigned int seed = 1;
	struct vb_peer *p;

	assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
	fake = a->registry;
	fake.slot = info.slot;
	for (int round = 0; round < 2000; round++) {
		memset(&entry, rand_r(&seed), sizeof(entry));
		entry.pid = round % 2 ? info.pid : rand_r(&seed) % 300;
		entry.pub_fd = rand_r(&seed) % 20 - 1;
		entry.mbx_fd = rand_r(&seed) % 20 - 1;
		vb_registry_publish(&fake, &entry);
		assert_true(vb_peer_get_slot(a, info.slot, &p) < 0);
	}
	/* A slot whose writer died in the middle. */
	atomic_store(&fake.file->slot[fake.slot].turn, 7);
	assert_int_equal(vb_peer_get_slot(a, info.slot, &p), -EAGAIN);
	for (uint32_t b = 0; b < VB_BLOCKS; b++)
		atomic_store(&fake.file->block[b], (uint64_t)rand_r(&seed) << 32 | rand_r(&seed));
	for (uint32_t b = 0; b < VB_BLOCKS; b++)
		assert_true(vb_peer_get(a, b, &p) < 0);
	vb_adapter_close(a);
	other_end(&owner, SIGKILL);
	assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
	vb_adapter_close(a);
	assert_int_equal(count_files(runtime), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_full_of_garbage),
		cmocka_unit_test(an_owner_full_of_garbage),
		cmocka_unit_test(a_slot_full_of_garbage),
	};
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}
