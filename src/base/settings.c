/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const char *vb_setting(const char *name)
{
	char full[64];

	snprintf(full, sizeof(full), "VERBENA_%s", name);
	return secure_getenv(full);
}

unsigned long long vb_setting_u64(const char *name, unsigned long long min,
				  unsigned long long max, unsigned long long otherwise)
{
	const char *text = vb_setting(name);
	unsigned long long value;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return otherwise;
	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || *end || value < min || value > max)
		return otherwise;
	return value;
}
