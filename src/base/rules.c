/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"

#undef vb_fail /* the analyzer's, see rules.h */

static const struct vb_rule_row rows[VB_RULE_COUNT] = {
#define VB_RULE(sym, name, verb, err, sentence, source, advice)                                    \
	[VB_RULE_##sym] = {#sym, name, verb, err, 0, #err, sentence, source, advice},
#define VB_RULE_WC(sym, name, verb, status, sentence, source, advice)                              \
	[VB_RULE_##sym] = {#sym, name, verb, 0, status, #status, sentence, source, advice},
#include "base/rules.def"
#undef VB_RULE
#undef VB_RULE_WC
};

/* Hashes of what was said, so that a cause is said once. A full table forgets
 * nothing: it stops printing, which bounds the output of a looping program. */
#define SAID_MAX 1024
static _Atomic uint64_t said[SAID_MAX];

enum { EXPLAIN_UNKNOWN, EXPLAIN_OFF, EXPLAIN_ON };
static _Atomic int explain_state;

const struct vb_rule_row *vb_rule_get(enum vb_rule rule)
{
	return &rows[rule];
}

const struct vb_rule_row *vb_rule_find(const char *name)
{
	for (size_t i = 0; i < VB_RULE_COUNT; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

bool vb_explain_on(void)
{
	int state = atomic_load_explicit(&explain_state, memory_order_relaxed);

	if (state == EXPLAIN_UNKNOWN) {
		const char *value = vb_setting("EXPLAIN");

		state = value && *value && strcmp(value, "0") ? EXPLAIN_ON : EXPLAIN_OFF;
		atomic_store_explicit(&explain_state, state, memory_order_relaxed);
	}
	return state == EXPLAIN_ON;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
	return hash;
}

/* Returns true the first time a text is seen. */
static bool first_time(uint64_t hash)
{
	hash |= 1;
	for (size_t i = 0; i < SAID_MAX; i++) {
		uint64_t old = 0;
		size_t at = (hash + i) % SAID_MAX;

		if (atomic_compare_exchange_strong(&said[at], &old, hash))
			return true;
		if (old == hash)
			return false;
	}
	return false;
}

/* One write, so that lines of several processes do not mix. */
static void emit(const char *text, size_t len)
{
	const char *where = vb_setting("EXPLAIN");

	if (where && where[0] == '/') {
		int fd = open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd >= 0) {
			/* Nowhere is left to say that it failed. */
			(void)!write(fd, text, len);
			close(fd);
		}
		return;
	}
	(void)!write(STDERR_FILENO, text, len);
}

static void say(enum vb_rule rule, const char *fmt, va_list ap)
{
	const struct vb_rule_row *row = &rows[rule];
	char detail[768];
	char text[2048];
	int saved = errno;
	int len;

	vsnprintf(detail, sizeof(detail), fmt, ap);
	if (first_time(hash_text(hash_text(0xcbf29ce484222325ull, row->name), detail))) {
		len = snprintf(text, sizeof(text),
			       "verbena: %s: %s [%s]\n"
			       "  what: %s\n"
			       "  rule: %s (%s)\n"
			       "  do:   %s\n",
			       row->verb, row->code, row->name, detail, row->sentence, row->source,
			       row->advice);
		if (len > 0)
			emit(text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1);
	}
	errno = saved;
}

int vb_fail(enum vb_rule rule, const char *fmt, ...)
{
	if (vb_explain_on()) {
		va_list ap;

		va_start(ap, fmt);
		say(rule, fmt, ap);
		va_end(ap);
	}
	errno = rows[rule].error;
	return rows[rule].error;
}

void vb_explain(enum vb_rule rule, const char *fmt, ...)
{
	va_list ap;

	if (!vb_explain_on())
		return;
	va_start(ap, fmt);
	say(rule, fmt, ap);
	va_end(ap);
}
