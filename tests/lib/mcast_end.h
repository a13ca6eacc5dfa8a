/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_MCAST_END_H
#define VB_TESTS_MCAST_END_H

#include <stdbool.h>

#include "lib/verbs_many.h"

/*
 * A process with UD QPs that does what it is told, line by line, and answers each line with "ok"
 * once it is done; where something fails it ends with a message. Started as
 *
 *   PROGRAM --end [--uid N]
 *
 * open QPS                 QPs in RTS, with receives
 * attach GROUP, detach GROUP   all of them; GROUP as text, IPv4 or IPv6
 * send GROUP SENDER FIRST COUNT SIZE   messages of lib/verbs_many.h from the first QP
 * wait SENDER N            until each QP has got the messages below N of a sender, none of
 *                          them twice
 * got SENDER N             the same, but some may be missing: the last one counts
 * close                    everything, and ends
 */

/** mcast_main() - Serve where this process was started for that
 * Context: first thing in main(); returns in the test itself only
 */
void mcast_main(int argc, char **argv);

/** mcast_group() - A group's GID by its text */
union ibv_gid mcast_group(const char *text);

/** mcast_source() - An index of the GID table from which packets to a group can leave */
int mcast_source(struct ibv_context *context, const union ibv_gid *group);

/* Such a process of the test's own. */
struct mcast_end {
	int pid, fd;
};

/** mcast_start() - Start one and have it open the device */
void mcast_start(struct mcast_end *e, int qps);

/** mcast_tell() - Give it a line and wait for its "ok" */
void mcast_tell(struct mcast_end *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** mcast_stop() - Have it close; checks how it ends */
void mcast_stop(struct mcast_end *e);

/** mcast_kill() - SIGKILL */
void mcast_kill(struct mcast_end *e);

#endif
