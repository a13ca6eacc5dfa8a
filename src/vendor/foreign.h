/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VENDOR_FOREIGN_H
#define VB_VENDOR_FOREIGN_H

#include <errno.h>
#include <stddef.h>

/*
 * How a vendor's library answers on a device of another kind. Programs ask exactly
 * this way whether a device is the vendor's, and go on with plain verbs.
 *
 *   NO_OBJECT(f)  returns a pointer: NULL, errno EOPNOTSUPP
 *   NO_CODE(f)    returns an errno value: EOPNOTSUPP
 *   NO_NEGATIVE(f) returns a count or a negative errno: -EOPNOTSUPP
 *   NO_FD(f)      returns a descriptor or a length: -1, errno EOPNOTSUPP
 *   NOTHING(f)    returns nothing
 *
 * The arguments are never looked at, so none are declared; for the same reason the
 * vendor's header is not included.
 */

#define NO_OBJECT(name)                                                                            \
	void *name(void);                                                                          \
	void *name(void)                                                                           \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return NULL;                                                                       \
	}
#define NO_CODE(name)                                                                              \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return EOPNOTSUPP;                                                                 \
	}
#define NO_NEGATIVE(name)                                                                          \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return -EOPNOTSUPP;                                                                \
	}
#define NO_FD(name)                                                                                \
	long name(void);                                                                           \
	long name(void)                                                                            \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return -1;                                                                         \
	}
#define NOTHING(name)                                                                              \
	void name(void);                                                                           \
	void name(void)                                                                            \
	{                                                                                          \
	}

#endif
