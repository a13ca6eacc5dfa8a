/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/waiter.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int vb_rs_waiter_init(struct vb_rs_waiter *waiter)
{
	waiter->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	waiter->signaled = 0;
	return waiter->fd < 0 ? -1 : 0;
}

void vb_rs_waiter_fini(struct vb_rs_waiter *waiter)
{
	close(waiter->fd);
}

void vb_rs_waiter_clear(struct vb_rs_waiter *waiter)
{
	uint64_t count;
	ssize_t got;

	if (!atomic_load(&waiter->signaled))
		return;
	do
		got = read(waiter->fd, &count, sizeof(count));
	while (got < 0 && errno == EINTR);
	/* After the read: what is signaled from here on writes again. */
	atomic_store(&waiter->signaled, 0);
}

void vb_rs_link_add(struct vb_rs_links *links, struct vb_rs_link *link, struct vb_rs_waiter *waiter)
{
	link->waiter = waiter;
	link->next = links->first;
	link->at = &links->first;
	if (link->next)
		link->next->at = &link->next;
	links->first = link;
}

void vb_rs_link_remove(struct vb_rs_link *link)
{
	if (!link->at)
		return;
	*link->at = link->next;
	if (link->next)
		link->next->at = link->at;
	link->at = NULL;
}

void vb_rs_links_wake(struct vb_rs_links *links)
{
	static const uint64_t one = 1;
	int kept = errno;

	for (struct vb_rs_link *link = links->first; link; link = link->next) {
		ssize_t put;

		if (atomic_exchange(&link->waiter->signaled, 1))
			continue;
		do
			put = write(link->waiter->fd, &one, sizeof(one));
		while (put < 0 && errno == EINTR);
	}
	errno = kept;
}
