/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/verbena.h"

static const struct {
	const char *name;
	void (*probe)(void);
} probes[] = {
	{"device", doctor_device},     {"settings", doctor_settings},
	{"gids", doctor_gids},	       {"libraries", doctor_libraries},
	{"files", doctor_sysfs},       {"runtime", doctor_runtime},
	{"memfd", doctor_memfd},       {"process_vm", doctor_process_vm},
	{"yama", doctor_yama},	       {"userfaultfd", doctor_userfaultfd},
	{"limits", doctor_limits},     {"port 4791", doctor_port},
	{"firewall", doctor_firewall}, {"peer", doctor_peer},
};

static const char *current;
static enum doctor_verdict worst;

void doctor_line(enum doctor_verdict verdict, const char *fmt, ...)
{
	static const char *const words[] = {"ok", "warn", "fail"};
	va_list args;

	va_start(args, fmt);
	printf("%-4s  %-11s  ", words[verdict], current);
	vprintf(fmt, args);
	printf("\n");
	va_end(args);
	if (verdict > worst)
		worst = verdict;
}

int verbena_doctor(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--peer")) {
		doctor_set_peer(argv[2]);
	} else if (argc > 1) {
		verbena_say("doctor takes no arguments but --peer ADDRESS");
		return VERBENA_USAGE;
	}
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		current = probes[i].name;
		probes[i].probe();
		fflush(stdout);
	}
	return worst == DOCTOR_FAIL ? VERBENA_WRONG : 0;
}
