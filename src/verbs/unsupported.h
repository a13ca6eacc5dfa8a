/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_UNSUPPORTED_H
#define VB_VERBS_UNSUPPORTED_H

struct vb_context;

/** vb_ops_fill_unsupported() - Give every op slot of a context a function that refuses
 * @ctx:    Its slots in context.ops and in the struct verbs_context are overwritten, all
 *          that programs call and all that the exported verbs use. The other fields (sz,
 *          abi_compat, descriptors, mutex) are the caller's
 * Context: before the context is handed out. Call it first, then set the slots that are
 *          implemented
 *
 * A slot must not be NULL because half of the inline verbs do not look. What a refusal
 * looks like: NULL with errno, or the errno value; poll_cq negative, since a positive
 * number is a count; the post functions also set the bad work request.
 */
void vb_ops_fill_unsupported(struct vb_context *ctx);

#endif
