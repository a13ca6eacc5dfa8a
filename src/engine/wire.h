/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_WIRE_H
#define VB_ENGINE_WIRE_H

#include <sys/socket.h>
#include <sys/un.h>

#include "carrier/local.h"
#include "carrier/udp.h"
#include "engine/engine.h"
#include "engine/wire_hand.h"

/*
 * Theory of operation
 *
 * QPs whose destination is not reached in memory run the packet machines of
 * src/transport over carrier/udp. Requester, completer and responder of such a QP stand in
 * struct vb_wire_qp and belong to whoever runs the QP (engine/requester), as all of its state
 * does. Packets are taken off the sockets by the engine's thread and by pollers, one at a time;
 * each is given to its QP. One for a QP of another process of this host is handed
 * to the socket that stands for its block of numbers, with the addresses it came with; what
 * comes that way is checked as if it came from the network.
 */

struct vb_wire;
struct vb_pace;

/* What a packet takes on a link beside its payload, about. */
#define VB_WIRE_HEADERS 80u

/** vb_wire_start() - Open the sockets, and have the engine's thread watch them
 * Context: any thread; the first call does it, later ones look for new blocks of numbers
 * Return:  0, or a negative errno. -ENOMEM: no packet comes or goes. Others: port 4791 cannot be
 *          bound, and packets of other hosts come through the process that has it, if it is one
 *          of ours
 */
int vb_wire_start(struct vb_engine *engine);

/** vb_wire_linger() - Wait until what waits for other processes of this host was taken
 *
 * A second for a process that takes nothing.
 */
void vb_wire_linger(struct vb_engine *engine);

/** vb_wire_close() - Close them; the thread has ended */
void vb_wire_close(struct vb_engine *engine);

/** vb_wire_udp() - Its sockets, NULL where there are none */
struct vb_udp *vb_wire_udp(struct vb_engine *engine);

/** vb_wire_forked() - In the child: the sockets are the parent's */
void vb_wire_forked(struct vb_engine *engine);

/** vb_wire_readable() - A descriptor that the engine's thread watches has become readable
 * @fd:     Perhaps one of the wire's: the next vb_wire_receive() of the thread looks at it
 * Context: engine's thread
 */
void vb_wire_readable(struct vb_engine *engine, int fd);

/** vb_wire_receive() - Take packets off the sockets and run what they bring
 * @thread: The engine's: it looks at what is readable, and waits for another that is at it, or it
 *          would be woken again and again. A poller looks where something came just now, since it
 *          costs a system call each, and returns at once where another is at it
 */
void vb_wire_receive(struct vb_engine *engine, bool thread);

/** vb_wire_waits() - Whether packets wait for receives
 * Return:  true: vb_wire_receive() is to be called again soon
 */
bool vb_wire_waits(struct vb_engine *engine);

/** vb_wire_begin() - Packets of one path that are to leave together
 * Return:  the burst, to be ended by vb_wire_end(); NULL where nothing can be sent
 */
struct vb_udp_burst *vb_wire_begin(struct vb_engine *engine, const struct vb_udp_path *path);

/* As vb_udp_burst_room() and vb_udp_burst_add(); sends what is there where there is no room. */
uint8_t *vb_wire_room(struct vb_engine *engine, struct vb_udp_burst *b,
		      const struct vb_packet *hdr);
void vb_wire_add(struct vb_engine *engine, struct vb_udp_burst *b, const struct vb_packet *hdr);

/** vb_wire_end() - Send them, by way of faults where some are asked for
 * Return:  false: a message of connection management found no room at a process of this host
 */
bool vb_wire_end(struct vb_engine *engine, struct vb_udp_burst *b);

/** vb_wire_leave() - Send them as they are
 * Return:  as vb_wire_end()
 */
bool vb_wire_leave(struct vb_engine *engine, struct vb_udp_burst *b);

/** vb_wire_end_plain() - Send them, without faults */
void vb_wire_end_plain(struct vb_engine *engine, struct vb_udp_burst *b);

/** vb_wire_deliver() - Hand one packet to the socket of a process of this host */
enum vb_wire_handed vb_wire_deliver(struct vb_engine *engine, struct vb_udp_datagram *d,
				    const struct sockaddr_un *to, socklen_t len);

