/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_REGISTRY_FILES_H
#define VB_HOST_REGISTRY_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The registry's files: names, opening, locks, sweeping. Used by registry.c only. */

/** vb_regfile_name() - Name of a device's files here and now: boot, namespace, layout */
void vb_regfile_name(const char *device, char *name, size_t size);

/** vb_regfile_open() - Open a file of ours
 * @ending: ".lock" or ".slots"
 * @flags:  O_RDONLY, O_RDWR, or O_RDWR | O_CREAT
 * Return:  descriptor (close-on-exec), -ENOENT, -EPERM (not ours), -EMFILE ...
 */
int vb_regfile_open(int dirfd, const char *name, const char *ending, int flags);

/** vb_regfile_named() - Does the name still lead to this open file? */
bool vb_regfile_named(int dirfd, const char *name, const char *ending, int fd);

/** vb_regfile_fill() - Back a file with zeroed space up to a size; keeps what is there
 * Return: 0, -EFBIG (RLIMIT_FSIZE), -ENOSPC, -EOPNOTSUPP
 */
int vb_regfile_fill(int fd, uint64_t size);

/** vb_regfile_lock() - Lock bytes for writing without waiting; 0, or -1 and errno */
int vb_regfile_lock(int fd, uint32_t from, uint32_t count);

/** vb_regfile_unlock() - Unlock bytes */
void vb_regfile_unlock(int fd, uint32_t from, uint32_t count);

/** vb_regfile_unlink() - Remove both files if the lock file's name leads to @lock_fd
 * Context: all bytes of @lock_fd are locked by the caller
 */
void vb_regfile_unlink(int dirfd, const char *name, int lock_fd);

/** vb_regfile_sweep() - Remove what crashed processes and earlier boots left
 * @name: Of today's files, to know boot and namespace
 * @skip: Says which names this process has open: their lock files are not touched
 */
void vb_regfile_sweep(int dirfd, const char *name, bool (*skip)(const char *name));

#endif
