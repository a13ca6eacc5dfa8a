/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_SETTINGS_H
#define VB_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Theory of operation
 *
 * Settings come from the environment (VERBENA_<NAME>), else from the ini file
 * VERBENA_CONFIG names, else from the profile VERBENA_PROFILE names, else there is
 * none and the default holds. An ini file may have a section for each device, named
 * after it; what stands there holds for that device and comes first, being the most
 * particular. All is read once per process, at the first question, into static memory:
 * a text handed out stays good whatever the program does to its environment. A
 * constructor must not ask: programs set variables before they call the first verb.
 * Names beginning with TEST_ belong to tests and are nobody's settings.
 *
 * Nothing is printed about a bad value: the default holds instead, and
 * vb_settings_problems() tells `verbena doctor` about it. The rows of settings.def say
 * which settings there are. Set-uid programs have no settings.
 */

enum vb_setting_kind {
	VB_SETTING_TEXT,
	VB_SETTING_NUMBER,
	VB_SETTING_CHOICE,
	VB_SETTING_GUID,
	VB_SETTING_PATH
};

struct vb_setting_row {
	const char *name; /* "MAX_QP" */
	enum vb_setting_kind kind;
	unsigned long long min, max;
	const char *fallback; /* the default, as text */
	const char *allowed;  /* for people; the words of a choice */
	const char *meaning;
};

enum vb_setting_origin { VB_FROM_DEFAULT, VB_FROM_PROFILE, VB_FROM_FILE, VB_FROM_ENVIRONMENT };

/** vb_setting() - The value of a setting as text
 * @name:   Name in upper case without the prefix, e.g. "EXPLAIN"
 * Context: any thread; the files are read once per process
 * Return:  the value as it was found, valid until the process ends, or NULL where it is
 *          not set
 */
const char *vb_setting(const char *name);

/** vb_setting_in() - The value of a setting for one device
 * @section: Name of the device; NULL: as vb_setting()
 * Return:   as vb_setting(); what the device's own section says comes first
 */
const char *vb_setting_in(const char *section, const char *name);

/** vb_setting_text() - A setting that is sure to be valid
 * @section: Name of the device, or NULL
 * @name:    A name of settings.def
 * Return:   the value where there is a valid one, else the default; never NULL
 */
const char *vb_setting_text(const char *section, const char *name);

/** vb_setting_number() - A number of settings.def
 * @section: Name of the device, or NULL
 * @name:    A name of kind NUMBER
 * Return:   the value where there is a valid one, else the default
 */
unsigned long long vb_setting_number(const char *section, const char *name);

/** vb_setting_choice() - A choice of settings.def
 * @section: Name of the device, or NULL
 * @name:    A name of kind CHOICE
 * Return:   position of the word among those allowed, from 0
 */
int vb_setting_choice(const char *section, const char *name);

/** vb_setting_guid() - A GUID of settings.def
 * @name:    A name of kind GUID
 * @guid:    Receives it in host order where there is a valid one
 * Return:   whether there is
 */
bool vb_setting_guid(const char *section, const char *name, unsigned long long *guid);

/** vb_setting_u64() - A number from a setting
 * @name:   As for vb_setting()
 * @min:    Smallest value taken
 * @max:    Largest value taken
 * @otherwise: Returned where the setting is absent, not a number, or outside
 * Return:  the number
 */
unsigned long long vb_setting_u64(const char *name, unsigned long long min, unsigned long long max,
				  unsigned long long otherwise);

/** vb_setting_origin() - Where the value of a setting comes from
 * @section: Name of the device, or NULL
 */
enum vb_setting_origin vb_setting_origin(const char *section, const char *name);

/** vb_setting_section() - A device section of the ini file
 * @index:  From 0, in the order of the file
 * Return:  its name, NULL past the last
 */
const char *vb_setting_section(size_t index);

/** vb_setting_row() - A setting there is
 * @index:  From 0
 * Return:  the row, NULL past the last
 */
const struct vb_setting_row *vb_setting_row(size_t index);

/** vb_setting_valid() - Whether a text is a value of a setting
 * @text:   The value
 */
bool vb_setting_valid(const struct vb_setting_row *row, const char *text);

/* What is wrong, and where: a file with a line, or the environment. */
struct vb_setting_problem {
	const char *where; /* "environment" or the path of a file */
	const char *name;  /* setting, or "" */
	const char *value; /* as found, or "" */
	const char *what; /* "unknown setting", "not allowed", "cannot be read", "not understood" */
	int line;	  /* of a line not understood, else 0 */
};

/** vb_settings_problems() - What was found and could not be used
 * @visit:  Called once for each, until it returns false
 */
void vb_settings_problems(bool (*visit)(const struct vb_setting_problem *problem, void *arg),
			  void *arg);

/** vb_settings_reload() - Forget all and read again (tests only)
 * Texts handed out before are no longer good.
 */
void vb_settings_reload(void);

#endif
