/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/seats.h"

#include <string.h>
#include <time.h>

#include "host/registry_files.h"

/* Tries, and the time between two. */
#define TRIES	 50
#define PAUSE_NS 200000

bool vb_seats_lock(struct vb_registry *reg, bool patient)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	if (!reg->file || reg->lock_fd < 0)
		return false;
	for (int i = 0; i < (patient ? TRIES : 1); i++) {
		if (i)
			nanosleep(&pause, NULL);
		if (!vb_regfile_lock(reg->lock_fd, VB_SLOTS, 1))
			return true;
	}
	return false;
}

void vb_seats_unlock(struct vb_registry *reg)
{
	vb_regfile_unlock(reg->lock_fd, VB_SLOTS, 1);
}

/* What others wrote is believed only as far as it fits. */
static uint32_t count(const struct vb_registry *reg)
{
	uint32_t n = atomic_load(&reg->file->seats.n);

	return n < VB_SEATS ? n : VB_SEATS;
}

/* A slot's process as a word: the next one that has the slot is another. */
static uint64_t word_of(const struct vb_registry *reg, uint32_t slot)
{
	struct vb_registry_entry entry = {.id = {0}};
	uint32_t tag;

	vb_registry_read(reg, slot, &entry);
	memcpy(&tag, entry.id, sizeof(tag));
	return (uint64_t)tag << 32 | (slot + 1);
}

static bool is_alive(const struct vb_registry *reg, uint64_t word)
{
	uint32_t slot = (uint32_t)word - 1;
	pid_t pid;

	return slot < VB_SLOTS && word == word_of(reg, slot) && vb_registry_locked(reg, slot, &pid);
}

/* The last one moves into the hole, as in the kernel. */
static void remove_at(struct vb_registry *reg, uint32_t at)
{
	struct vb_registry_seats *seats = &reg->file->seats;
	uint32_t last = count(reg) - 1;

	atomic_store(&seats->seat[at], atomic_load(&seats->seat[last]));
	atomic_store(&seats->n, last);
	if (!last)
		atomic_store(&seats->is_void, 0);
}

void vb_seats_sweep(struct vb_registry *reg)
{
	struct vb_registry_seats *seats = &reg->file->seats;
	uint32_t dead = 0;

	for (uint32_t i = 0; i < count(reg);) {
		if (is_alive(reg, atomic_load(&seats->seat[i]))) {
			i++;
			continue;
		}
		dead++;
		remove_at(reg, i);
	}
	/* Which of them the kernel took out first decides who has which number now. */
	if (dead > 1 && count(reg) > 1)
		vb_seats_void(reg);
}

bool vb_seats_take(struct vb_registry *reg, uint32_t families)
{
	struct vb_registry_seats *seats = &reg->file->seats;
	uint32_t n = count(reg);

	if (!n)
		atomic_store(&seats->families, families);
	if (n == VB_SEATS || atomic_load(&seats->families) != families) {
		vb_seats_void(reg);
		return false;
	}
	atomic_store(&seats->seat[n], word_of(reg, reg->slot));
	atomic_store(&seats->n, n + 1);
	return true;
}

void vb_seats_leave(struct vb_registry *reg)
{
	uint64_t own = word_of(reg, reg->slot);

	for (uint32_t i = 0; i < count(reg); i++)
		if (atomic_load(&reg->file->seats.seat[i]) == own) {
			remove_at(reg, i);
			return;
		}
}

void vb_seats_void(struct vb_registry *reg)
{
	atomic_store(&reg->file->seats.is_void, 1);
}

uint32_t vb_seats_rows(struct vb_registry *reg, struct vb_seat_row rows[VB_SEAT_ROWS])
{
	struct vb_registry_seats *seats = &reg->file->seats;
	uint32_t n = 0, seated = count(reg);

	if (atomic_load(&seats->is_void))
		return 0;
	for (uint32_t block = 1; block < VB_BLOCKS && n < VB_SEAT_ROWS; block++) {
		uint32_t slot, ordinal;

		if (vb_registry_block(reg, block, &slot, &ordinal))
			continue;
		for (uint32_t i = 0; i < seated; i++)
			if ((uint32_t)atomic_load(&seats->seat[i]) == slot + 1) {
				rows[n++] = (struct vb_seat_row){block, i};
				break;
			}
	}
	return n;
}
