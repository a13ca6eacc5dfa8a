/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_WIRE_FAULTS_H
#define VB_ENGINE_WIRE_FAULTS_H

#include "engine/engine.h"

/*
 * Faults on demand (setting FAULTS): what would leave is dropped, damaged, doubled or held back
 * for a while, by the rules of carrier/faults. Messages within the host travel as packets
 * then, so all of it holds for them too.
 */

struct vb_wire_faults;
struct vb_udp_burst;

/** vb_wire_faults_open() - Read the setting
 * @timer:  Receives a descriptor that becomes readable when something held back is due, or -1
 * Return:  NULL where there are no faults to make
 */
struct vb_wire_faults *vb_wire_faults_open(int *timer);

/** vb_wire_faults_close() - What is held back is lost; may be NULL */
void vb_wire_faults_close(struct vb_wire_faults *faults);

/** vb_wire_faults_send() - Send a burst's packets as the rules say
 * @b:      Its full is set as vb_wire_end() wants it
 */
void vb_wire_faults_send(struct vb_engine *engine, struct vb_wire_faults *faults,
			 struct vb_udp_burst *b);

/** vb_wire_faults_due() - Send what was held back long enough, and tell what became of the link
 * Context: any thread that holds no QP
 */
void vb_wire_faults_due(struct vb_engine *engine, struct vb_wire_faults *faults);

/** vb_wire_faults_down() - Whether nothing comes or goes at the moment */
bool vb_wire_faults_down(struct vb_wire_faults *faults);

/** vb_wire_faults_silent() - Whether the peer of a connected QP is heard of no more
 * @gid:    Of the peer
 * @qpn:    Its QP
 */
bool vb_wire_faults_silent(struct vb_wire_faults *faults, const uint8_t *gid, uint32_t qpn);

/** vb_wire_faults_anew() - A QP connects to it: this is another peer */
void vb_wire_faults_anew(struct vb_wire_faults *faults, const uint8_t *gid, uint32_t qpn);

/** vb_wire_faults_not_ready() - Whether a QP's responder is to take no receive now */
bool vb_wire_faults_not_ready(struct vb_wire_faults *faults, uint32_t qpn);

#endif
