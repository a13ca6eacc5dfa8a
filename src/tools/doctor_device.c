/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "host/discover.h"
#include "host/netdev.h"
#include "tools/verbena.h"

/* Whether the kernel's table has an IPv4 route to everywhere through an interface. */
static bool has_default_route(const char *ifname)
{
	char line[256], name[IF_NAMESIZE + 1];
	FILE *f = fopen("/proc/net/route", "re");
	unsigned int destination, mask;
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%16s %x %*x %*x %*d %*d %*d %x", name, &destination, &mask) ==
				3 &&
			!destination && !mask && strcmp(name, ifname) == 0;
	if (f)
		fclose(f);
	return found;
}

static bool is_named(const struct vb_device *dev)
{
	const char *list = vb_setting("DEVICES");
	char word[128];
	size_t len = (size_t)snprintf(word, sizeof(word), "%s:%s", dev->ibv.name, dev->ifname);

	for (; list && (list = strstr(list, word)); list++)
		if (!list[len] || strchr(", \t", list[len]))
			return true;
	return false;
}

static const char *why(const struct vb_device *dev)
{
	uint32_t ifindex = 0;

	if (is_named(dev))
		return "named by VERBENA_DEVICES";
	if (strcmp(vb_setting_text(dev->ibv.name, "NETDEV"), dev->ifname) == 0)
		return "named by VERBENA_NETDEV";
	if (!dev->ifindex)
		return "there is no such interface";
	if (vb_netdev_default(&ifindex) || ifindex != dev->ifindex)
		return "it was the default when looked for";
	if (has_default_route(dev->ifname))
		return "it has the default route";
	return strcmp(dev->ifname, "lo") == 0 ? "nothing else is up with an address"
					      : "the first that is up with an address";
}

static void show_port(struct vb_device *dev)
{
	struct vb_port_facts facts;
	int err = vb_device_port(dev, VB_PORT, &facts);

	if (err) {
		doctor_line(DOCTOR_FAIL, "%s port 1: %s", dev->ibv.name, strerror(-err));
		return;
	}
	if (facts.attr.state != IBV_PORT_ACTIVE) {
		doctor_line(DOCTOR_WARN, "%s port 1 is down: %s", dev->ibv.name,
			    facts.ifindex ? "its interface is down; ip link set it up"
					  : "its interface is gone");
		return;
	}
	doctor_line(DOCTOR_OK, "%s port 1 is active, interface MTU %u, path MTU %u, %u Mb/s",
		    dev->ibv.name, facts.netdev_mtu, 128u << facts.attr.active_mtu,
		    facts.rate_mbps);
}

void doctor_device(void)
{
	size_t count = 0;
	int err = vb_devices(&count);
	const char *problem;

	if (err) {
		doctor_line(DOCTOR_FAIL, "the interfaces cannot be asked: %s", strerror(-err));
		return;
	}
	if (!count)
		doctor_line(DOCTOR_WARN, "there is none: VERBENA_DEVICES says so");
	for (size_t i = 0; (problem = vb_devices_problem(i)); i++)
		doctor_line(DOCTOR_WARN, "%s", problem);
	for (size_t i = 0; i < count; i++) {
		struct vb_device *dev = vb_device_at(i);

		doctor_line(DOCTOR_OK, "%s on %s: %s", dev->ibv.name,
			    dev->ifname[0] ? dev->ifname : "nothing", why(dev));
		show_port(dev);
	}
}

static bool show_problem(const struct vb_setting_problem *p, void *arg)
{
	char line[16] = "";

	if (p->line)
		snprintf(line, sizeof(line), ":%d", p->line);
	doctor_line(DOCTOR_WARN, "%s%s: %s%s%s%s%s: the default holds", p->where, line, p->name,
		    p->value[0] ? "=" : "", p->value, p->name[0] ? ": " : "", p->what);
	*(bool *)arg = true;
	return true;
}

void doctor_settings(void)
{
	static const char *const origins[] = {
		[VB_FROM_DEFAULT] = "default",
		[VB_FROM_PROFILE] = "profile",
		[VB_FROM_FILE] = "ini file",
		[VB_FROM_ENVIRONMENT] = "environment",
	};
	const struct vb_setting_row *row;
	bool any = false;

	vb_settings_problems(show_problem, &any);
	for (size_t i = 0; (row = vb_setting_row(i)); i++) {
		const char *value = vb_setting(row->name);

		if (!value || !vb_setting_valid(row, value))
			continue;
		doctor_line(DOCTOR_OK, "%s=%s (%s)", row->name, value,
			    origins[vb_setting_origin(NULL, row->name)]);
		any = true;
	}
	if (!any)
		doctor_line(DOCTOR_OK, "all as by default");
}

static void show_gids(struct vb_device *dev)
{
	struct vb_gid_entry e;
	bool any = false;

	for (uint32_t i = 0; i < dev->gid_tbl_len; i++) {
		char text[INET6_ADDRSTRLEN];

		if (vb_device_gid(dev, VB_PORT, i, &e) || !e.used)
			continue;
		any = true;
		inet_ntop(AF_INET6, e.raw, text, sizeof(text));
		doctor_line(DOCTOR_OK, "%s index %u: %s, RoCE %s, %s", dev->ibv.name, i, text,
			    e.type == VB_GID_ROCE_V2 ? "v2" : "v1",
			    e.ifname[0] ? e.ifname : "its interface is gone");
	}
	if (!any)
		doctor_line(DOCTOR_FAIL, "%s has no GID: nothing can be addressed", dev->ibv.name);
}

void doctor_gids(void)
{
	size_t count = 0;

	if (vb_devices(&count))
		return;
	for (size_t i = 0; i < count; i++)
		show_gids(vb_device_at(i));
}

void doctor_libraries(void)
{
	static const char *const names[] = {"libibverbs.so.1", "librdmacm.so.1"};
	char dir[PATH_MAX], file[PATH_MAX + 32];
	const char *path = getenv("LD_LIBRARY_PATH");

	if (verbena_libdir(dir, sizeof(dir))) {
		doctor_line(DOCTOR_FAIL, "not beside this program: build or install again");
		return;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(file, sizeof(file), "%s/%s", dir, names[i]);
		if (access(file, R_OK))
			doctor_line(DOCTOR_FAIL, "%s: %s", file, strerror(errno));
		else
			doctor_line(DOCTOR_OK, "%s", file);
	}
	if (path && strncmp(path, dir, strlen(dir)) == 0)
		doctor_line(DOCTOR_OK, "programs started here use them: LD_LIBRARY_PATH");
	else
		doctor_line(DOCTOR_OK, "programs use them under `verbena run`");
}

void doctor_sysfs(void)
{
	char dir[PATH_MAX], file[PATH_MAX + 32];
	const char *preload = getenv("LD_PRELOAD");

	if (access("/proc/self/fd", X_OK)) {
		doctor_line(DOCTOR_WARN, "/proc is missing: folders of /sys/class/infiniband "
					 "cannot be entered");
		return;
	}
	if (preload && strstr(preload, "libverbena-sysfs.so")) {
		doctor_line(DOCTOR_OK, "/sys/class/infiniband is shown: LD_PRELOAD");
		return;
	}
	if (verbena_libdir(dir, sizeof(dir)))
		return;
	snprintf(file, sizeof(file), "%s/libverbena-sysfs.so", dir);
	doctor_line(DOCTOR_OK, "/sys/class/infiniband is shown under `verbena run`%s",
		    access("/sys/class/infiniband", F_OK) ? ""
							  : ", in place of this machine's own");
}
