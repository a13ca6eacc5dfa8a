/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_SETTINGS_H
#define VB_BASE_SETTINGS_H

/*
 * Settings come from the environment (VERBENA_<NAME>), else from the ini file
 * VERBENA_CONFIG names, else from the profile chosen, else there is none and the
 * caller's default holds. Nothing is printed about a bad value: the caller takes
 * its default and `verbena doctor` says so.
 */

/** vb_setting() - The value of a setting as text
 * @name:   Name in upper case without the prefix, e.g. "EXPLAIN"
 * Context: any thread; the files are read once per process
 * Return:  the value, valid until the process ends, or NULL where it is not set. Always
 *          NULL in set-uid programs
 */
const char *vb_setting(const char *name);

/** vb_setting_u64() - A number from a setting
 * @name:   As for vb_setting()
 * @min:    Smallest value taken
 * @max:    Largest value taken
 * @otherwise: Returned where the setting is absent, not a number, or outside
 * Return:  the number
 */
unsigned long long vb_setting_u64(const char *name, unsigned long long min,
				  unsigned long long max, unsigned long long otherwise);

#endif
