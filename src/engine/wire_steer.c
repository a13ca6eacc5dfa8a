/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire_steer.h"

#include "base/settings.h"
#include "carrier/steer.h"
#include "carrier/udp.h"
#include "host/discover.h"

/* Packets between two judgements; more than a quarter of them another's is too many. */
#define WINDOW 4096u
/* Windows in a row that are that bad before steering is given up. */
#define REPAIRS 4

static struct vb_registry *registry(struct vb_engine *engine)
{
	return &engine->adapter->registry;
}

/* With several devices others' sockets stand between ours. */
static bool wanted(void)
{
	size_t devices = 0;

	return vb_setting_number(NULL, "STEERING") && !vb_devices(&devices) && devices == 1;
}

static void set_program_of(struct vb_engine *engine, int fd)
{
	struct vb_seat_row rows[VB_SEAT_ROWS];
	uint32_t n = vb_seats_rows(registry(engine), rows);

	if (fd < 0)
		return;
	if (!n)
		vb_steer_detach(fd);
	else if (vb_steer_attach(fd, rows, n))
		vb_seats_void(registry(engine));
}

/* Under the seats' lock: the program as the account is now. */
static void set_program(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp)
{
	steer->blocks = atomic_load(&engine->adapter->n_blocks);
	set_program_of(engine, udp->in[0]);
	set_program_of(engine, udp->in[1]);
}

/* Under both locks, after the sockets were bound. */
static void sit_down(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp)
{
	uint32_t families = (uint32_t)(udp->in[0] >= 0) | (uint32_t)(udp->in[1] >= 0) << 1;

	if (!families || steer->seated)
		return;
	steer->seated = vb_seats_take(registry(engine), families);
	set_program(engine, steer, udp);
}

static int bind_both(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp,
		     int (*bind)(struct vb_udp *udp))
{
	bool locked;
	int err;

	pthread_mutex_lock(&steer->lock);
	locked = wanted() && vb_seats_lock(registry(engine), true);
	if (locked)
		vb_seats_sweep(registry(engine));
	err = bind(udp);
	if (locked) {
		sit_down(engine, steer, udp);
		vb_seats_unlock(registry(engine));
	}
	pthread_mutex_unlock(&steer->lock);
	return err;
}

int vb_steer_open(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp)
{
	pthread_mutex_init(&steer->lock, NULL);
	return bind_both(engine, steer, udp, vb_udp_open);
}

int vb_steer_bind(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp)
{
	return bind_both(engine, steer, udp, vb_udp_bind);
}

void vb_steer_grown(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp)
{
	pthread_mutex_lock(&steer->lock);
	if (steer->seated && steer->blocks != atomic_load(&engine->adapter->n_blocks) &&
	    vb_seats_lock(registry(engine), true)) {
		vb_seats_sweep(registry(engine));
		set_program(engine, steer, udp);
		vb_seats_unlock(registry(engine));
	}
	pthread_mutex_unlock(&steer->lock);
}

void vb_steer_leave(struct vb_engine *engine, struct vb_steer *steer)
{
	steer->leaving = steer->seated && vb_seats_lock(registry(engine), true);
	steer->seated = false;
	if (!steer->leaving)
		return;
	vb_seats_sweep(registry(engine));
	vb_seats_leave(registry(engine));
}

void vb_steer_pass_on(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp,
		      int which)
{
	if (steer->leaving)
		set_program_of(engine, udp->in[which]);
}

void vb_steer_close(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp)
{
	vb_udp_close(udp);
	if (steer->leaving)
		vb_seats_unlock(registry(engine));
	steer->leaving = false;
	pthread_mutex_destroy(&steer->lock);
}

/* Somebody died, or the account is wrong. */
static void repair(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp)
{
	if (!vb_seats_lock(registry(engine), false))
		return;
	vb_seats_sweep(registry(engine));
	if (++steer->repairs > REPAIRS) {
		vb_seats_void(registry(engine));
		steer->repairs = 0;
	}
	set_program(engine, steer, udp);
	vb_seats_unlock(registry(engine));
}

void vb_steer_saw(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp,
		  uint32_t packets, uint32_t handed)
{
	uint32_t seen = atomic_load(&steer->seen) + packets;
	uint32_t others = atomic_load(&steer->handed) + handed;

	if (seen >= WINDOW && !pthread_mutex_trylock(&steer->lock)) {
		if (steer->seated && others > seen / 4)
			repair(engine, steer, udp);
		else
			steer->repairs = 0;
		pthread_mutex_unlock(&steer->lock);
		seen = others = 0;
	}
	atomic_store(&steer->seen, seen);
	atomic_store(&steer->handed, others);
}
