/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_NUMBERS_H
#define VB_HOST_NUMBERS_H

#include "host/adapter.h"

/* Blocks and numbers of an adapter; the calls for everybody are in adapter.h. */

/** vb_numbers_fini() - Free the id maps */
void vb_numbers_fini(struct vb_adapter *a);

#endif
