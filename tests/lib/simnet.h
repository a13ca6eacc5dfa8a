/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_SIMNET_H
#define VB_TESTS_SIMNET_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/fake_env.h"
#include "transport/rc_comp.h"
#include "transport/rc_req.h"
#include "transport/rc_resp.h"
#include "transport/uc_resp.h"
#include "wire/icrc.h"

/*
 * Two RC or UC endpoints and the link between them, in one thread and in virtual time.
 * Packets travel as bytes, with ICRC. Everything random comes from one seed, so a
 * run is repeated by its seed and its drop masks.
 */

#define SIM_FRAMES  2048
#define SIM_BYTES   (4096 + 64)
#define SIM_RING    64
#define SIM_TIMERS  64
#define SIM_OUT_MAX 64

/* What one direction of the link does to packets. */
struct sim_link {
	uint64_t drop_mask;	     /* bit n: the n-th packet is lost */
	uint32_t loss, dup, reorder; /* per mille of all packets */
	uint32_t corrupt;	     /* per mille: a bit flips on the way, the ICRC notices */
	uint32_t mutate;	     /* per mille: a bit flips before the ICRC is written */
	uint64_t delay_ns;
	uint32_t count; /* packets so far */
};

struct sim_end {
	struct vb_rc_sq sq;
	struct vb_rc_wqe ring[SIM_RING];
	struct vb_resp_qp qp;
	struct vb_rc_resp resp;
	struct fake_env env;
	struct vb_source src; /* how the other end appears to this one */
	struct vb_flow flow;  /* of packets this end sends */
	struct sim_link link; /* likewise */
	struct vb_out_sent sent[FAKE_WQES];
	uint64_t sent_ns[FAKE_WQES];
	uint32_t nsent;
	enum vb_event events[16];
	uint32_t nevents, qp_errs;
	uint32_t verdicts[VB_V_COUNT];
};

struct sim_frame {
	uint64_t at_ns, order;
	int to;
	uint32_t len;
	uint8_t bytes[SIM_BYTES];
};

struct sim_timer {
	uint64_t at_ns;
	void (*run)(void *arg);
	void *arg;
};

struct simnet {
	struct sim_end end[2];
	uint64_t now_ns;
	uint64_t seed; /* state of the random numbers */
	uint64_t order;
	uint32_t out_cap; /* records a machine may add per call, at least 4 */
	uint32_t budget;  /* packets per call */
	uint64_t steps;
	uint32_t nframes, ntimers;
	struct sim_timer timers[SIM_TIMERS];
	struct sim_frame *frames[SIM_FRAMES]; /* the first nframes travel */
	struct sim_frame pool[SIM_FRAMES];
};

/* How both ends are set up. */
struct sim_conf {
	enum vb_service service; /* RC or UC */
	uint64_t seed;
	uint32_t mtu, window;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t rd_atomic;
	uint32_t psn; /* of both ends */
	uint32_t out_cap, budget;
};

/** sim_new() - Two connected endpoints in RTS; memory is the caller's to set */
struct simnet *sim_new(void);
void sim_free(struct simnet *sim);

/** sim_init() - Begin anew in the same memory */
void sim_init(struct simnet *sim, const struct sim_conf *conf);

/** sim_random() - Next number, 32 bits */
uint32_t sim_random(uint64_t *seed);

/** sim_at() - Call a function at a virtual time */
void sim_at(struct simnet *sim, uint64_t at_ns, void (*run)(void *arg), void *arg);

/** sim_post() - Post a work request at an end
 * @wqe:    Copied
 * @local:  Its local buffer, owned by the test
 * Return:  index in the ring
 */
uint32_t sim_post(struct simnet *sim, int end, const struct vb_rc_wqe *wqe, uint8_t *local);

/** sim_run() - Until nothing is under way and no timer is left
 * Context: fails the test when that does not come
 */
void sim_run(struct simnet *sim);

#endif
