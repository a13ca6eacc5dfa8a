/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_RUNTIME_H
#define VB_HOST_RUNTIME_H

#include <stddef.h>

/*
 * Where the processes of one user meet: the first of
 *
 *      $VERBENA_RUNTIME_DIR          as it is, made where it is missing
 *      $XDG_RUNTIME_DIR/verbena      if XDG_RUNTIME_DIR is ours
 *      /run/user/UID/verbena         if /run/user/UID exists and is ours
 *      /dev/shm/verbena-UID
 *      /tmp/verbena-UID
 *
 * that exists or can be made as a directory (no symbolic link) of the effective
 * user with no rights for anybody else. Set-uid programs take nothing from the
 * environment. UID is what the parent of our user namespace calls us.
 */
#define VB_RUNTIME_CANDIDATES 5

/** vb_runtime_open() - Open one candidate for the runtime directory
 * @n:    Which, 0 .. VB_RUNTIME_CANDIDATES - 1
 * @make: Make the directory where it is missing
 * @path: Receives the path, also where opening it fails
 * @size: Bytes of @path
 * Context: any thread
 * Return:  a directory descriptor (close-on-exec, the caller's), or
 *          -ENOENT (no such candidate), -EPERM (somebody else's, a link, or open to
 *          others), or what open and mkdir say
 */
int vb_runtime_open(int n, int make, char *path, size_t size);

#endif
