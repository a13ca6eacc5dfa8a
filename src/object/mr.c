/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/mr.h"

#include <stdio.h>

#include "base/rules.h"

#define OPTIONAL_BITS 0x3ff00000u

const char *vb_mr_access_text(unsigned int access, char *text, size_t size)
{
	static const struct {
		unsigned int bit;
		const char *name;
	} names[] = {
		{IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"},
		{IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
		{IBV_ACCESS_REMOTE_READ, "REMOTE_READ"},
		{IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
		{IBV_ACCESS_MW_BIND, "MW_BIND"},
		{IBV_ACCESS_ZERO_BASED, "ZERO_BASED"},
		{IBV_ACCESS_ON_DEMAND, "ON_DEMAND"},
		{IBV_ACCESS_HUGETLB, "HUGETLB"},
		{256, "FLUSH_GLOBAL"},
		{512, "FLUSH_PERSISTENT"},
		{1u << 20, "RELAXED_ORDERING"},
	};
	size_t len = 0;

	snprintf(text, size, "none");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(access & names[i].bit))
			continue;
		access &= ~names[i].bit;
		if (len < size)
			len += (size_t)snprintf(text + len, size - len, "%s%s", len ? "|" : "",
						names[i].name);
	}
	if (access && len < size)
		snprintf(text + len, size - len, "%s0x%x", len ? "|" : "", access);
	return text;
}

bool vb_mr_implicit(const void *addr, size_t length, unsigned int access)
{
	return access & IBV_ACCESS_ON_DEMAND && !addr && length == SIZE_MAX;
}

int vb_mr_check_access(unsigned int access)
{
	const unsigned int unsupported = IBV_ACCESS_MW_BIND | 256 | 512;
	char text[160];

	if (access & ~(VB_MR_ACCESS | unsupported | OPTIONAL_BITS))
		return vb_fail(VB_RULE_REG_MR_ACCESS_BITS, "access=%s",
			       vb_mr_access_text(access, text, sizeof(text)));
	if (access & unsupported)
		return vb_fail(VB_RULE_REG_MR_NOT_OFFERED, "access=%s",
			       vb_mr_access_text(access, text, sizeof(text)));
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return vb_fail(VB_RULE_REG_MR_LOCAL_WRITE, "access=%s",
			       vb_mr_access_text(access, text, sizeof(text)));
	if (access & IBV_ACCESS_HUGETLB && !(access & IBV_ACCESS_ON_DEMAND))
		return vb_fail(VB_RULE_REG_MR_HUGETLB, "access=%s",
			       vb_mr_access_text(access, text, sizeof(text)));
	return 0;
}

int vb_mr_check(const void *addr, size_t length, uint64_t iova, unsigned int access, uint64_t max)
{
	int err = vb_mr_check_access(access);

	if (err)
		return err;
	if (!length)
		return vb_fail(VB_RULE_REG_MR_LENGTH, "addr=%p length=0", addr);
	if (length > max || (uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova)
		return vb_fail(VB_RULE_REG_MR_RANGE, "addr=%p length=%zu iova=0x%llx", addr, length,
			       (unsigned long long)iova);
	if (access & IBV_ACCESS_HUGETLB && vb_mr_implicit(addr, length, access))
		return vb_fail(VB_RULE_REG_MR_HUGETLB, "the whole address space");
	return 0;
}