/** vb_wire_deliver_block() - Hand one packet to the process of a block, behind those that wait */
enum vb_wire_handed vb_wire_deliver_block(struct vb_engine *engine, struct vb_udp_datagram *d,
					  uint32_t block);

/** vb_wire_handed() - Take one message of packets off such a socket and run what they bring
 * Context: engine's thread
 * Return:  whether there was one
 */
bool vb_wire_handed(struct vb_engine *engine, int fd);

/** vb_wire_not_ready() - Whether a fault has a responder take no receive now */
bool vb_wire_not_ready(struct vb_engine *engine, uint32_t qpn);

/** vb_wire_silent() - Whether a fault has the peer of a connected QP heard of no more
 * @gid:    Of the peer
 * @qpn:    Its QP
 */
bool vb_wire_silent(struct vb_engine *engine, const uint8_t *gid, uint32_t qpn);

/** vb_wire_anew() - A QP connects to it: this is another peer */
void vb_wire_anew(struct vb_engine *engine, const uint8_t *gid, uint32_t qpn);

/** vb_wire_pace() - The pace of what nobody acknowledges; NULL before vb_wire_start() */
struct vb_pace *vb_wire_pace(struct vb_engine *engine);

/** vb_wire_again_inside_ns() - Whether requests for a QP of another process of this host may leave
 * @qpn:    The QP's number, or the one of multicast
 * Return:  0, or the time to ask again: packets for that process wait for room there
 */
uint64_t vb_wire_again_inside_ns(struct vb_engine *engine, uint32_t qpn);

/** vb_wire_turn() - Who sends what nobody acknowledges receives now and then (engine/wire_pace.h)
 * Context: a thread of the program, after it has posted to a UC or UD QP; no locks held
 */
void vb_wire_turn(struct vb_engine *engine);

/* ---- One QP: engine/wire_qp.c ---- */

struct vb_wire_qp;

/** vb_wire_connect() - A QP goes to RTR or RTS: its attributes are set
 * Context: the QP is held. Where there is no memory or no socket qp->wire stays NULL, and requests
 *          end by their timers
 */
void vb_wire_connect(struct vb_engine *engine, struct vb_qp *qp, int to);

/** vb_wire_disconnect() - RESET or destroy; qp->wire is NULL afterwards
 * Context: the QP is held, or nobody can reach it any more
 */
void vb_wire_disconnect(struct vb_engine *engine, struct vb_qp *qp);

/** vb_wire_work() - Send what may be sent
 * Context: the running thread of the QP, in RTR, RTS or SQD
 * Return:  whether a message is under way
 */
bool vb_wire_work(struct vb_engine *engine, struct vb_qp *qp);

/** vb_wire_busy() - Is a message under way? Context: the QP is held */
bool vb_wire_busy(const struct vb_qp *qp);

/** vb_wire_error() - The QP goes to ERR: a receive in progress ends with it
 * Context: the running thread
 */
void vb_wire_error(struct vb_engine *engine, struct vb_qp *qp);

/* ---- UD: engine/wire_ud.c ---- */

/** vb_wire_datagram() - Send a request of a UD QP as a packet
 * @request: As for the local carrier: the message's payload begins with the network header, which
 *          the kernel writes here
 * Return:  0, or a negative errno: it is lost
 */
int vb_wire_datagram(struct vb_engine *engine, const struct vb_qp *qp, const struct vb_swqe *wqe,
		     const struct vb_local_request *request);

/** vb_wire_datagram_packet() - A packet for a UD QP came; as vb_wire_packet() */
void vb_wire_datagram_packet(struct vb_engine *engine, struct vb_qp *qp,
			     const struct vb_packet *pkt, const struct vb_udp_datagram *d);

/** vb_wire_packet() - A packet for a QP came
 * @more:   Another one for it follows at once: answers wait for that
 * Context: inside a grace section, the QP is held
 */
void vb_wire_packet(struct vb_engine *engine, struct vb_qp *qp, const struct vb_packet *pkt,
		    const struct vb_udp_datagram *d, bool more);

#endif
