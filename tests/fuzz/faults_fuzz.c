/* SPDX-License-Identifier: BSD-2-Clause */
/* A specification of faults, and packets that meet it. */
#include <stdlib.h>
#include <string.h>

#include "carrier/faults.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct vb_flow flow = {.dport = VB_UDP_PORT};
	char *spec = malloc(size + 1);
	struct vb_fault_plan plan;
	const char *wrong = NULL;
	struct vb_faults f;

	if (!spec)
		return 0;
	memcpy(spec, data, size);
	spec[size] = 0;
	if (vb_faults_parse(&f, spec, &wrong)) {
		if (!wrong || wrong < spec || wrong > spec + strlen(spec) || f.n)
			abort();
	} else if (f.n > VB_FAULT_RULES) {
		abort();
	}
	for (uint32_t i = 0; i < 20; i++) {
		uint8_t bytes[64] = {(uint8_t)i};
		uint32_t len = 16 + i;

		vb_faults_plan(&f, bytes, &len, &flow, &plan);
		if (len > 16 + i)
			abort();
		vb_faults_not_ready(&f, i);
	}
	free(spec);
	return 0;
}
