/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_RULE_H
#define VB_TESTS_RULE_H

#include <stdbool.h>

/** rule_log_start() - Have explanations written to a file of this test
 * Context: before the library is called for the first time
 */
void rule_log_start(void);

/** rule_log_end() - Remove the file, which is done at exit; for a process that leaves by _exit() */
void rule_log_end(void);

/** rule_log_on_stderr() - Have them written through standard error, which is already open
 * For checks without a free descriptor, in a process of their own.
 */
void rule_log_on_stderr(void);

/** rule_said() - Whether a refusal by a rule was explained since the last call
 * @name:   The rule's user-visible name. The library says the same cause once only,
 *          so every refusal checked needs values of its own
 */
bool rule_said(const char *name);

#endif
