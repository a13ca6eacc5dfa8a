/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_IMPORT_H
#define VB_VERBS_IMPORT_H

#include <stdbool.h>

#include "object/context.h"

/*
 * Theory of operation
 *
 * An imported context is a context of its own (descriptors, events, new objects) that
 * also knows its origin: the one whose cmd_fd was duplicated. An imported object is a
 * struct of its own with the handle of the original, listed with its context; it is
 * valid as long as the original is in the table of the origin. Destroying it destroys
 * the original for all, and un-importing it only the struct. The original's struct is
 * then still in the hands of whoever made it: it is kept until its context ends.
 */

/* One imported object, or (with object NULL) the struct of one destroyed by an import. */
struct vb_import {
	struct vb_import *next;
	void *object;
	void *original;
	uint32_t handle;
	struct vb_idtable *table; /* of the origin, where the original stands */
};

/** vb_import_valid() - Is this an imported object of the context, and its original alive?
 * @handle: From the public struct
 */
bool vb_import_valid(const struct vb_context *ctx, uint32_t handle, const void *object);

/** vb_import_end() - Free the struct of an object that was destroyed
 * @ctx:      Context of the struct that the program passed
 * @object:   That struct
 * @original: What was destroyed: @object itself, or its original
 */
void vb_import_end(struct vb_context *ctx, void *object, void *original);

/** vb_import_free() - Free what a context still has listed; it goes away */
void vb_import_free(struct vb_context *ctx);

#endif
