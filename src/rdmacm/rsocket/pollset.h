/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_POLLSET_H
#define VB_RDMACM_RSOCKET_POLLSET_H

#include <poll.h>
#include <signal.h>
#include <stdint.h>

/** vb_rs_poll_until() - poll() over rsockets and ordinary descriptors
 * @fds:    As for poll()
 * @until_ns: CLOCK_MONOTONIC; 0: only look; UINT64_MAX: no limit
 * Return:  as poll()
 */
int vb_rs_poll_until(struct pollfd *fds, nfds_t nfds, uint64_t until_ns);

/** vb_rs_deadline() - When a timeout in milliseconds ends; negative: never, 0: 0 */
uint64_t vb_rs_deadline(int timeout_ms);

/** vb_rs_sleep() - ppoll() until a time. Return: as poll(), -1 with EINTR too */
int vb_rs_sleep(struct pollfd *fds, nfds_t nfds, uint64_t until_ns);

#endif
