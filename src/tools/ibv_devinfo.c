/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/devinfo.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each failure adds to the exit status. */
enum { FAILED_OPEN = 1, FAILED_DEVICE = 2, FAILED_CLOSE = 3, FAILED_PORT_NUMBER = 4 };

const char *devinfo_name_of(const struct devinfo_name *table, size_t n, uint64_t value,
			    const char *otherwise)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].value == value)
			return table[i].text;
	return otherwise;
}

void devinfo_bits(const struct devinfo_options *opt, const struct devinfo_name *table, size_t n,
		  uint64_t bits)
{
	for (size_t i = 0; i < n; i++) {
		if (!(bits & table[i].value) || (table[i].newer && !opt->newer))
			continue;
		printf("\t\t\t\t\t%s\n", table[i].text);
		bits &= ~table[i].value;
	}
	if (bits)
		printf("\t\t\t\t\tUnknown flags: 0x%llX\n", (unsigned long long)bits);
}

static void usage(const struct devinfo_options *opt, const char *program)
{
	printf("Usage: %s             print the ca attributes\n\nOptions:\n", program);
	printf("  -d, --ib-dev=<dev>     use IB device <dev> (default %s)\n",
	       opt->newer ? "all devices" : "first device found");
	printf("  -i, --ib-port=<port>   use port <port> of IB device (default all ports)\n"
	       "  -l, --list             print only the IB devices names\n"
	       "  -v, --verbose          print all the attributes of the IB device(s)\n");
}

static int show_opened(const struct devinfo_options *opt, struct ibv_context *ctx)
{
	struct ibv_device_attr_ex attr;
	int failed = 0;

	memset(&attr, 0, sizeof(attr));
	if (ibv_query_device_ex(ctx, NULL, &attr)) {
		fprintf(stderr, "Failed to query device props\n");
		return FAILED_DEVICE;
	}
	if (opt->port > attr.orig_attr.phys_port_cnt) {
		fprintf(stderr, "Invalid port requested for device\n");
		return FAILED_PORT_NUMBER;
	}
	devinfo_device(opt, ctx, &attr);
	if (opt->port)
		return devinfo_port(opt, ctx, opt->port);
	for (unsigned int port = 1; port <= attr.orig_attr.phys_port_cnt && !failed; port++)
		failed = devinfo_port(opt, ctx, (uint8_t)port);
	return failed;
}

static int show(const struct devinfo_options *opt, struct ibv_device *dev)
{
	struct ibv_context *ctx = ibv_open_device(dev);
	int failed;

	if (!ctx) {
		fprintf(stderr, "Failed to open device\n");
		return FAILED_OPEN;
	}
	failed = show_opened(opt, ctx);
	if (ibv_close_device(ctx)) {
		fprintf(stderr, "Failed to close device");
		failed = FAILED_CLOSE;
	}
	return failed;
}

static struct ibv_device **list_or_complain(int *count)
{
	struct ibv_device **list = ibv_get_device_list(count);

	if (!list)
		perror("Failed to get IB devices list");
	return list;
}

static int list_names(void)
{
	int count;
	struct ibv_device **list = list_or_complain(&count);

	if (!list)
		return -1;
	printf("%d HCA%s found:\n", count, count == 1 ? "" : "s");
	for (int i = 0; i < count; i++)
		printf("\t%s\n", ibv_get_device_name(list[i]));
	printf("\n");
	ibv_free_device_list(list);
	return 0;
}

static int show_wanted(const struct devinfo_options *opt, const char *name)
{
	struct ibv_device **list = list_or_complain(NULL);
	bool found = false;
	int status = 0;

	if (!list)
		return -1;
	for (struct ibv_device **dev = list; *dev && !(name && found); dev++) {
		if (name && strcmp(ibv_get_device_name(*dev), name) != 0)
			continue;
		found = true;
		status |= show(opt, *dev);
	}
	if (!found) {
		if (name)
			fprintf(stderr, "IB device '%s' wasn't found\n", name);
		else
			fprintf(stderr, "No IB devices found\n");
		status = -1;
	}
	ibv_free_device_list(list);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"ib-dev", required_argument, NULL, 'd'},
		{"ib-port", required_argument, NULL, 'i'},
		{"list", no_argument, NULL, 'l'},
		{"verbose", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	const char *form = getenv("VERBENA_DEVINFO_FORM");
	struct devinfo_options opt = {.newer = form && strcmp(form, "new") == 0};
	const char *name = NULL;
	long port;
	int c;

	while ((c = getopt_long(argc, argv, "d:i:lv", options, NULL)) != -1) {
		switch (c) {
		case 'd':
			name = optarg;
			break;
		case 'i':
			port = strtol(optarg, NULL, 0);
			if (port <= 0) {
				usage(&opt, argv[0]);
				return 1;
			}
			opt.port = (uint8_t)port;
			break;
		case 'l':
			return list_names();
		case 'v':
			opt.verbose = true;
			break;
		default:
			usage(&opt, argv[0]);
			return -1;
		}
	}
	return show_wanted(&opt, name);
}
