/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>

#include <infiniband/verbs.h>

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list) {
		perror("Failed to get IB devices list");
		return 1;
	}
	printf("    %-16s\t   node GUID\n", "device");
	printf("    %-16s\t----------------\n", "------");
	for (struct ibv_device **dev = list; *dev; dev++)
		printf("    %-16s\t%016" PRIx64 "\n", ibv_get_device_name(*dev),
		       (uint64_t)be64toh(ibv_get_device_guid(*dev)));
	ibv_free_device_list(list);
	return 0;
}
