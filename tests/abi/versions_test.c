/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library as programs find it that open it themselves: by both file names, each
 * function at the version they name (NCCL's list), and the 2006 versions beside them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "abi/said.h"

static void *open_library(const char *name)
{
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fail_msg("%s", dlerror());
	return handle;
}

static void assert_versions(void *handle, const char *const *names, const char *version)
{
	for (; *names; names++)
		if (!dlvsym(handle, *names, version))
			fail_msg("%s@%s: %s", *names, version, dlerror());
}

static const char *const at_1_1[] = {
	"ibv_get_device_list",
	"ibv_free_device_list",
	"ibv_get_device_name",
	"ibv_open_device",
	"ibv_close_device",
	"ibv_get_async_event",
	"ibv_ack_async_event",
	"ibv_query_device",
	"ibv_query_port",
	"ibv_query_gid",
	"ibv_query_qp",
	"ibv_alloc_pd",
	"ibv_dealloc_pd",
	"ibv_reg_mr",
	"ibv_dereg_mr",
	"ibv_create_cq",
	"ibv_destroy_cq",
	"ibv_create_qp",
	"ibv_modify_qp",
	"ibv_destroy_qp",
	"ibv_fork_init",
	"ibv_event_type_str",
	NULL,
};
static const char *const at_1_8[] = {"ibv_reg_mr_iova2", NULL};
static const char *const at_1_10[] = {"ibv_query_ece", "ibv_set_ece", NULL};
static const char *const at_1_12[] = {"ibv_reg_dmabuf_mr", NULL};
static const char *const at_1_16[] = {"ibv_query_port_speed", NULL};

static void nccl_finds_its_versions(void **state)
{
	static const char *const files[] = {"libibverbs.so", "libibverbs.so.1"};

	for (size_t i = 0; i < 2; i++) {
		void *handle = open_library(files[i]);

		assert_versions(handle, at_1_1, "IBVERBS_1.1");
		assert_versions(handle, at_1_8, "IBVERBS_1.8");
		assert_versions(handle, at_1_10, "IBVERBS_1.10");
		assert_versions(handle, at_1_12, "IBVERBS_1.12");
		assert_versions(handle, at_1_16, "IBVERBS_1.16");
		dlclose(handle);
	}
}

static void mlx5_finds_its_versions(void **state)
{
	void *handle = open_library("libmlx5.so");
	bool (*is_supported)(void *) = dlvsym(handle, "mlx5dv_is_supported", "MLX5_1.8");
	int (*init_old)(void *, uint64_t) = dlvsym(handle, "mlx5dv_init_obj", "MLX5_1.0");
	int (*init_new)(void *, uint64_t) = dlvsym(handle, "mlx5dv_init_obj", "MLX5_1.2");
	int (*query)(void *, void *) = dlvsym(handle, "mlx5dv_query_device", "MLX5_1.0");
	void *(*create_qp)(void *, void *) = dlvsym(handle, "mlx5dv_create_qp", "MLX5_1.3");
	void *(*reg)(void *) = dlvsym(handle, "mlx5dv_reg_dmabuf_mr", "MLX5_1.25");
	char device[1024] = "";

	assert_non_null(is_supported);
	assert_false(is_supported(device));
	assert_non_null(init_old);
	assert_non_null(init_new);
	assert_int_equal(init_old(device, 1), EOPNOTSUPP);
	assert_int_equal(init_new(device, 1), EOPNOTSUPP);
	assert_int_equal(init_new(device, 0), EINVAL);
	assert_int_equal(query(device, device), EOPNOTSUPP);
	errno = 0;
	assert_null(create_qp(device, device));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_non_null(reg);
	dlclose(handle);
}

static void the_other_vendors_say_no(void **state)
{
	void *efa = open_library("libefa.so");
	void *mlx4 = open_library("libmlx4.so");
	void *mana = open_library("libmana.so");
	int (*query_device)(void *, void *, uint32_t) = dlsym(efa, "efadv_query_device");
	int (*max_depth)(void *, void *) = dlsym(efa, "efadv_get_max_sq_depth");
	void *(*create_qp)(void *, void *, void *, uint32_t) = dlsym(efa, "efadv_create_qp_ex");
	int (*mlx4_init)(void *, uint64_t) = dlsym(mlx4, "mlx4dv_init_obj");
	int (*mana_init)(void *, uint64_t) = dlsym(mana, "manadv_init_obj");
	char object[1024] = "";

	assert_int_equal(query_device(object, object, 64), EOPNOTSUPP);
	assert_int_equal(max_depth(object, object), -EOPNOTSUPP);
	errno = 0;
	assert_null(create_qp(object, object, object, 8));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(mlx4_init(object, 1), EOPNOTSUPP);
	assert_int_equal(mana_init(object, 1), EOPNOTSUPP);
	dlclose(mana);
	dlclose(mlx4);
	dlclose(efa);
}

static void umad_lists_no_adapter(void **state)
{
	void *handle = open_library("libibumad.so");
	int (*get_names)(char(*)[20], int) = dlsym(handle, "umad_get_cas_names");
	int (*open_port)(const char *, int) = dlsym(handle, "umad_open_port");
	size_t (*size)(void) = dlsym(handle, "umad_size");
	void *(*get_mad)(void *) = dlsym(handle, "umad_get_mad");
	int (*set_addr)(void *, int, int, int, int) = dlsym(handle, "umad_set_addr");
	int (*set_pkey)(void *, int) = dlsym(handle, "umad_set_pkey");
	int (*get_pkey)(void *) = dlsym(handle, "umad_get_pkey");
	char names[32][20];
	uint8_t mad[64 + 256] = {0};
	static const uint8_t qkey[4] = {0x80, 0x01, 0x00, 0x00};

	assert_int_equal(get_names(names, 32), 0);
	assert_int_equal(open_port(NULL, 0), -ENODEV);
	assert_int_equal(size(), 64);
	assert_ptr_equal(get_mad(mad), mad + 64);
	assert_int_equal(set_addr(mad, 0x1234, 1, 3, (int)0x80010000u), 0);
	assert_memory_equal(mad + 24, qkey, 4); /* behind five words and the QP number */
	assert_int_equal(mad[20 + 3], 1);
	assert_int_equal(mad[28], 0x12);
	assert_int_equal(mad[30], 3);
	assert_int_equal(set_pkey(mad, 7), 0);
	assert_int_equal(get_pkey(mad), 7);
	dlclose(handle);
}

/* Every private node has the names that other distributions' providers and tools bind to. */
static void private_nodes_are_there(void **state)
{
	static const char *const numbers[] = {"34", "57", "59", "64", "65"};
	static const char *const names[] = {
		"ibv_query_gid_type", "ibv_cmd_create_qp_ex2",
		"ibv_wr_opcode_str",  "verbs_allow_disassociate_destroy",
		"verbs_set_ops",      NULL};
	void *handle = open_library("libibverbs.so.1");
	void *flag = dlvsym(handle, "verbs_allow_disassociate_destroy", "IBVERBS_PRIVATE_65");

	for (size_t i = 0; i < 5; i++) {
		char node[32] = "IBVERBS_PRIVATE_", name[64] = "verbs_register_driver_";
		void (*register_driver)(const void *);

		strcat(node, numbers[i]);
		strcat(name, numbers[i]);
		assert_versions(handle, names, node);
		register_driver = dlvsym(handle, name, node);
		assert_non_null(register_driver);
		register_driver(name); /* ignored */
		/* One object, whichever node it is seen through. */
		assert_ptr_equal(dlvsym(handle, "verbs_allow_disassociate_destroy", node), flag);
	}
	dlclose(handle);
}

static void kernel_commands_refuse(void **state)
{
	void *handle = open_library("libibverbs.so.1");
	int (*command)(void) = dlvsym(handle, "ibv_cmd_alloc_pd", "IBVERBS_PRIVATE_34");
	void *(*open)(void) = dlvsym(handle, "verbs_open_device", "IBVERBS_PRIVATE_65");

	errno = 0;
	assert_int_equal(command(), EOPNOTSUPP);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(open());
	assert_true(said("EOPNOTSUPP [not-supported]\n  what: ibv_cmd_alloc_pd"));
	dlclose(handle);
}

/* What is left of 2006 fails and is never the function of today. */
static void twins_of_2006_fail(void **state)
{
	static const char *const names[] = {
		"ibv_ack_async_event", "ibv_ack_cq_events",    "ibv_alloc_pd",
		"ibv_attach_mcast",    "ibv_close_device",     "ibv_create_ah",
		"ibv_create_cq",       "ibv_create_qp",	       "ibv_create_srq",
		"ibv_dealloc_pd",      "ibv_dereg_mr",	       "ibv_destroy_ah",
		"ibv_destroy_cq",      "ibv_destroy_qp",       "ibv_destroy_srq",
		"ibv_detach_mcast",    "ibv_free_device_list", "ibv_get_async_event",
		"ibv_get_cq_event",    "ibv_get_device_guid",  "ibv_get_device_list",
		"ibv_get_device_name", "ibv_modify_qp",	       "ibv_modify_srq",
		"ibv_open_device",     "ibv_query_device",     "ibv_query_gid",
		"ibv_query_pkey",      "ibv_query_port",       "ibv_query_qp",
		"ibv_query_srq",       "ibv_reg_mr",	       "ibv_resize_cq",
	};
	void *handle = open_library("libibverbs.so.1");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int (*old)(void *, void *, void *) = dlvsym(handle, names[i], "IBVERBS_1.0");
		void *now = dlvsym(handle, names[i], "IBVERBS_1.1");

		assert_non_null(old);
		assert_non_null(now);
		assert_ptr_not_equal((void *)old, now);
		errno = 0;
		old(NULL, NULL, NULL);
		assert_int_equal(errno, ENOSYS);
	}
	assert_true(said("ENOSYS [old-abi]\n  what: ibv_alloc_pd@IBVERBS_1.0"));
	assert_true(said("what: ibv_ack_cq_events@IBVERBS_1.0"));
	dlclose(handle);
}

static int setup(void **state)
{
	return said_start();
}

static int teardown(void **state)
{
	return said_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nccl_finds_its_versions),
		cmocka_unit_test(mlx5_finds_its_versions),
		cmocka_unit_test(the_other_vendors_say_no),
		cmocka_unit_test(umad_lists_no_adapter),
		cmocka_unit_test(private_nodes_are_there),
		cmocka_unit_test(kernel_commands_refuse),
		cmocka_unit_test(twins_of_2006_fail),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
