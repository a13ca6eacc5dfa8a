/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_QUERY_H
#define VB_VERBS_QUERY_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/** vb_query_port_sized() - What the inline ibv_query_port reaches: the op slot
 * @attr:   Receives the attributes; caller's memory
 * @size:   Bytes of the caller's struct: filled exactly, zeroes behind what is known
 * Return:  0 or errno value
 * Errors:  EINVAL: no such port
 */
int vb_query_port_sized(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
			size_t size);

/** vb_query_device_ex() - What the inline ibv_query_device_ex reaches: the op slot
 * @input:  NULL, or comp_mask 0
 * @attr:   Receives the attributes; caller's memory
 * @size:   Bytes of the caller's struct, at least sizeof(struct ibv_device_attr):
 *          filled exactly, zeroes behind what is known
 * Return:  0 or errno value
 * Errors:  EINVAL: input or size
 */
int vb_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t size);

/** vb_query_rt_values() - The clock of the time stamps, now
 * @values: comp_mask says what is asked; raw_clock receives the time in nanoseconds of
 *          CLOCK_MONOTONIC as one number in tv_nsec, tv_sec 0, as mlx5 does with its ticks
 * Return:  0 or errno value
 * Errors:  EINVAL: unknown bits in comp_mask
 */
int vb_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

#endif
