/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TOOLS_VERBENA_H
#define VB_TOOLS_VERBENA_H

#include <stddef.h>

/* Exit statuses beside 0. Of a command that was run, it is the command's own. */
enum {
	VERBENA_WRONG = 1,	      /* something is wrong */
	VERBENA_USAGE = 2,	      /* called wrongly */
	VERBENA_NOT_EXECUTABLE = 126, /* as shells say it */
	VERBENA_NOT_FOUND = 127,
};

/* Commands take their arguments with the command's name first and return a status. */
int verbena_run(int argc, char **argv);
int verbena_explain(int argc, char **argv);
int verbena_doctor(int argc, char **argv);
int verbena_sysfs(int argc, char **argv);

/** verbena_libdir() - The folder that holds the libraries beside this program
 * Found from where the program itself lies: a build tree or an installation, moved or not.
 * @dir:    Receives it
 * @size:   Room there
 * Return:  0 or -1 where there is none
 */
int verbena_libdir(char *dir, size_t size);

/** verbena_say() - "verbena: ..." on standard error */
void verbena_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
