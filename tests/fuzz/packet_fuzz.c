/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parser takes it can build again, and reads it the same way. */
#include <stdlib.h>
#include <string.h>

#include "wire/icrc.h"
#include "wire/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vb_packet pkt, again;
	uint8_t bytes[VB_HDR_MAX + VB_ICRC_LEN + 65536];
	size_t headers;
	uint32_t crc;

	vb_icrc_good(0, data, size);
	vb_icrc_headers(data, size, &crc);
	if (size > 65536 || vb_packet_parse(data, size, &pkt) != VB_PARSE_OK)
		return 0;
	check(pkt.payload >= data &&
	      pkt.payload + pkt.payload_len + pkt.pad + VB_ICRC_LEN == data + size);
	check(pkt.pad == vb_packet_pad(pkt.payload_len));
	headers = vb_packet_build(&pkt, bytes, sizeof(bytes));
	check(headers == vb_op_row(pkt.opcode)->length && headers <= VB_HDR_MAX);
	memcpy(bytes + headers, data + headers, size - headers);
	check(vb_packet_parse(bytes, size, &again) == VB_PARSE_OK);
	again.payload = pkt.payload;
	check(memcmp(&pkt, &again, sizeof(pkt)) == 0);
	return 0;
}
