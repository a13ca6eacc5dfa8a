/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/verbena.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sysfs/export.h"

static int version(int argc, char **argv)
{
	printf("verbena %s\n", VB_VERSION);
	return 0;
}

static int help(int argc, char **argv);

static const struct {
	const char *name, *args, *text;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"run", "[OPTION]... [--] COMMAND [ARG]...", "run a command on the device", verbena_run},
	{"doctor", "[--peer HOST]", "say what the device stands on, and what is wrong",
	 verbena_doctor},
	{"explain", "[RULE]", "say what a rule means and what to do; list them all",
	 verbena_explain},
	{"sysfs", "DIR", "write the files that describe the device into a folder", verbena_sysfs},
	{"version", "", "print the version", version},
	{"help", "", "print this", help},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *out)
{
	fprintf(out, "Usage: verbena COMMAND [ARG]...\n"
		     "Run programs on a software RDMA adapter, and ask it questions.\n\n"
		     "Commands:\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-7s %-34s %s\n", commands[i].name, commands[i].args,
			commands[i].text);
	fprintf(out,
		"\nOptions of run:\n"
		"  --explain[=FILE]   say for every refusal which rule was broken and what to do\n"
		"  --profile P        make the device look like another; a name or a path\n"
		"  --carrier C        how messages travel: auto, local or udp\n"
		"  --memory LIST      ways to the memory of a peer: all, or some of own, mapped,\n"
		"                     scatter, cross, procmem, separated by commas\n"
		"  --pcap FILE        write every packet there, for wireshark and tshark\n"
		"  --faults SPEC      lose, damage or delay packets: drop=1%%;delay=5%%,ms=10 ...\n"
		"  --no-sysfs         do not show the device below /sys and /dev\n"
		"\nExit status: run has the command's own, 126 where it cannot be executed, 127\n"
		"where it is not found. The others: 0; 1: something is wrong; 2: called wrongly.\n"
		"\nSettings are environment variables VERBENA_... and lines of an ini file: see\n"
		"verbena(7). VERBENA_DEVINFO_FORM=new makes ibv_devinfo print as the releases of\n"
		"rdma-core after 44 do.\n");
}

static int help(int argc, char **argv)
{
	usage(stdout);
	return 0;
}

int verbena_sysfs(int argc, char **argv)
{
	char failed[2 * PATH_MAX];
	int err;

	if (argc == 3 && strcmp(argv[1], "--") == 0) {
		argv++;
		argc--;
	}
	if (argc != 2 || (argv[1][0] == '-' && argv[1][1])) {
		verbena_say("sysfs takes one folder");
		return VERBENA_USAGE;
	}
	err = vb_export_write(argv[1], failed, sizeof(failed));
	if (err) {
		verbena_say("%s: %s", failed, strerror(-err));
		return VERBENA_WRONG;
	}
	return 0;
}

void verbena_say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("verbena: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
}

int verbena_libdir(char *dir, size_t size)
{
	/* The build tree first; then installations, with the folder this one was made for
	 * before those of other systems.
	 */
	static const char *const places[] = {"lib", VB_LIBDIR "/verbena", "lib/verbena",
					     "lib64/verbena"};
	char self[PATH_MAX], try[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n <= 0)
		return -1;
	self[n] = 0;
	for (int up = 0; up < 2; up++) {
		slash = strrchr(self, '/');
		if (!slash)
			return -1;
		*slash = 0;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		/* This one is ours wherever it is; others have a libibverbs.so.1 too. */
		snprintf(try, sizeof(try), "%s/%s/libverbena-sysfs.so", self, places[i]);
		if (access(try, R_OK) == 0)
			return snprintf(dir, size, "%s/%s", self, places[i]) < (int)size ? 0 : -1;
	}
	return -1;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	int status = VERBENA_USAGE;

	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	if (strcmp(name, "--version") == 0)
		name = "version";
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(commands[i].name, name) != 0)
			continue;
		status = commands[i].run(argc - 1, argv + 1);
		if (fflush(stdout) || ferror(stdout)) {
			verbena_say("standard output: write error");
			return VERBENA_WRONG;
		}
		return status;
	}
	if (name[0])
		verbena_say("there is no command '%s'", name);
	usage(stderr);
	return status;
}
