/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/verbena.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/rules.h"

#define NAME_MAX_SHOWN 64
#define LINE	       80

/* Text in lines, each after the first with an indent. */
static void wrapped(const char *label, const char *text)
{
	int column = printf("  %-7s", label);

	while (*text) {
		int len = (int)strcspn(text, " ");

		if (column + 1 + len > LINE && column > 9)
			column = printf("\n         ") - 1;
		column += printf(" %.*s", len, text);
		text += len;
		text += strspn(text, " ");
	}
	printf("\n");
}

static void show(const struct vb_rule_row *row)
{
	printf("[%s] %s\n", row->name, row->verb);
	wrapped("rule", row->sentence);
	if (row->code[0] && strcmp(row->code, "0") != 0)
		wrapped("gives", row->code);
	wrapped("source", row->source);
	wrapped("do", row->advice);
}

static int list(void)
{
	int width = 0;

	for (int i = 0; i < VB_RULE_COUNT; i++) {
		int len = (int)strlen(vb_rule_get((enum vb_rule)i)->name);

		width = len > width ? len : width;
	}
	for (int i = 0; i < VB_RULE_COUNT; i++) {
		const struct vb_rule_row *row = vb_rule_get((enum vb_rule)i);

		printf("%-*s  %s: %s\n", width, row->name, row->verb, row->sentence);
	}
	return 0;
}

/* Number of letters to insert, delete or change to get from one name to the other. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int row[NAME_MAX_SHOWN + 1];
	size_t n = strnlen(b, NAME_MAX_SHOWN);

	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 0; a[i]; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i + 1;
		for (size_t j = 0; j < n; j++) {
			unsigned int change = diagonal + (a[i] != b[j]);
			unsigned int other = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;

			diagonal = row[j + 1];
			row[j + 1] = change < other ? change : other;
		}
	}
	return row[n];
}

static bool resembles(const char *name, const struct vb_rule_row *row)
{
	return strstr(row->name, name) || (strstr(name, row->name) && row->name[0]) ||
	       strcasecmp(row->verb, name) == 0 ||
	       distance(name, row->name) <= 1 + strlen(name) / 4;
}

static int suggest(const char *given, const char *name)
{
	bool any = false;

	verbena_say("there is no rule '%s'", given);
	for (int i = 0; i < VB_RULE_COUNT; i++) {
		const struct vb_rule_row *row = vb_rule_get((enum vb_rule)i);

		if (!resembles(name, row))
			continue;
		fprintf(stderr, "%s  %-24s %s\n", any ? "" : "Did you mean:\n", row->name,
			row->verb);
		any = true;
	}
	if (!any)
		fprintf(stderr, "`verbena explain` lists them all.\n");
	return VERBENA_WRONG;
}

int verbena_explain(int argc, char **argv)
{
	char name[256];
	size_t len;

	if (argc == 1)
		return list();
	if (argc > 2) {
		verbena_say("explain takes one rule");
		return VERBENA_USAGE;
	}
	/* As it was printed, brackets included, in whatever case. */
	snprintf(name, sizeof(name), "%s", argv[1] + (argv[1][0] == '['));
	len = strlen(name);
	if (len && name[len - 1] == ']')
		name[len - 1] = 0;
	for (char *p = name; *p; p++)
		*p = *p == '_' ? '-' : (char)tolower((unsigned char)*p);
	if (!vb_rule_find(name))
		return suggest(argv[1], name);
	show(vb_rule_find(name));
	return 0;
}
