/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/faults.h"
#include "tools/verbena.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PRELOAD "libverbena-sysfs.so"

/* What the loader would do with a program. */
enum program_kind { PROGRAM_OTHER, PROGRAM_DYNAMIC, PROGRAM_STATIC, PROGRAM_FOREIGN };

/* Put a word in front of a list in the environment, unless it is there already. */
static void put_first(const char *name, const char *word, char separator)
{
	const char *old = getenv(name);
	size_t len = strlen(word);
	char *text;

	if (old && strncmp(old, word, len) == 0 && (!old[len] || strchr(": ", old[len])))
		return;
	if (!old || !*old) {
		setenv(name, word, 1);
	} else if (asprintf(&text, "%s%c%s", word, separator, old) >= 0) {
		setenv(name, text, 1);
		free(text);
	}
}

/* The sanitizers' runtime wants to be the first library of a process. This program is
 * built like the libraries, so the runtime is among its own.
 */
static void put_runtime(void)
{
#ifdef VB_SANITIZED
	char line[PATH_MAX + 128];
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/');

		if (!path || (!strstr(path, "/libasan") && !strstr(path, "/libtsan") &&
			      !strstr(path, "/libubsan")))
			continue;
		path[strcspn(path, "\n")] = 0;
		put_first("LD_PRELOAD", path, ':');
		found = !strstr(path, "/libubsan");
	}
	if (maps)
		fclose(maps);
	/* What the command leaves behind at its end is not ours to judge. */
	setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
#endif
}

static int put_libraries(bool sysfs)
{
	char dir[PATH_MAX], preload[PATH_MAX + 32];

	if (verbena_libdir(dir, sizeof(dir))) {
		verbena_say("the libraries are not where they belong beside this program");
		return -1;
	}
	if (strpbrk(dir, ":;")) {
		verbena_say("%s: the loader cannot be given a path with ':' or ';'", dir);
		return -1;
	}
	put_first("LD_LIBRARY_PATH", dir, ':');
	if (sysfs) {
		/* A blank would end the name here, but not in the library path. */
		snprintf(preload, sizeof(preload), "%s%s" PRELOAD, strchr(dir, ' ') ? "" : dir,
			 strchr(dir, ' ') ? "" : "/");
		put_first("LD_PRELOAD", preload, ':');
	}
	put_runtime();
	return 0;
}

/* Find a command as execvp(3) does. Return: 0, or the exit status to end with. */
static int find_command(const char *name, char *path)
{
	const char *dirs = getenv("PATH");
	int status = VERBENA_NOT_FOUND;
	struct stat st;

	if (!*name)
		return status;
	if (strchr(name, '/')) {
		if (strlen(name) >= PATH_MAX || stat(name, &st))
			return errno == EACCES ? VERBENA_NOT_EXECUTABLE : status;
		strcpy(path, name);
		return S_ISREG(st.st_mode) && access(name, X_OK) == 0 ? 0 : VERBENA_NOT_EXECUTABLE;
	}
	for (dirs = dirs ? dirs : "/bin:/usr/bin"; dirs; dirs = strchr(dirs, ':')) {
		int len;

		dirs += *dirs == ':';
		len = (int)strcspn(dirs, ":");
		if (snprintf(path, PATH_MAX, "%.*s%s%s", len, dirs, len ? "/" : "./", name) >=
			    PATH_MAX ||
		    stat(path, &st) || !S_ISREG(st.st_mode))
			continue;
		if (access(path, X_OK) == 0)
			return 0;
		status = VERBENA_NOT_EXECUTABLE;
	}
	return status;
}

static bool has_interpreter(int fd, const Elf64_Ehdr *h)
{
	for (unsigned int i = 0; i < h->e_phnum; i++) {
		Elf64_Phdr p;

		if (pread(fd, &p, sizeof(p), (off_t)(h->e_phoff + i * sizeof(p))) != sizeof(p))
			return true;
		if (p.p_type == PT_INTERP)
			return true;
	}
	return false;
}

static enum program_kind kind_of(int fd)
{
	Elf64_Ehdr theirs, ours;
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t n = self < 0 ? -1 : read(self, &ours, sizeof(ours));

	if (self >= 0)
		close(self);
	if (n != sizeof(ours) || pread(fd, &theirs, sizeof(theirs), 0) != sizeof(theirs) ||
	    memcmp(theirs.e_ident, ELFMAG, SELFMAG) != 0)
		return PROGRAM_OTHER;
	if (theirs.e_ident[EI_CLASS] != ours.e_ident[EI_CLASS] ||
	    theirs.e_machine != ours.e_machine || theirs.e_ident[EI_CLASS] != ELFCLASS64)
		return PROGRAM_FOREIGN;
	return has_interpreter(fd, &theirs) ? PROGRAM_DYNAMIC : PROGRAM_STATIC;
}

