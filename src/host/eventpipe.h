/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_EVENTPIPE_H
#define VB_HOST_EVENTPIPE_H

#include <stddef.h>

#include "host/peer.h"

/*
 * Completion channels and asynchronous events are pipes. The owner keeps both ends and
 * hands the read end to the program; producers open the write end anew
 * through /proc, read-write, so that a reader that went away raises no SIGPIPE, and
 * non-blocking. Records are shorter than PIPE_BUF and therefore whole.
 */

/** vb_eventpipe_create() - Make a pipe
 * @fds: Receives read end (blocking, as programs expect) and write end (non-blocking), both
 *       close-on-exec; the caller's
 * Return: 0, -EMFILE, -ENFILE
 */
int vb_eventpipe_create(int fds[2]);

/** vb_eventpipe_begin() - Make a pipe that peers can write to, but its owner cannot yet
 * @fds: As above, but for the write end, which is for vb_eventpipe_finish()
 * Return: as above
 */
int vb_eventpipe_begin(int fds[2]);

/** vb_eventpipe_finish() - Let its owner write to it as well
 * A write end that is a read end too never raises SIGPIPE, even when a program has closed the one
 * it was given.
 * @fd:     The write end; keeps its number
 * Context: any thread, any number of them
 */
void vb_eventpipe_finish(int fd);

/** vb_peer_event_write() - Write a record to a pipe of a peer
 * @fd_number: The write end's number in the peer, from its published part
 * @record:    At most PIPE_BUF bytes
 * Context: any thread; never blocks. The descriptor is kept for the next time
 * Return:  0, -EAGAIN (full), -EBADF (no pipe there), -ESRCH, -EACCES, -EMFILE
 */
int vb_peer_event_write(struct vb_peer *p, int fd_number, const void *record, size_t bytes);

/** vb_peer_event_forget() - Close the kept descriptor of one pipe
 * @fd_number: As above; -1 all
 * Context: when the channel's CQ changed generation or the peer goes
 */
void vb_peer_event_forget(struct vb_peer *p, int fd_number);

#endif
