/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_SYSFS_FIXTURE_H
#define TESTS_UNIT_SYSFS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/discover.h"

/* Two devices on the one interface that every machine has, with small tables. */
static inline int two_devices(void **state)
{
	size_t count = 0;

	setenv("VERBENA_DEVICES", "alpha:lo,beta:lo", 1);
	setenv("VERBENA_GID_TBL_LEN", "8", 1);
	assert_int_equal(vb_devices(&count), 0);
	assert_int_equal(count, 2);
	return 0;
}

#define ALPHA "/sys/devices/virtual/verbena/alpha"
#define PORT  ALPHA "/infiniband/alpha/ports/1"

#endif
