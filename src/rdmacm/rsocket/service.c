/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/service.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/rsocket/socket.h"
#include "rdmacm/rsocket/table.h"

struct job {
	struct job *next;
	struct vb_rs *rs; /* a reference */
	int fd;
	uint64_t at_ns;
	bool ready; /* its descriptor was readable */
};

struct vb_rs_service {
	struct rdma_event_channel *channel;
	int epoll_fd;
	int wake_fd;
	pthread_t thread;
	_Atomic bool stop;
	bool alone; /* the thread itself was the last user: nobody joins it */
	pthread_mutex_t lock;
	pthread_mutex_t take_lock; /* around taking an event; nothing is taken inside */
	struct job *jobs;
};

#define EVENTS_AT_ONCE 32

static void service_free(struct vb_rs_service *service)
{
	if (service->channel)
		rdma_destroy_event_channel(service->channel);
	if (service->epoll_fd >= 0)
		close(service->epoll_fd);
	if (service->wake_fd >= 0)
		close(service->wake_fd);
	pthread_mutex_destroy(&service->lock);
	pthread_mutex_destroy(&service->take_lock);
	free(service);
}

static void wake(struct vb_rs_service *service)
{
	static const uint64_t one = 1;

	while (write(service->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static struct rdma_cm_event *take_cm_event(struct vb_rs_service *service)
{
	struct rdma_cm_event *event;
	int ret;

	pthread_mutex_lock(&service->take_lock);
	ret = rdma_get_cm_event(service->channel, &event);
	pthread_mutex_unlock(&service->take_lock);
	return ret ? NULL : event;
}

void vb_rs_service_destroy_qp(struct vb_rs *rs, struct rdma_cm_id *id)
{
	struct vb_rs_service *service = rs->process->service;

	pthread_mutex_lock(&service->take_lock);
	rdma_destroy_qp(id);
	pthread_mutex_unlock(&service->take_lock);
}

static void take_cm_events(struct vb_rs_service *service)
{
	struct rdma_cm_event *event;

	while ((event = take_cm_event(service))) {
		struct rdma_cm_id *done = NULL;
		struct vb_rs *rs = vb_rs_cm_event(event, &done);

		rdma_ack_cm_event(event);
		if (done)
			rdma_destroy_id(done);
		if (rs)
			vb_rs_put(rs);
	}
}

static void take_ready(struct vb_rs_service *service, int fd)
{
	uint64_t count;

	if (fd == service->wake_fd) {
		while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
			;
		return;
	}
	if (fd == service->channel->fd) {
		take_cm_events(service);
		return;
	}
	pthread_mutex_lock(&service->lock);
	for (struct job *job = service->jobs; job; job = job->next)
		if (job->fd == fd)
			job->ready = true;
	pthread_mutex_unlock(&service->lock);
}

/* A socket whose job is due, with a reference of its own. */
static struct vb_rs *next_due(struct vb_rs_service *service, uint64_t now)
{
	struct vb_rs *rs = NULL;

	pthread_mutex_lock(&service->lock);
	for (struct job *job = service->jobs; job && !rs; job = job->next) {
		if (!job->ready && job->at_ns > now)
			continue;
		job->ready = false;
		job->at_ns = VB_RS_NEVER;
		rs = job->rs;
		atomic_fetch_add(&rs->refs, 1);
	}
	pthread_mutex_unlock(&service->lock);
	return rs;
}

static void set_next(struct vb_rs_service *service, struct vb_rs *rs, uint64_t at_ns)
{
	pthread_mutex_lock(&service->lock);
	for (struct job *job = service->jobs; job; job = job->next)
		if (job->rs == rs && job->at_ns > at_ns)
			job->at_ns = at_ns;
	pthread_mutex_unlock(&service->lock);
}

/* Until nothing is due: a job that is due again at once must not starve the events. */
static void run_jobs(struct vb_rs_service *service)
{
	uint64_t now = vb_rs_now_ns(), next;
	struct vb_rs *rs;

	while ((rs = next_due(service, now))) {
		next = vb_rs_serve(rs, now);
		if (next)
			set_next(service, rs, next > now ? next : now + 1);
		else
			vb_rs_service_unwatch(rs);
		vb_rs_put(rs);
	}
}

static int until_next(struct vb_rs_service *service)
{
	uint64_t first = VB_RS_NEVER, now = vb_rs_now_ns(), ms;

	pthread_mutex_lock(&service->lock);
	for (struct job *job = service->jobs; job; job = job->next)
		if (job->at_ns < first)
			first = job->at_ns;
	pthread_mutex_unlock(&service->lock);
	if (first == VB_RS_NEVER)
		return -1;
	if (first <= now)
		return 0;
	ms = (first - now + 999999) / 1000000;
	return ms > 3600000 ? 3600000 : (int)ms;
}

static void *service_main(void *arg)
{
	struct vb_rs_service *service = arg;
	struct epoll_event events[EVENTS_AT_ONCE];

	while (!atomic_load(&service->stop)) {
		int n = epoll_wait(service->epoll_fd, events, EVENTS_AT_ONCE, until_next(service));

		for (int i = 0; i < n; i++)
			take_ready(service, events[i].data.fd);
		run_jobs(service);
	}
	if (service->alone) {
		pthread_detach(pthread_self());
		service_free(service);
	}
	return NULL;
}

static int watch_fd(struct vb_rs_service *service, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(service->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int start_thread(struct vb_rs_service *service)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&service->thread, NULL, service_main, service);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		errno = err;
		return -1;
	}
	pthread_setname_np(service->thread, "verbena-rsocket");
	return 0;
}

static struct vb_rs_service *service_start(void)
{
	struct vb_rs_service *service = calloc(1, sizeof(*service));
	int err;

	if (!service)
		return NULL;
	pthread_mutex_init(&service->lock, NULL);
	pthread_mutex_init(&service->take_lock, NULL);
	service->wake_fd = -1;
	service->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	service->channel = rdma_create_event_channel();
	if (!service->channel || service->epoll_fd < 0)
		goto failed;
	service->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service->wake_fd < 0 || fcntl(service->channel->fd, F_SETFL, O_NONBLOCK) ||
	    watch_fd(service, service->wake_fd) || watch_fd(service, service->channel->fd) ||
	    start_thread(service))
		goto failed;
	return service;
failed:
	err = errno;
	service_free(service);
	errno = err;
	return NULL;
}

int vb_rs_service_use(struct vb_rs_process *process, struct vb_rs *rs)
{
	pthread_mutex_lock(&process->service_lock);
	if (!process->service)
		process->service = service_start();
	if (process->service) {
		process->service_users++;
		rs->process = process;
		rs->uses_service = true;
	}
	pthread_mutex_unlock(&process->service_lock);
	return rs->uses_service ? 0 : -1;
}

void vb_rs_service_unuse(struct vb_rs *rs)
{
	struct vb_rs_process *process = rs->process;
	struct vb_rs_service *last = NULL;
	bool self;

	if (!rs->uses_service)
		return;
	rs->uses_service = false;
	pthread_mutex_lock(&process->service_lock);
	if (--process->service_users == 0) {
		last = process->service;
		process->service = NULL;
	}
	pthread_mutex_unlock(&process->service_lock);
	if (!last)
		return;
	self = pthread_equal(last->thread, pthread_self());
	last->alone = self;
	atomic_store(&last->stop, true);
	if (self)
		return;
	wake(last);
	pthread_join(last->thread, NULL);
	service_free(last);
}

struct rdma_event_channel *vb_rs_service_channel(struct vb_rs *rs)
{
	/* Its user keeps it. */
	return rs->process->service->channel;
}

int vb_rs_service_watch(struct vb_rs *rs, int fd, uint64_t at_ns)
{
	struct vb_rs_service *service = rs->process->service;
	struct job *job, *fresh = calloc(1, sizeof(*fresh));
	int ret = 0;

	if (!fresh)
		return -1;
	pthread_mutex_lock(&service->lock);
	for (job = service->jobs; job && job->rs != rs; job = job->next)
		;
	if (!job) {
		job = fresh;
		fresh = NULL;
		job->fd = -1;
		job->rs = rs;
		atomic_fetch_add(&rs->refs, 1);
		job->next = service->jobs;
		service->jobs = job;
	}
	job->at_ns = at_ns;
	if (fd >= 0 && job->fd < 0) {
		ret = watch_fd(service, fd);
		if (!ret)
			job->fd = fd;
	}
	pthread_mutex_unlock(&service->lock);
	free(fresh);
	wake(service);
	return ret;
}

void vb_rs_service_unwatch(struct vb_rs *rs)
{
	struct vb_rs_service *service;
	struct job **at, *job;

	if (!rs->uses_service)
		return;
	service = rs->process->service;
	pthread_mutex_lock(&service->lock);
	for (at = &service->jobs; *at && (*at)->rs != rs; at = &(*at)->next)
		;
	job = *at;
	if (job) {
		*at = job->next;
		if (job->fd >= 0)
			epoll_ctl(service->epoll_fd, EPOLL_CTL_DEL, job->fd, NULL);
	}
	pthread_mutex_unlock(&service->lock);
	if (job)
		vb_rs_put(job->rs);
	free(job);
}
