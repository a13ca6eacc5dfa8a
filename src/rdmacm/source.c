/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of this host's addresses the kernel sends from. It is asked once for each destination,
 * until a link, an address or a route changes: who connects by the thousand asks for the same few.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdmacm/cm.h"

/* Any port: only the way is looked for, nothing is sent. */
#define DISCARD 9
#define KNOWN	16

static struct known {
	bool used;
	uint64_t news; /* what vb_agent_news() said before the kernel was asked */
	struct sockaddr_storage to, from;
} known[KNOWN];
static unsigned oldest;

static bool find(const struct sockaddr_storage *to, uint64_t news, struct sockaddr_storage *from)
{
	bool found = false;

	cm_lock();
	for (int i = 0; i < KNOWN && !found; i++) {
		found = known[i].used && known[i].news == news &&
			!memcmp(&known[i].to, to, sizeof(*to));
		if (found)
			*from = known[i].from;
	}
	cm_unlock();
	return found;
}

static void keep(const struct sockaddr_storage *to, uint64_t news,
		 const struct sockaddr_storage *from)
{
	cm_lock();
	known[oldest++ % KNOWN] = (struct known){true, news, *to, *from};
	cm_unlock();
}

/* 0, or an errno. */
static int ask(int fd, const struct sockaddr_storage *to, struct sockaddr_storage *from)
{
	const struct sockaddr *at = (const struct sockaddr *)to;
	socklen_t len = sizeof(*from);

	memset(from, 0, sizeof(*from));
	if (connect(fd, at, cm_addr_len(at)) || getsockname(fd, (struct sockaddr *)from, &len))
		return errno ? errno : ENETUNREACH;
	cm_addr_set_port((struct sockaddr *)from, 0);
	return 0;
}

int cm_source(const struct cm_id *id, const struct sockaddr *dst, struct sockaddr_storage *from)
{
	struct sockaddr_storage to;
	char what[INET6_ADDRSTRLEN];
	uint64_t news = vb_agent_news();
	int fd, err;

	memset(&to, 0, sizeof(to));
	memcpy(&to, dst, cm_addr_len(dst));
	cm_addr_set_port((struct sockaddr *)&to, DISCARD);
	if (find(&to, news, from))
		return 0;
	fd = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return vb_fail_minus1(VB_RULE_CM_DESCRIPTORS, "id %p: %s", (const void *)id,
				      strerror(errno));
	err = ask(fd, &to, from);
	close(fd);
	if (err)
		return vb_fail_minus1(VB_RULE_CM_NO_ROUTE, "id %p: %s: %s", (const void *)id,
				      cm_text_address(dst, what, sizeof(what)), strerror(err));
	keep(&to, news, from);
	return 0;
}
