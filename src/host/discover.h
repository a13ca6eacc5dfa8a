/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_DISCOVER_H
#define VB_HOST_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "object/device.h"

/*
 * Theory of operation
 *
 * Which devices there are is decided once per process, at the first question, from
 * settings and interfaces. What a port is now is asked at each call, while devices are in
 * use (vb_devices_attend()) only of what the kernel has announced to have changed. All of this
 * works in a child made by fork too, which keeps the devices (a program may open in
 * the child what it listed in the parent) but shares nothing else with its parent.
 */

/** vb_devices() - The devices of this host
 * @count:  Receives their number, 0..VB_DEVICES_MAX
 * Context: any thread
 * Return:  0, or negative errno where the interfaces could not be asked for want of
 *          descriptors or memory; asking again later is right
 */
int vb_devices(size_t *count);

/** vb_device_at() - A device by its position
 * @index:  Below the count of vb_devices()
 * Return:  the device, always the same pointer
 */
struct vb_device *vb_device_at(size_t index);

/** vb_device_find() - A device by its name
 * Return:  the device, NULL where there is none
 */
struct vb_device *vb_device_find(const char *name);

/** vb_devices_problem() - What the settings asked for and could not be had
 * @index:  From 0; meaningful after vb_devices()
 * Return:  a sentence for people, NULL past the last
 */
const char *vb_devices_problem(size_t index);

/** vb_devices_attend() - Devices are in use: listen to what the kernel announces
 *
 * A look at an interface costs some 45 us, and a program that connects looks at each address.
 */
void vb_devices_attend(void);

/** vb_devices_leave() - Undo one vb_devices_attend() */
void vb_devices_leave(void);

/** vb_devices_news() - A number that changes when links, addresses or routes may have changed
 * With every call while nobody attends.
 */
uint64_t vb_devices_news(void);

/** vb_device_is() - Whether a pointer is one of the devices */
bool vb_device_is(const struct ibv_device *ibv);

/** vb_device_port() - A port now
 * @port:   1
 * Return:  0, -EINVAL for a port the device does not have
 */
int vb_device_port(struct vb_device *dev, uint32_t port, struct vb_port_facts *facts);

/** vb_device_gid() - One entry of the GID table now
 * @port:   1
 * @index:  Below gid_tbl_len
 * @entry:  Receives it; `used` is false and the rest zero for an empty one
 * Return:  0, -EINVAL for a port or index the device does not have
 */
int vb_device_gid(struct vb_device *dev, uint32_t port, uint32_t index, struct vb_gid_entry *entry);

/** vb_device_gids() - The whole GID table now, in one look at the interface
 * @entries: Room for @max entries, filled from index 0
 * Return:   number of entries of the table (gid_tbl_len), filled or not; -EINVAL for a
 *           port the device does not have
 */
int vb_device_gids(struct vb_device *dev, uint32_t port, struct vb_gid_entry *entries, size_t max);

/** vb_device_gid_find() - The index of a GID
 * @raw:    16 bytes, network order
 * @type:   enum vb_gid_type
 * Return:  the index, -ENOENT
 */
int vb_device_gid_find(struct vb_device *dev, uint32_t port, const uint8_t raw[16], uint32_t type);

/** vb_device_gid_known() - Whether a RoCE v2 GID stood in the table at the last look at it
 * Context: asks nobody, so that it may be called for each packet. Every other function here looks,
 *          and so does the engine's thread when addresses change
 */
bool vb_device_gid_known(const struct vb_device *dev, const uint8_t raw[16]);

#endif
