/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every way libc offers to a file or folder, tried on the view of the device. Built by
 * sysfs_test.py and run under `verbena run`; prints what failed and ends with 1, or says
 * nothing. The device is called verbena0.
 */
#define _FILE_OFFSET_BITS 64
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <linux/seccomp.h>
#include <unistd.h>

#define IB    "/sys/class/infiniband"
#define DEV   IB "/verbena0"
#define PORT  DEV "/ports/1"
#define LAYER "Ethernet\n"

/* The sanitizers' allocators are not made for fork() beside other threads, and have a
 * thread of their own that outlives the exit of strict seccomp.
 */
#ifdef SANITIZED
#define THREADED_FORKS 0
#else
#define SANITIZED      0
#define THREADED_FORKS 20
#endif

extern char **environ;

static int failures;
static int early = -2;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("line %d: %s (errno %s)\n", __LINE__, #condition,                   \
			       strerrorname_np(errno));                                            \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

#define FAILS(call, error)                                                                         \
	do {                                                                                       \
		errno = 0;                                                                         \
		if ((call) != -1 || errno != (error)) {                                            \
			printf("line %d: %s: %s, not %s\n", __LINE__, #call,                       \
			       strerrorname_np(errno), #error);                                    \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/* Before main, and before constructors of libraries that come later. */
__attribute__((constructor(101))) static void before_main(void)
{
	early = open(PORT "/link_layer", O_RDONLY | O_CLOEXEC);
}

static int reads(int fd, const char *want)
{
	char text[64] = "";
	int ok = fd >= 0 && read(fd, text, sizeof(text) - 1) == (ssize_t)strlen(want) &&
		 strcmp(text, want) == 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

static int streams(FILE *f, const char *want)
{
	char text[64] = "";
	int ok = f && fgets(text, sizeof(text), f) && strcmp(text, want) == 0;

	if (f)
		fclose(f);
	return ok;
}

static void opening(volatile int flags)
{
	int dir = open(PORT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int link;

	CHECK(reads(early, LAYER));
	CHECK(reads(open(PORT "/link_layer", O_RDONLY), LAYER));
	CHECK(reads(open(PORT "/link_layer", O_RDONLY | O_CLOEXEC | O_NONBLOCK), LAYER));
	CHECK(reads(open(PORT "/link_layer", flags), LAYER)); /* __open_2 when fortified */
	CHECK(dir >= 0);
	CHECK(reads(openat(dir, "link_layer", flags), LAYER));
	CHECK(reads(openat(dir, "../1/link_layer", flags), LAYER));
	CHECK(reads(openat(dir, PORT "/link_layer", flags), LAYER));
	CHECK(streams(fopen(PORT "/link_layer", "r"), LAYER));
	CHECK(streams(fopen(PORT "/link_layer", "re"), LAYER));
	CHECK(streams(freopen(PORT "/link_layer", "r", fopen("/dev/null", "r")), LAYER));
	CHECK(fcntl(early = open(PORT "/lid", O_RDONLY | O_CLOEXEC), F_GETFD) == FD_CLOEXEC);
	close(early);
	CHECK(fcntl(early = open(PORT "/lid", O_RDONLY), F_GETFD) == 0);
	CHECK((fcntl(early, F_GETFL) & O_ACCMODE) == O_RDONLY);
	FAILS(write(early, "x", 1), EBADF);
	close(early);
	link = dup(dir);
	CHECK(reads(openat(link, "link_layer", flags), LAYER));
	close(link);
	close(dir);
	close(0);
	CHECK(open(PORT "/lid", O_RDONLY) == 0);
	close(0);
	CHECK(open("/dev/null", O_RDONLY) == 0);
	CHECK((link = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC)) >= 0);
	FAILS(ioctl(link, 0x1b01, NULL), ENOTTY);
	close(link);
}

static void refusing(void)
{
	FAILS(open(DEV "/none", O_RDONLY), ENOENT);
	FAILS(open(IB "/none/x", O_RDONLY), ENOENT);
	FAILS(open(PORT "/state/x", O_RDONLY), ENOTDIR);
	FAILS(open(PORT "/state/", O_RDONLY), ENOTDIR);
	FAILS(open(PORT "/state", O_RDONLY | O_DIRECTORY), ENOTDIR);
	FAILS(open(PORT "/state", O_WRONLY), EACCES);
	FAILS(open(PORT "/state", O_RDWR), EACCES);
	FAILS(open(PORT "/state", O_WRONLY | O_TRUNC | O_CREAT, 0644), EACCES);
	FAILS(open(PORT "/state", O_RDONLY | O_CREAT | O_EXCL, 0644), EEXIST);
	FAILS(open(PORT "/new", O_WRONLY | O_CREAT, 0644), EACCES);
	FAILS(open(PORT, O_WRONLY), EISDIR);
	FAILS(open(DEV, O_RDONLY | O_NOFOLLOW), ELOOP);
	FAILS(creat(PORT "/state", 0644), EACCES);
	CHECK(!fopen(PORT "/state", "w") && errno == EACCES);
	CHECK(!fopen(PORT "/none", "r") && errno == ENOENT);
	CHECK(!opendir(PORT "/state") && errno == ENOTDIR);
	CHECK(!opendir(PORT "/none") && errno == ENOENT);
	FAILS(access(PORT "/state", W_OK), EACCES);
	FAILS(access(PORT "/state", X_OK), EACCES);
	FAILS(access(PORT "/none", F_OK), ENOENT);
	FAILS(chdir(PORT "/state"), ENOTDIR);
	FAILS(chdir(PORT "/none"), ENOENT);
	FAILS(readlink(PORT "/state", (char[8]){0}, 8), EINVAL);
	FAILS(unlink(PORT "/state"), geteuid() ? EACCES : EPERM);
	FAILS(unlinkat(AT_FDCWD, PORT, AT_REMOVEDIR), geteuid() ? EACCES : EPERM);
	FAILS(mkdir(PORT, 0755), EEXIST);
	FAILS(chmod(PORT "/state", 0644), EPERM);
	FAILS(truncate(PORT "/state", 0), EACCES);
	FAILS(getxattr(PORT "/state", "security.selinux", NULL, 0), EOPNOTSUPP);
	CHECK(listxattr(PORT "/state", NULL, 0) == 0);
}

static void empty_entry(void)
{
	char name[PATH_MAX], text[16];
	int last = -1, fd;
	FILE *f;

	do
		snprintf(name, sizeof(name), PORT "/gid_attrs/types/%d", ++last);
	while (access(name, F_OK) == 0);
	snprintf(name, sizeof(name), PORT "/gid_attrs/types/%d", last - 1);
	CHECK((fd = open(name, O_RDONLY)) >= 0);
	FAILS(read(fd, text, sizeof(text)), EINVAL);
	FAILS(pread(fd, text, 1, 0), ESPIPE);
	close(fd);
	f = fopen(name, "r");
	CHECK(f && !fgets(text, sizeof(text), f) && errno == EINVAL);
	fclose(f);
}

static void looking(void)
{
	struct stat st, by_fd, by_at;
	struct statx stx;
	struct statfs fs;
	char text[PATH_MAX], *name;
	int fd, dir;

	CHECK(stat(PORT "/state", &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 4096);
	CHECK((st.st_mode & 0777) == 0444 && st.st_uid == 0 && st.st_nlink == 1);
	fd = open(PORT "/state", O_RDONLY);
	CHECK(fstat(fd, &by_fd) == 0 && by_fd.st_ino == st.st_ino && by_fd.st_dev == st.st_dev);
	CHECK(fstatat(fd, "", &by_at, AT_EMPTY_PATH) == 0 && by_at.st_ino == st.st_ino);
	CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &stx) == 0 && stx.stx_ino == st.st_ino);
	close(fd);
	dir = open(PORT, O_RDONLY | O_DIRECTORY);
	CHECK(fstatat(dir, "state", &by_at, 0) == 0 && by_at.st_ino == st.st_ino);
	CHECK(statx(dir, "state", 0, STATX_ALL, &stx) == 0 && stx.stx_ino == st.st_ino);
	CHECK(faccessat(dir, "state", R_OK, 0) == 0 && euidaccess(PORT "/state", R_OK) == 0);
	CHECK(stat(PORT, &st) == 0 && S_ISDIR(st.st_mode) && fstat(dir, &by_fd) == 0);
	CHECK(S_ISDIR(by_fd.st_mode) && by_fd.st_ino == st.st_ino && by_fd.st_nlink > 2);
	close(dir);
	CHECK(lstat(DEV, &st) == 0 && S_ISLNK(st.st_mode));
	CHECK(stat(DEV, &st) == 0 && S_ISDIR(st.st_mode));
	CHECK(stat("/dev/infiniband/uverbs0", &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(major(st.st_rdev) == 231 && (st.st_mode & 0777) == 0666);
	CHECK(access("/dev/infiniband/uverbs0", R_OK | W_OK) == 0);
	CHECK(stat("/dev/infiniband/rdma_cm", &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(statfs(PORT "/state", &fs) == 0);
	CHECK(readlink(DEV, text, sizeof(text)) > 20 && strncmp(text, "../../devices/", 14) == 0);
	CHECK(readlink(DEV, text, 5) == 5);
	CHECK(realpath(DEV "/device", text) && strcmp(strrchr(text, '/'), "/verbena0") == 0);
	CHECK((name = realpath(IB "/../infiniband/", NULL)) && strcmp(name, IB) == 0);
	free(name);
	CHECK((name = canonicalize_file_name(PORT)) && strstr(name, "/ports/1"));
	free(name);
	CHECK(!realpath(IB "/none", text) && errno == ENOENT);
}

static int entries(DIR *d)
{
	int n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

static void listing(void)
{
	struct dirent **list, *e;
	DIR *d = opendir(IB);
	int n, fd, seen = 0;
	long pos;

	CHECK(entries(d) == 3);
	rewinddir(d);
	CHECK(entries(d) == 3 && (seekdir(d, 0), entries(d) == 3));
	rewinddir(d);
	readdir(d);
	readdir(d);
	pos = telldir(d);
	CHECK((e = readdir(d)) && strcmp(e->d_name, "verbena0") == 0 && e->d_type == DT_LNK);
	seekdir(d, pos);
	CHECK((e = readdir(d)) && strcmp(e->d_name, "verbena0") == 0);
	CHECK((fd = dirfd(d)) >= 0 && faccessat(fd, "verbena0/fw_ver", R_OK, 0) == 0);
	CHECK(closedir(d) == 0);
	FAILS(fcntl(fd, F_GETFD), EBADF);
	d = fdopendir(open(PORT, O_RDONLY | O_DIRECTORY));
	CHECK(entries(d) > 14 && closedir(d) == 0);
	d = opendir("/sys/class");
	while ((e = readdir(d)))
		seen += !strcmp(e->d_name, "net") + 10 * !strcmp(e->d_name, "infiniband") +
			100 * !strcmp(e->d_name, "infiniband_verbs");
	CHECK(seen == 111 && closedir(d) == 0);
	d = fdopendir(open("/dev", O_RDONLY | O_DIRECTORY));
	for (seen = 0; (e = readdir(d));)
		seen += !strcmp(e->d_name, "null") + 10 * !strcmp(e->d_name, "infiniband");
	CHECK(seen == 11 && closedir(d) == 0);
	n = scandir("/dev/infiniband", &list, NULL, alphasort);
	CHECK(n == 4 && !strcmp(list[2]->d_name, "rdma_cm") && !strcmp(list[3]->d_name, "uverbs0"));
	d = opendir("/etc"); /* others are left alone */
	CHECK(entries(d) > 2 && closedir(d) == 0);
}

static int visited, deep;

static int visit(const char *path, const struct stat *st, int type, struct FTW *at)
{
	visited += type == FTW_F || type == FTW_SL;
	deep = at->level > deep ? at->level : deep;
	return strcmp(path + at->base, "state") == 0 && !S_ISREG(st->st_mode);
}

static void searching(void)
{
	glob_t g;

	CHECK(nftw(DEV "/", visit, 10, FTW_PHYS) == 0 && visited > 100 && deep == 5);
	CHECK(glob(IB "/*/ports/*/stat?", 0, NULL, &g) == 0 && g.gl_pathc == 1);
	CHECK(strcmp(g.gl_pathv[0], PORT "/state") == 0);
	globfree(&g);
	CHECK(glob("/sys/cl*/infiniband*", 0, NULL, &g) == 0 && g.gl_pathc == 3);
	globfree(&g);
	CHECK(glob("/dev/infiniband/uverbs*", 0, NULL, &g) == 0 && g.gl_pathc == 1);
	globfree(&g);
}

static void moving(void)
{
	char here[PATH_MAX], was[PATH_MAX], *name;
	int back = open(".", O_RDONLY | O_DIRECTORY), fd;

	CHECK(getcwd(was, sizeof(was)) != NULL);
	CHECK(chdir(IB) == 0 && getcwd(here, sizeof(here)) && strcmp(here, IB) == 0);
	CHECK(reads(open("verbena0/ports/1/link_layer", O_RDONLY), LAYER));
	CHECK(chdir("verbena0/ports") == 0 && reads(open("1/link_layer", O_RDONLY), LAYER));
	CHECK((name = getcwd(NULL, 0)) && strstr(name, "/infiniband/verbena0/ports"));
	free(name);
	CHECK(!getcwd(here, 5) && errno == ERANGE);
	CHECK(chdir("../../..") == 0 && access("net", F_OK) == 0);
	CHECK(chdir("/sys/class") == 0 && access("infiniband/verbena0", F_OK) == 0);
	fd = open("infiniband/verbena0", O_RDONLY | O_DIRECTORY);
	CHECK(fchdir(fd) == 0 && access("node_guid", R_OK) == 0);
	close(fd);
	CHECK(chdir("/") == 0 && access("sys/class/infiniband", F_OK) == 0);
	CHECK(fchdir(back) == 0 && getcwd(here, sizeof(here)) && strcmp(here, was) == 0);
	close(back);
}

static void children(void)
{
	char *args[] = {"sh", "-c", "read x < ports/1/link_layer; [ \"$x\" = Ethernet ]", NULL};
	int status = -1, fd = open(PORT "/link_layer", O_RDONLY);
	pid_t pid = vfork();

	if (pid == 0) {
		if (chdir(DEV) == 0)
			execv("/bin/sh", args);
		_exit(9);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(access("ports/1/state", F_OK) == -1);
	args[2] = "read x < " PORT "/link_layer; [ \"$x\" = Ethernet ]";
	CHECK(posix_spawn(&pid, "/bin/sh", NULL, NULL, args, environ) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	pid = fork();
	if (pid == 0)
		_exit(!(reads(fd, LAYER) && reads(open(PORT "/link_layer", O_RDONLY), LAYER)));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close(fd);
	if (SANITIZED)
		return;
	pid = fork();
	if (pid == 0) {
		/* From here only read, write and exit are allowed, or the child is killed. */
		fd = open(PORT "/link_layer", O_RDONLY);
		status = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		status = status == 0 && read(fd, (char[32]){0}, 32) == (ssize_t)strlen(LAYER);
		syscall(SYS_exit, !status);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void *thread(void *arg)
{
	long bad = 0;

	for (int i = 0; i < 200; i++) {
		DIR *d = opendir(PORT "/pkeys");

		bad += !reads(open(PORT "/link_layer", O_RDONLY), LAYER) || entries(d) != 3;
		if (d)
			closedir(d);
	}
	return (void *)bad;
}

static void threads(void)
{
	pthread_t t[4];
	void *bad;
	int status;

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, thread, NULL);
	for (int i = 0; i < THREADED_FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(!reads(open(PORT "/link_layer", O_RDONLY), LAYER));
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &bad);
		CHECK(!bad);
	}
}

int main(void)
{
	opening(O_RDONLY);
	refusing();
	empty_entry();
	looking();
	listing();
	searching();
	moving();
	children();
	threads();
	return failures != 0;
}
