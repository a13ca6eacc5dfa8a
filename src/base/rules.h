/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_RULES_H
#define VB_BASE_RULES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Theory of operation
 *
 * Code never fails with a bare errno: it fails by rule. vb_fail() takes the
 * number from the rule's row, puts it into errno and, only where the user asked
 * (VERBENA_EXPLAIN), says which rule was broken by which values. What is printed
 * goes to standard error, or to the file that VERBENA_EXPLAIN names, once per
 * cause: the same rule with the same values is said once.
 */

enum vb_rule {
#define VB_RULE(sym, name, verb, err, sentence, source, advice)	      VB_RULE_##sym,
#define VB_RULE_WC(sym, name, verb, status, sentence, source, advice) VB_RULE_##sym,
#include "base/rules.def"
#undef VB_RULE
#undef VB_RULE_WC
	VB_RULE_COUNT
};

struct vb_rule_row {
	const char *symbol;   /* "REG_MR_..." */
	const char *name;     /* what `verbena explain` takes */
	const char *verb;     /* the verb that refuses */
	int error;	      /* errno value, 0 for completion rules and notes */
	int status;	      /* ibv_wc_status number, 0 where error is set */
	const char *code;     /* "EINVAL", "IBV_WC_REM_ACCESS_ERR" as written in the row */
	const char *sentence; /* the rule */
	const char *source;   /* where it is written */
	const char *advice;   /* what to do */
};

/** vb_rule_get() - The row of a rule
 * @rule:   Any value below VB_RULE_COUNT
 * Return:  the row, static storage
 */
const struct vb_rule_row *vb_rule_get(enum vb_rule rule);

/** vb_rule_find() - Look a rule up by its user-visible name
 * @name:   Name such as "busy"
 * Return:  the row, or NULL when no rule has that name
 */
const struct vb_rule_row *vb_rule_find(const char *name);

/** vb_explain_on() - Whether explanations are wanted
 * Context: any; one load once the environment has been read. Use it to skip
 *          the work of composing what nobody reads.
 */
bool vb_explain_on(void);

/** vb_fail() - Fail by rule
 * @rule:   The rule broken; must have an errno
 * @fmt:    printf form: the objects with their numbers and the values that broke the
 *          rule, e.g. "mr#3 access=REMOTE_WRITE (0x2)". One line, no newline
 * Context: any; does not block. errno is set
 * Return:  the rule's errno, positive
 */
int vb_fail(enum vb_rule rule, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** vb_explain() - Say why without failing (completions, notes)
 * @rule:   Any rule
 * @fmt:    As for vb_fail()
 * Context: any; errno is kept
 */
void vb_explain(enum vb_rule rule, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* The analyzer cannot know that the errno of a row is never 0 (rules_test.c does). */
#define vb_fail(...)                                                                               \
	({                                                                                         \
		int vb_error_ = vb_fail(__VA_ARGS__);                                              \
		if (!vb_error_)                                                                    \
			__builtin_unreachable();                                                   \
		vb_error_;                                                                         \
	})
#endif

/* For verbs that return a pointer, or -1. */
#define vb_fail_null(...)   (vb_fail(__VA_ARGS__), NULL)
#define vb_fail_minus1(...) (vb_fail(__VA_ARGS__), -1)

#endif
