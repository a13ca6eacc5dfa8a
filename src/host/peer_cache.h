/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_PEER_CACHE_H
#define VB_HOST_PEER_CACHE_H

#include "host/adapter.h"

/* The peers an adapter knows; used by adapter.c only. */

/** vb_peers_create() - Set a->peers and a->self
 * Return: 0, -ENOMEM
 */
int vb_peers_create(struct vb_adapter *a);

/** vb_peers_destroy() - Drop all peers; nobody has a reference any more */
void vb_peers_destroy(struct vb_adapter *a);

/** vb_peers_forget() - After fork, in the child: close the descriptors */
void vb_peers_forget(struct vb_adapter *a);

#endif