/* Say beforehand when the loader will not take the libraries. */
static void warn(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum program_kind kind = fd < 0 ? PROGRAM_OTHER : kind_of(fd);
	struct stat st;

	if (fd >= 0)
		close(fd);
	if (kind == PROGRAM_STATIC)
		verbena_say("warning: %s is statically linked: it uses its own libraries, not the "
			    "device",
			    path);
	if (kind == PROGRAM_FOREIGN)
		verbena_say("warning: %s is for another machine or word size: it cannot load the "
			    "libraries",
			    path);
	if (stat(path, &st))
		return;
	if (((st.st_mode & S_ISUID) && st.st_uid != geteuid()) ||
	    ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid()))
		verbena_say("warning: %s is set-uid or set-gid: the loader ignores the library "
			    "path",
			    path);
	else if (geteuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		verbena_say("warning: %s has file capabilities: the loader ignores the library "
			    "path",
			    path);
}

static void put(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
}

/* A file that everything the command starts writes to, wherever it goes. Emptied, unless
 * somebody writes to it: the other end, started before this one. */
static int begin_capture(const char *file)
{
	char path[PATH_MAX];
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	struct flock lock = {.l_type = F_WRLCK};

	if (fd < 0 || !realpath(file, path)) {
		verbena_say("%s: %s", file, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (!fcntl(fd, F_OFD_SETLK, &lock) && ftruncate(fd, 0))
		verbena_say("%s: %s", file, strerror(errno));
	close(fd);
	put("VERBENA_PCAP", path);
	return 0;
}

static int check_faults(const char *spec)
{
	const char *wrong = spec;
	struct vb_faults faults;

	if (!vb_faults_parse(&faults, spec, &wrong))
		return 0;
	verbena_say("faults: wrong from \"%s\" on", wrong);
	return -1;
}

enum {
	OPT_EXPLAIN = 256,
	OPT_PROFILE,
	OPT_CARRIER,
	OPT_MEMORY,
	OPT_PCAP,
	OPT_FAULTS,
	OPT_NO_SYSFS
};

/* Return: 0, or the exit status to end with, -1 for 0. */
static int take_options(int argc, char **argv, bool *sysfs)
{
	static const struct option options[] = {
		{"explain", optional_argument, NULL, OPT_EXPLAIN},
		{"profile", required_argument, NULL, OPT_PROFILE},
		{"carrier", required_argument, NULL, OPT_CARRIER},
		{"memory", required_argument, NULL, OPT_MEMORY},
		{"pcap", required_argument, NULL, OPT_PCAP},
		{"faults", required_argument, NULL, OPT_FAULTS},
		{"no-sysfs", no_argument, NULL, OPT_NO_SYSFS},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static char program[] = "verbena run";
	int c;

	argv[0] = program;
	while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		switch (c) {
		case OPT_EXPLAIN:
			put("VERBENA_EXPLAIN", optarg ? optarg : "1");
			break;
		case OPT_PROFILE:
			put("VERBENA_PROFILE", optarg);
			break;
		case OPT_CARRIER:
			put("VERBENA_CARRIER", optarg);
			break;
		case OPT_MEMORY:
			put("VERBENA_MEMORY", optarg);
			break;
		case OPT_PCAP:
			if (begin_capture(optarg ? optarg : ""))
				return VERBENA_USAGE;
			break;
		case OPT_FAULTS:
			if (check_faults(optarg ? optarg : ""))
				return VERBENA_USAGE;
			put("VERBENA_FAULTS", optarg);
			break;
		case OPT_NO_SYSFS:
			*sysfs = false;
			break;
		case 'h':
			printf("Usage: verbena run [OPTION]... [--] COMMAND [ARG]...\n"
			       "See `verbena help` for the options.\n");
			return -1;
		default:
			return VERBENA_USAGE;
		}
	}
	if (optind < argc)
		return 0;
	verbena_say("run takes a command");
	return VERBENA_USAGE;
}

int verbena_run(int argc, char **argv)
{
	char path[PATH_MAX];
	bool sysfs = true;
	int status = take_options(argc, argv, &sysfs);

	if (status)
		return status < 0 ? 0 : status;
	argv += optind;
	status = find_command(argv[0], path);
	if (status) {
		verbena_say("%s: %s", argv[0],
			    status == VERBENA_NOT_FOUND ? "command not found"
							: "cannot be executed");
		return status;
	}
	warn(path);
	if (put_libraries(sysfs))
		return VERBENA_NOT_EXECUTABLE;
	execvp(argv[0], argv);
	verbena_say("%s: %s", argv[0], strerror(errno));
	return errno == ENOENT ? VERBENA_NOT_FOUND : VERBENA_NOT_EXECUTABLE;
}
