/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/faults.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QPN_MAX 0xffffffu
#define MS_MAX	60000u

struct word {
	const char *text;
	uint32_t value;
};

static const struct word actions[] = {
	{"drop", VB_FAULT_DROP},
	{"duplicate", VB_FAULT_DUPLICATE},
	{"reorder", VB_FAULT_REORDER},
	{"delay", VB_FAULT_DELAY},
	{"corrupt", VB_FAULT_CORRUPT},
	{"mangle", VB_FAULT_MANGLE},
	{"rnr", VB_FAULT_RNR},
	{"truncate", VB_FAULT_TRUNCATE},
	{"down", VB_FAULT_DOWN},
	{"up", VB_FAULT_UP},
	{"reset", VB_FAULT_RESET},
	{"fatal", VB_FAULT_FATAL},
	{NULL, 0},
};

static const struct word kinds[] = {
	{"send", VB_FAULT_SEND},	 {"write", VB_FAULT_WRITE},
	{"read", VB_FAULT_READ},	 {"atomic", VB_FAULT_ATOMIC},
	{"response", VB_FAULT_RESPONSE}, {"ack", VB_FAULT_ACK},
	{"cnp", VB_FAULT_CNP},		 {NULL, 0},
};

static bool take_word(const char **at, const struct word *words, uint32_t *value)
{
	size_t len = strcspn(*at, "=,;");

	for (; words->text; words++)
		if (strlen(words->text) == len && !strncmp(words->text, *at, len)) {
			*value = words->value;
			*at += len;
			return true;
		}
	return false;
}

static bool take(const char **at, const char *text)
{
	size_t len = strlen(text);

	if (strncmp(*at, text, len) != 0)
		return false;
	*at += len;
	return true;
}

static bool take_number(const char **at, uint64_t min, uint64_t max, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*value = strtoull(*at, &end, 0);
	if (errno || *value < min || *value > max)
		return false;
	*at = end;
	return true;
}

/* Up to three places behind the point. */
static bool take_share(const char **at, uint32_t *share)
{
	const char *p = *at;
	uint32_t value = 0, digits = 0, scale = 1000;

	for (; isdigit((unsigned char)*p) && digits < 4; p++, digits++)
		value = value * 10 + (uint32_t)(*p - '0');
	if (!digits || value > 100)
		return false;
	value *= 1000;
	if (*p == '.')
		for (p++; isdigit((unsigned char)*p) && scale > 1; p++) {
			scale /= 10;
			value += (uint32_t)(*p - '0') * scale;
		}
	if (*p != '%' || value == 0 || value > VB_FAULT_WHOLE)
		return false;
	*share = value;
	*at = p + 1;
	return true;
}

static bool take_when(const char **at, struct vb_fault_rule *rule)
{
	if (take(at, "#"))
		return take_number(at, 1, UINT64_MAX, &rule->nth);
	if (take(at, "/"))
		return take_number(at, 1, UINT64_MAX, &rule->every);
	return take_share(at, &rule->share);
}

static bool take_condition(const char **at, struct vb_fault_rule *rule)
{
	uint64_t value;

	if (take(at, "opcode=")) {
		if (take_word(at, kinds, &rule->kind))
			return true;
		if (!take_number(at, 0, 255, &value))
			return false;
		rule->kind = (uint32_t)value;
	} else if (take(at, "qp=")) {
		if (!take_number(at, 1, QPN_MAX, &value))
			return false;
		rule->qpn = (uint32_t)value;
	} else if (take(at, "ms=")) {
		if (!take_number(at, 1, MS_MAX, &value))
			return false;
		rule->ms = (uint32_t)value;
	} else {
		return false;
	}
	return true;
}

static bool take_rule(const char **at, struct vb_faults *f)
{
	struct vb_fault_rule *rule = &f->rule[f->n];
	uint32_t action;

	if (take(at, "seed="))
		return take_number(at, 0, UINT64_MAX, &f->seed);
	if (f->n == VB_FAULT_RULES)
		return false;
	*rule = (struct vb_fault_rule){.kind = VB_FAULT_ANY, .ms = 1};
	if (!take_word(at, actions, &action) || !take(at, "=") || !take_when(at, rule))
		return false;
	rule->action = (enum vb_fault_action)action;
	while (take(at, ","))
		if (!take_condition(at, rule))
			return false;
	f->n++;
	return true;
}

int vb_faults_parse(struct vb_faults *f, const char *spec, const char **wrong)
{
	const char *at = spec;

	*f = (struct vb_faults){.seed = 1};
	while (*at) {
		if (!take_rule(&at, f) || (*at && !take(&at, ";"))) {
			if (wrong)
				*wrong = at;
			f->n = 0;
			return -EINVAL;
		}
	}
	return 0;
}
