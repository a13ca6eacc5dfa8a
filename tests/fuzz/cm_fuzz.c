/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parser of management datagrams takes it can build again, and reads it the same way. */
#include <stdlib.h>
#include <string.h>

#include "wire/cm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[VB_MAD_LEN], twice[VB_MAD_LEN], address[VB_CM_IP_LEN];
	static struct vb_cm_msg msg, again;
	struct vb_cm_ip ip = {0}, same = {0};

	if (!vb_cm_parse(data, size, &msg))
		return 0;
	check(size == VB_MAD_LEN);
	check(msg.ari_len <= VB_CM_ARI_LEN);
	check(vb_cm_private_len(msg.attr) > 0 && vb_cm_private_len(msg.attr) <= VB_CM_PRIV_MAX);
	vb_cm_build(&msg, bytes);
	check(vb_cm_parse(bytes, sizeof(bytes), &again));
	check(memcmp(&msg, &again, sizeof(msg)) == 0);
	vb_cm_build(&again, twice);
	check(memcmp(bytes, twice, sizeof(bytes)) == 0);
	/* What is reserved is left out, nothing is added; the cut length of a field aside. */
	for (size_t i = 0; i < sizeof(bytes); i++)
		check(msg.ari_len == VB_CM_ARI_LEN || (bytes[i] & ~data[i]) == 0);
	if (vb_cm_ip_parse(msg.private_data, &ip)) {
		vb_cm_ip_build(&ip, address);
		check(vb_cm_ip_parse(address, &same) && memcmp(&ip, &same, sizeof(ip)) == 0);
	}
	return 0;
}
