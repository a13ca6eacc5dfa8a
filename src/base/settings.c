/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/settings.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/forkguard.h"

#define PREFIX	     "VERBENA_"
#define ENTRIES_MAX  512
#define SECTIONS_MAX 16
#define PROBLEMS_MAX 32
#define ARENA_BYTES  65536
#define FILE_MAX     65536 /* bytes of an ini file that are read */

#ifndef VB_PROFILE_DIR
#define VB_PROFILE_DIR "/usr/share/verbena/profiles"
#endif

static const struct vb_setting_row rows[] = {
#define VB_SETTING(name, kind, min, max, fallback, allowed, meaning)                               \
	{#name, VB_SETTING_##kind, min, max, fallback, allowed, meaning},
#include "base/settings.def"
#undef VB_SETTING
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

struct entry {
	const char *key; /* upper case, without the prefix */
	const char *value;
	const char *where;
	enum vb_setting_origin origin;
	int section; /* index, -1: none */
};

/* All in static memory: nothing to free, nothing that a lack of memory takes away. */
static struct {
	struct entry entry[ENTRIES_MAX];
	size_t n_entries;
	const char *section[SECTIONS_MAX];
	size_t n_sections;
	struct vb_setting_problem problem[PROBLEMS_MAX];
	size_t n_problems;
	char arena[ARENA_BYTES];
	size_t arena_used;
	char file[FILE_MAX + 1];
} store;

static atomic_bool loaded;

static void add_problem(const char *where, const char *name, const char *value, const char *what,
			int line)
{
	if (store.n_problems < PROBLEMS_MAX)
		store.problem[store.n_problems++] =
			(struct vb_setting_problem){where, name, value, what, line};
}

static char *keep(const char *text, size_t len)
{
	char *copy = store.arena + store.arena_used;

	if (len >= ARENA_BYTES - store.arena_used)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	store.arena_used += len + 1;
	return copy;
}

static const struct vb_setting_row *row_of(const char *name)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

static void add_entry(const char *key, size_t key_len, const char *value,
		      enum vb_setting_origin origin, const char *where, int section)
{
	struct entry *entry = &store.entry[store.n_entries];
	char *copy;

	if (store.n_entries == ENTRIES_MAX)
		return;
	copy = keep(key, key_len);
	entry->value = keep(value, strlen(value));
	if (!copy || !entry->value) {
		add_problem(where, "", "", "too much to keep", 0);
		return;
	}
	for (char *c = copy; *c; c++)
		*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	entry->key = copy;
	entry->origin = origin;
	entry->where = where;
	entry->section = section;
	store.n_entries++;
}

static void read_environment(void)
{
	if (getauxval(AT_SECURE) || !environ)
		return;
	for (char **at = environ; *at; at++) {
		const char *equals = strchr(*at, '=');
		size_t prefix = sizeof(PREFIX) - 1;

		if (equals && !strncmp(*at, PREFIX, prefix))
			add_entry(*at + prefix, (size_t)(equals - *at) - prefix, equals + 1,
				  VB_FROM_ENVIRONMENT, "environment", -1);
	}
}

static int section_index(const char *name)
{
	if (!strncmp(name, "device ", 7))
		name += 7;
	if (!*name || !strcmp(name, "verbena"))
		return -1;
	for (size_t i = 0; i < store.n_sections; i++)
		if (!strcmp(store.section[i], name))
			return (int)i;
	if (store.n_sections == SECTIONS_MAX)
		return SECTIONS_MAX;
	store.section[store.n_sections] = keep(name, strlen(name));
	return store.section[store.n_sections] ? (int)store.n_sections++ : SECTIONS_MAX;
}

struct reading {
	const char *where;
	enum vb_setting_origin origin;
};

static int take_line(void *user, const char *section, const char *name, const char *value)
{
	const struct reading *reading = user;
	int index = section_index(section);

	if (index < SECTIONS_MAX && name && value)
		add_entry(name, strlen(name), value, reading->origin, reading->where, index);
	return 1;
}

/* Only an ordinary file: a pipe or a device could keep a program waiting. */
static ssize_t slurp(const char *path)
{
	struct stat st;
	size_t have = 0;
	ssize_t n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		n = -1;
	while (n >= 0 && have < FILE_MAX) {
		n = read(fd, store.file + have, FILE_MAX - have);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n <= 0)
			break;
		else
			have += (size_t)n;
	}
	close(fd);
	store.file[have] = '\0';
	return n < 0 ? -1 : (ssize_t)have;
}

static bool read_file(const char *path, enum vb_setting_origin origin)
{
	struct reading reading = {.origin = origin};
	int line;

	if (slurp(path) < 0)
		return false;
	reading.where = keep(path, strlen(path));
	if (!reading.where)
		return false;
	line = ini_parse_string(store.file, take_line, &reading);
	if (line > 0)
		add_problem(reading.where, "", "", "not understood", line);
	return true;
}

/* The folder of the library, or of the program it is linked into. */
static bool own_folder(char *path)
{
	Dl_info info;
	char *slash;

	if (!dladdr((const void *)(uintptr_t)own_folder, &info) || !info.dli_fname ||
	    !strchr(info.dli_fname, '/') || !realpath(info.dli_fname, path))
		if (!realpath("/proc/self/exe", path))
			return false;
	slash = strrchr(path, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

/* A profile stands under share/ somewhere above the library, in the build tree as
 * when installed, wherever that may have been moved. */
static bool read_named_profile(const char *name)
{
	char folder[PATH_MAX];
	char path[PATH_MAX + 320];

	if (strlen(name) > 255 || name[0] == '.')
		return false;
	if (own_folder(folder)) {
		for (int up = 0; up < 5 && folder[0]; up++) {
			snprintf(path, sizeof(path), "%s/share/verbena/profiles/%s.ini", folder,
				 name);
			if (read_file(path, VB_FROM_PROFILE))
				return true;
			*strrchr(folder, '/') = '\0';
		}
	}
	snprintf(path, sizeof(path), "%s/%s.ini", VB_PROFILE_DIR, name);
	return read_file(path, VB_FROM_PROFILE);
}

static const struct entry *find(int section, const char *name)
{
	const struct entry *best = NULL;

	for (size_t i = 0; i < store.n_entries; i++) {
		const struct entry *entry = &store.entry[i];

		/* The later line of a file wins over the earlier. */
		if (entry->section == section && !strcmp(entry->key, name) &&
		    (!best || entry->origin >= best->origin))
			best = entry;
	}
	return best;
}

static void read_files(void)
{
	const struct entry *entry = find(-1, "CONFIG");
	bool found;

	if (entry && *entry->value && !read_file(entry->value, VB_FROM_FILE))
		add_problem(entry->where, "CONFIG", entry->value, "cannot be read", 0);
	entry = find(-1, "PROFILE");
	if (!entry || !*entry->value)
		return;
	found = strchr(entry->value, '/') ? read_file(entry->value, VB_FROM_PROFILE)
					  : read_named_profile(entry->value);
	if (!found)
		add_problem(entry->where, "PROFILE", entry->value, "cannot be read", 0);
}

/* False for what a human would not call a number; *value is its value. */
static bool parse_number(const char *text, unsigned long long *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 0);
	return !errno && !*end;
}

/* Four groups of four hexadecimal digits, or one number. */
static bool parse_guid(const char *text, unsigned long long *guid)
{
	unsigned long long value = 0;

	if (strchr(text, ':')) {
		for (int i = 0; i < 19; i++) {
			if (i % 5 == 4 ? text[i] != ':' : !isxdigit((unsigned char)text[i]))
				return false;
			if (i % 5 != 4)
				value = value << 4 |
					(unsigned)(isdigit((unsigned char)text[i])
							   ? text[i] - '0'
							   : tolower(text[i]) - 'a' + 10);
		}
		if (text[19])
			return false;
	} else if (!parse_number(text, &value)) {
		return false;
	}
	*guid = value;
	return value != 0;
}

/* Position of a word in "a|b|c", -1 where it is none of them. */
static int parse_choice(const char *words, const char *text)
{
	size_t len = strlen(text);

	for (int i = 0; len; i++) {
		size_t n = strcspn(words, "|");

		if (n == len && !strncmp(words, text, len))
			return i;
		if (!words[n])
			return -1;
		words += n + 1;
	}
	return -1;
}

static bool printable(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

bool vb_setting_valid(const struct vb_setting_row *row, const char *text)
{
	unsigned long long value;

	switch (row->kind) {
	case VB_SETTING_NUMBER:
		return parse_number(text, &value) && value >= row->min && value <= row->max;
	case VB_SETTING_CHOICE:
		return parse_choice(row->allowed, text) >= 0;
	case VB_SETTING_GUID:
		return parse_guid(text, &value);
	default:
		return strlen(text) >= row->min && strlen(text) <= row->max && printable(text);
	}
}

static void check_entries(void)
{
	for (size_t i = 0; i < store.n_entries; i++) {
		const struct entry *entry = &store.entry[i];
		const struct vb_setting_row *row = row_of(entry->key);

		if (!strncmp(entry->key, "TEST_", 5))
			continue;
		if (!row)
			add_problem(entry->where, entry->key, entry->value, "unknown setting", 0);
		else if (!vb_setting_valid(row, entry->value))
			add_problem(entry->where, entry->key, entry->value, "not allowed", 0);
	}
}

static void load(void)
{
	pthread_mutex_t *lock;
	int saved = errno;

	if (atomic_load_explicit(&loaded, memory_order_acquire))
		return;
	lock = vb_fork_lock(VB_FORK_LOCK_SETTINGS);
	pthread_mutex_lock(lock);
	if (!atomic_load_explicit(&loaded, memory_order_relaxed)) {
		store.n_entries = store.n_sections = store.n_problems = store.arena_used = 0;
		read_environment();
		read_files();
		check_entries();
		atomic_store_explicit(&loaded, true, memory_order_release);
	}
	pthread_mutex_unlock(lock);
	errno = saved;
}

void vb_settings_reload(void)
{
	atomic_store(&loaded, false);
	load();
}

static const struct entry *lookup(const char *section, const char *name)
{
	const struct entry *entry = NULL;

	load();
	for (size_t i = 0; section && !entry && i < store.n_sections; i++)
		if (!strcmp(store.section[i], section))
			entry = find((int)i, name);
	return entry ? entry : find(-1, name);
}

const char *vb_setting_in(const char *section, const char *name)
{
	const struct entry *entry = lookup(section, name);

	return entry ? entry->value : NULL;
}

const char *vb_setting(const char *name)
{
	return vb_setting_in(NULL, name);
}

enum vb_setting_origin vb_setting_origin(const char *section, const char *name)
{
	const struct entry *entry = lookup(section, name);

	return entry ? entry->origin : VB_FROM_DEFAULT;
}

const char *vb_setting_text(const char *section, const char *name)
{
	const struct vb_setting_row *row = row_of(name);
	const char *text = vb_setting_in(section, name);

	if (text && (!row || vb_setting_valid(row, text)))
		return text;
	return row ? row->fallback : "";
}

unsigned long long vb_setting_number(const char *section, const char *name)
{
	unsigned long long value = 0;

	parse_number(vb_setting_text(section, name), &value);
	return value;
}

int vb_setting_choice(const char *section, const char *name)
{
	const struct vb_setting_row *row = row_of(name);
	int at = row ? parse_choice(row->allowed, vb_setting_text(section, name)) : 0;

	return at < 0 ? 0 : at;
}

bool vb_setting_guid(const char *section, const char *name, unsigned long long *guid)
{
	return parse_guid(vb_setting_text(section, name), guid);
}

unsigned long long vb_setting_u64(const char *name, unsigned long long min, unsigned long long max,
				  unsigned long long otherwise)
{
	const char *text = vb_setting(name);
	unsigned long long value;

	if (!text || !parse_number(text, &value) || value < min || value > max)
		return otherwise;
	return value;
}

const char *vb_setting_section(size_t index)
{
	load();
	return index < store.n_sections ? store.section[index] : NULL;
}

const struct vb_setting_row *vb_setting_row(size_t index)
{
	return index < N_ROWS ? &rows[index] : NULL;
}

void vb_settings_problems(bool (*visit)(const struct vb_setting_problem *problem, void *arg),
			  void *arg)
{
	load();
	for (size_t i = 0; i < store.n_problems; i++)
		if (!visit(&store.problem[i], arg))
			return;
}
