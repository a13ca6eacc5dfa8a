/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_CM_BED_H
#define VB_TESTS_CM_BED_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "lib/child.h"

/*
 * Both sides of connections of librdmacm for tests: in one process, each with a channel of
 * its own, or the listening one in a process of its own. Ports are chosen by the library, so
 * that tests run beside each other. All functions end the test process where something fails
 * that the test does not ask about; waiting gives up after BED_PATIENCE_S.
 */

#define BED_PATIENCE_S 200

union bed_addr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

/* Addresses of the loopback interface, or of the device's, port 0. */
union bed_addr bed_loopback(int family);
union bed_addr bed_wildcard(int family);
/** bed_own() - An address of the device of that family
 * Return: false: it has none
 */
bool bed_own(int family, union bed_addr *addr);
void bed_set_port(union bed_addr *addr, uint16_t port);

/** bed_next() - Wait for the next event; the caller acknowledges */
struct rdma_cm_event *bed_next(struct rdma_event_channel *channel);
/** bed_want() - The next event is of that type, with that status */
struct rdma_cm_event *bed_want(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
			       int status);
/** bed_take() - The same, acknowledged */
void bed_take(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/** bed_quiet() - No event waits, and the descriptor says so */
bool bed_quiet(struct rdma_event_channel *channel);
/** bed_readable() - Whether the descriptor says that one waits */
bool bed_readable(struct rdma_event_channel *channel);

struct bed {
	enum rdma_port_space ps;
	union bed_addr addr; /* of the listener, with its port */
	struct rdma_event_channel *passive, *active;
	struct rdma_cm_id *listener, *client, *server;
};

/** bed_listen() - Channels and a listener
 * @addr:   Where; its port becomes the one that was chosen
 */
void bed_listen(struct bed *bed, enum rdma_port_space ps, const union bed_addr *addr, int backlog);
/** bed_here() - Where this process listens: 127.0.0.1, or with VB_TEST_OTHER the device's address
 */
union bed_addr bed_here(void);
/** bed_serve() - Listen, on the other host where there is one (enter_other())
 * @to:     A pipe, which gets a union bed_addr: where
 */
void bed_serve(struct bed *bed, enum rdma_port_space ps, int to);
/** bed_resolve() - The client, its address and route resolved */
void bed_resolve(struct bed *bed);
/** bed_resolve_id() - Likewise for one more id on a channel */
struct rdma_cm_id *bed_resolve_id(const struct bed *bed, struct rdma_event_channel *channel);
/** bed_qp() - A QP with four requests of either kind */
void bed_qp(struct rdma_cm_id *id);
/** bed_request() - The client connects; the request's id is the server. The event is not
 * acknowledged
 */
struct rdma_cm_event *bed_request(struct bed *bed, struct rdma_conn_param *param);
/** bed_connect() - Everything up to ESTABLISHED on both sides */
void bed_connect(struct bed *bed);
/** bed_param() - Parameters that fit */
struct rdma_conn_param bed_param(void);
/** bed_hang_up() - The client disconnects, the server agrees */
void bed_hang_up(struct bed *bed);
/** bed_close() - All that is there, channels too */
void bed_close(struct bed *bed);
/** bed_end_id() - QP and id */
void bed_end_id(struct rdma_cm_id **id);

/** bed_ping() - A message from one to the other, whose bytes arrive */
void bed_ping(struct rdma_cm_id *from, struct rdma_cm_id *to);

/* What has to be as it was after a refusal. */
struct bed_shape {
	uint8_t bytes[sizeof(struct rdma_cm_id)];
};

/** bed_shape() - An id's public part, to compare */
struct bed_shape bed_shape(const struct rdma_cm_id *id);
bool bed_same(const struct bed_shape *shape, const struct rdma_cm_id *id);

/** FAILS() - A call fails with -1 and an errno */
#define FAILS(call, err)                                                                           \
	do {                                                                                       \
		errno = 0;                                                                         \
		int fails_ret_ = (call);                                                           \
		int fails_errno_ = errno;                                                          \
		if (fails_ret_ != -1 || fails_errno_ != (err)) {                                   \
			fprintf(stderr, "%s:%d: %s: %d, errno %d, want -1, %d\n", __FILE__,        \
				__LINE__, #call, fails_ret_, fails_errno_, (err));                 \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/** bed_run() - cmocka tests of the form void f(void), each in a process of its own */
#define BED_TEST(f)                                                                                \
	{                                                                                          \
#f, bed_in_child, NULL, NULL, (void *)(f)                                          \
	}
void bed_in_child(void **state);

#endif
