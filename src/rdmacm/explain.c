/* SPDX-License-Identifier: BSD-2-Clause */
/* What is told to somebody who asks why: texts that take some work to compose. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rdmacm/cm.h"

#define PORT 1

/* Text that is cut where it is full. */
struct text {
	char *bytes;
	size_t size, len;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->bytes + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n < t->size - t->len ? (size_t)n : t->size - t->len - 1;
}

void cm_explain_unacked(const struct cm_id *id, const char *call)
{
	char bytes[256] = "";
	struct text t = {bytes, sizeof(bytes), 0};

	if (!vb_explain_on())
		return;
	for (const struct cm_event *e = id->out; e; e = e->next_out)
		add(&t, "%s%s of id %p", e == id->out ? "" : ", ", rdma_event_str(e->event.event),
		    (void *)e->event.id);
	vb_explain(VB_RULE_CM_UNACKED, "%s id %p waits for %u event%s: %s", call, (const void *)id,
		   id->given_out, id->given_out == 1 ? "" : "s", bytes);
}

void cm_explain_padded(const struct cm_event *event)
{
	bool ud = event->id->id.qp_type == IBV_QPT_UD;
	const struct rdma_conn_param *conn = &event->event.param.conn;
	size_t size = ud ? event->event.param.ud.private_data_len : conn->private_data_len;
	const void *data = ud ? event->event.param.ud.private_data : conn->private_data;
	size_t used = size;

	if (data != event->private_data || !vb_explain_on())
		return;
	while (used && !event->private_data[used - 1])
		used--;
	if (used && used < size)
		vb_explain(VB_RULE_CM_PADDED, "%s: private_data_len=%zu, zeroes after %zu bytes",
			   rdma_event_str(event->event.event), size, used);
}

static void add_addresses(struct text *t, struct ibv_context *verbs)
{
	static const uint8_t none[16], mapped[12] = {[10] = 0xff, [11] = 0xff};
	char address[INET6_ADDRSTRLEN];
	struct ibv_port_attr port;

	if (ibv_query_port(verbs, PORT, &port))
		return;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		union ibv_gid gid;
		bool v4;

		if (ibv_query_gid(verbs, PORT, i, &gid) || !memcmp(gid.raw, none, sizeof(none)))
			continue;
		v4 = !memcmp(gid.raw, mapped, sizeof(mapped));
		add(t, " %s",
		    inet_ntop(v4 ? AF_INET : AF_INET6, gid.raw + (v4 ? 12 : 0), address,
			      sizeof(address)));
	}
}

const char *cm_text_address(const struct sockaddr *addr, char *bytes, size_t size)
{
	uint8_t gid[16];

	if (!cm_addr_gid(addr, gid) ||
	    !inet_ntop(addr->sa_family, addr->sa_family == AF_INET6 ? gid : gid + 12, bytes,
		       (socklen_t)size))
		return "?";
	return bytes;
}

const char *cm_text_devices(char *bytes, size_t size)
{
	struct text t = {bytes, size, 0};
	struct cm_device *all;
	int n = cm_devices(&all);

	bytes[0] = '\0';
	if (!vb_explain_on())
		return bytes;
	for (int i = 0; i < n; i++) {
		add(&t, "%s%s has", i ? "; " : "", all[i].verbs->device->name);
		add_addresses(&t, all[i].verbs);
	}
	return bytes;
}
