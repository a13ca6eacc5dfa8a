/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/liveness.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int vb_liveness_engine_start(struct vb_adapter *a)
{
	struct vb_liveness *list = &a->liveness;

	list->head.list.next = &list->node;
	list->node.next = &list->head.list;
	list->head.futex_offset = (long)((intptr_t)&a->mbx->alive - (intptr_t)&list->node);
	if (syscall(SYS_set_robust_list, &list->head, sizeof(list->head)))
		return -errno;
	atomic_store(&a->mbx->alive, (uint32_t)syscall(SYS_gettid));
	return 0;
}

void vb_liveness_engine_stop(struct vb_adapter *a)
{
	atomic_store(&a->mbx->alive, 0);
	/* An empty list; the head stays until the adapter goes, after the thread. */
	a->liveness.head.list.next = &a->liveness.head.list;
}

bool vb_peer_check(struct vb_peer *p)
{
	const struct vb_registry *reg = &p->adapter->registry;
	struct vb_registry_entry entry;
	pid_t pid;
	bool dead;

	if (p->self)
		return false;
	if (atomic_load(&p->dead))
		return true;
	if (!vb_registry_locked(reg, p->slot, &pid))
		dead = true;
	else if (pid && p->lock_pid && pid != p->lock_pid)
		dead = true;
	else
		dead = !vb_registry_read(reg, p->slot, &entry) &&
		       memcmp(entry.id, p->id, sizeof(p->id)) != 0;
	if (dead)
		atomic_store(&p->dead, true);
	return dead;
}
