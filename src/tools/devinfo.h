/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TOOLS_DEVINFO_H
#define VB_TOOLS_DEVINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * Theory of operation
 *
 * ibv_devinfo prints what rdma-core's prints, byte for byte. rdma-core's output
 * changed after release 44: VERBENA_DEVINFO_FORM=new chooses the later form, and
 * the form of 44 is the default. What the later form asks for may be missing from
 * the header this is built with, so those calls are declared here and looked up
 * when the program runs; a library without them simply answers no.
 */

/* The name of one value or of one bit. */
struct devinfo_name {
	uint64_t value;
	const char *text;
	bool newer; /* not in the form of release 44 */
};

struct devinfo_options {
	bool verbose;
	bool newer;   /* the form of the releases after 44 */
	uint8_t port; /* 0: all */
};

/* Exported by every release, declared by no installed header. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* Whatever header this is built with: room for the port attributes of every release. */
union devinfo_port {
	struct ibv_port_attr attr;
	struct {
		uint8_t until_44[52];
		uint32_t active_speed_ex;
	} newer;
};

/** devinfo_name_of() - The text of a value
 * @otherwise: Returned where the table has no such value
 */
const char *devinfo_name_of(const struct devinfo_name *table, size_t n, uint64_t value,
			    const char *otherwise);

/** devinfo_bits() - Print the names of the bits that are set, a line each, the rest in hex */
void devinfo_bits(const struct devinfo_options *opt, const struct devinfo_name *table, size_t n,
		  uint64_t bits);

/** devinfo_device() - Print the lines of a device, without its ports */
void devinfo_device(const struct devinfo_options *opt, struct ibv_context *ctx,
		    const struct ibv_device_attr_ex *attr);

/** devinfo_port() - Print the lines of a port
 * Return:  0, or what the exit status of the program takes up
 */
int devinfo_port(const struct devinfo_options *opt, struct ibv_context *ctx, uint8_t port);

#define DEVINFO_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
