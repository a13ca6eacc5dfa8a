/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <string.h>

#include "transport/out.h"

struct vb_out_record *vb_out_add(struct vb_out *out, enum vb_out_kind kind)
{
	struct vb_out_record *record = &out->records[out->count];

	assert(out->count < out->capacity);
	out->count++;
	memset(record, 0, sizeof(*record));
	record->kind = kind;
	return record;
}

void vb_out_event(struct vb_out *out, enum vb_event event)
{
	vb_out_add(out, VB_OUT_EVENT)->event = event;
}
