/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/qp_table.h"

#include <stdio.h>

#define STATES 7 /* RESET INIT RTR RTS SQD SQE ERR */

/* The families that differ in their attributes. */
enum family { RC, UC, UD, XRC_INI, XRC_TGT, RAW, FAMILIES };

#define PATH	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define ALT	(IBV_QP_ALT_PATH)
#define ACCESS	(IBV_QP_ACCESS_FLAGS)
#define PKEY	(IBV_QP_PKEY_INDEX)
#define MIG	(IBV_QP_PATH_MIG_STATE)
#define CUR	(IBV_QP_CUR_STATE)
#define RNR	(IBV_QP_MIN_RNR_TIMER)
#define QKEY	(IBV_QP_QKEY)
#define RETRIES (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

struct attrs {
	int required[FAMILIES];
	int optional[FAMILIES];
};

/* A transition between two states; RESET and ERR as targets are handled in code:
 * they need and take nothing. */
static const struct {
	enum ibv_qp_state from, to;
	struct attrs attrs;
} table[] = {
	{IBV_QPS_RESET,
	 IBV_QPS_INIT,
	 {.required = {[RC] = PKEY | IBV_QP_PORT | ACCESS,
		       [UC] = PKEY | IBV_QP_PORT | ACCESS,
		       [UD] = PKEY | IBV_QP_PORT | QKEY,
		       [XRC_INI] = PKEY | IBV_QP_PORT | ACCESS,
		       [XRC_TGT] = PKEY | IBV_QP_PORT | ACCESS,
		       [RAW] = IBV_QP_PORT}}},
	{IBV_QPS_INIT,
	 IBV_QPS_INIT,
	 {.optional = {[RC] = PKEY | IBV_QP_PORT | ACCESS,
		       [UC] = PKEY | IBV_QP_PORT | ACCESS,
		       [UD] = PKEY | IBV_QP_PORT | QKEY,
		       [XRC_INI] = PKEY | IBV_QP_PORT | ACCESS,
		       [XRC_TGT] = PKEY | IBV_QP_PORT | ACCESS}}},
	{IBV_QPS_INIT,
	 IBV_QPS_RTR,
	 {.required = {[RC] = PATH | IBV_QP_MAX_DEST_RD_ATOMIC | RNR,
		       [UC] = PATH,
		       [XRC_INI] = PATH,
		       [XRC_TGT] = PATH | IBV_QP_MAX_DEST_RD_ATOMIC | RNR},
	  .optional = {[RC] = ALT | ACCESS | PKEY,
		       [UC] = ALT | ACCESS | PKEY,
		       [UD] = PKEY | QKEY,
		       [XRC_INI] = ALT | ACCESS | PKEY,
		       [XRC_TGT] = ALT | ACCESS | PKEY}}},
	{IBV_QPS_RTR,
	 IBV_QPS_RTS,
	 {.required = {[RC] = RETRIES | IBV_QP_SQ_PSN,
		       [UC] = IBV_QP_SQ_PSN,
		       [UD] = IBV_QP_SQ_PSN,
		       [XRC_INI] = RETRIES | IBV_QP_SQ_PSN,
		       [XRC_TGT] = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN},
	  .optional = {[RC] = CUR | ALT | ACCESS | RNR | MIG,
		       [UC] = CUR | ALT | ACCESS | MIG,
		       [UD] = CUR | QKEY,
		       [XRC_INI] = CUR | ALT | ACCESS | MIG,
		       [XRC_TGT] = CUR | ALT | ACCESS | RNR | MIG,
		       [RAW] = IBV_QP_RATE_LIMIT}}},
	{IBV_QPS_RTS,
	 IBV_QPS_RTS,
	 {.optional = {[RC] = CUR | ACCESS | ALT | MIG | RNR,
		       [UC] = CUR | ACCESS | ALT | MIG,
		       [UD] = CUR | QKEY,
		       [XRC_INI] = CUR | ACCESS | ALT | MIG,
		       [XRC_TGT] = CUR | ACCESS | ALT | MIG | RNR,
		       [RAW] = IBV_QP_RATE_LIMIT}}},
	{IBV_QPS_RTS,
	 IBV_QPS_SQD,
	 {.optional = {[RC] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
		       [UC] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
		       [UD] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
		       [XRC_INI] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
		       [XRC_TGT] = IBV_QP_EN_SQD_ASYNC_NOTIFY}}},
	{IBV_QPS_SQD,
	 IBV_QPS_RTS,
	 {.optional = {[RC] = CUR | ALT | ACCESS | RNR | MIG,
		       [UC] = CUR | ALT | ACCESS | MIG,
		       [UD] = CUR | QKEY,
		       [XRC_INI] = CUR | ALT | ACCESS | MIG,
		       [XRC_TGT] = CUR | ALT | ACCESS | RNR | MIG}}},
	{IBV_QPS_SQD,
	 IBV_QPS_SQD,
	 {.optional = {[RC] = IBV_QP_PORT | IBV_QP_AV | RETRIES | IBV_QP_MAX_DEST_RD_ATOMIC | ALT |
			      ACCESS | PKEY | RNR | MIG,
		       [UC] = IBV_QP_AV | ALT | ACCESS | PKEY | MIG,
		       [UD] = PKEY | QKEY,
		       [XRC_INI] = IBV_QP_PORT | IBV_QP_AV | RETRIES | ALT | ACCESS | PKEY | MIG,
		       [XRC_TGT] = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT |
				   IBV_QP_MAX_DEST_RD_ATOMIC | ALT | ACCESS | PKEY | RNR | MIG}}},
	{IBV_QPS_SQE, IBV_QPS_RTS, {.optional = {[UC] = CUR | ACCESS, [UD] = CUR | QKEY}}},
};

static int family_of(enum ibv_qp_type type)
{
	switch ((int)type) {
	case IBV_QPT_RC:
		return RC;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_UD:
		return UD;
	case IBV_QPT_XRC_SEND:
		return XRC_INI;
	case IBV_QPT_XRC_RECV:
		return XRC_TGT;
	case IBV_QPT_RAW_PACKET:
		return RAW;
	default:
		return -1;
	}
}

/* SQE exists only where a send error leaves the receive queue working; RAW has no
 * INIT->INIT, SQD and SQE. */
static bool reachable(int family, enum ibv_qp_state from, enum ibv_qp_state to)
{
	if (from == IBV_QPS_SQE)
		return family == UC || family == UD;
	if (family == RAW)
		return from != to ? to != IBV_QPS_SQD && from != IBV_QPS_SQD : from == IBV_QPS_RTS;
	return true;
}

struct vb_qp_transition vb_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from,
					 enum ibv_qp_state to)
{
	struct vb_qp_transition none = {0};
	struct vb_qp_transition free_way = {.valid = true};
	int family = family_of(type);

	if (family < 0 || (unsigned)from >= STATES || (unsigned)to >= STATES)
		return none;
	if (to == IBV_QPS_RESET)
		return free_way;
	if (to == IBV_QPS_ERR)
		return from == IBV_QPS_RESET ? none : free_way;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].from != from || table[i].to != to)
			continue;
		if (!reachable(family, from, to))
			return none;
		return (struct vb_qp_transition){true, table[i].attrs.required[family],
						 table[i].attrs.optional[family]};
	}
	return none;
}

const char *vb_qp_state_name(enum ibv_qp_state state)
{
	static const char *const names[STATES] = {"RESET", "INIT", "RTR", "RTS",
						  "SQD",   "SQE",  "ERR"};

	return (unsigned)state < STATES ? names[state] : "unknown";
}

const char *vb_qp_type_name(enum ibv_qp_type type)
{
	static const char *const names[FAMILIES] = {"RC",	"UC",	    "UD",
						    "XRC_SEND", "XRC_RECV", "RAW_PACKET"};
	int family = family_of(type);

	return family < 0 ? "unknown" : names[family];
}

const char *vb_qp_mask_text(int mask, char *text, size_t size)
{
	static const struct {
		int bit;
		const char *name;
	} names[] = {
#define BIT(name) {name, #name}
		BIT(IBV_QP_STATE),
		BIT(IBV_QP_CUR_STATE),
		BIT(IBV_QP_EN_SQD_ASYNC_NOTIFY),
		BIT(IBV_QP_ACCESS_FLAGS),
		BIT(IBV_QP_PKEY_INDEX),
		BIT(IBV_QP_PORT),
		BIT(IBV_QP_QKEY),
		BIT(IBV_QP_AV),
		BIT(IBV_QP_PATH_MTU),
		BIT(IBV_QP_TIMEOUT),
		BIT(IBV_QP_RETRY_CNT),
		BIT(IBV_QP_RNR_RETRY),
		BIT(IBV_QP_RQ_PSN),
		BIT(IBV_QP_MAX_QP_RD_ATOMIC),
		BIT(IBV_QP_ALT_PATH),
		BIT(IBV_QP_MIN_RNR_TIMER),
		BIT(IBV_QP_SQ_PSN),
		BIT(IBV_QP_MAX_DEST_RD_ATOMIC),
		BIT(IBV_QP_PATH_MIG_STATE),
		BIT(IBV_QP_CAP),
		BIT(IBV_QP_DEST_QPN),
		BIT(IBV_QP_RATE_LIMIT),
#undef BIT
	};
	size_t len = 0;

	snprintf(text, size, "none");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(mask & names[i].bit))
			continue;
		mask &= ~names[i].bit;
		if (len < size)
			len += (size_t)snprintf(text + len, size - len, "%s%s", len ? "|" : "",
						names[i].name);
	}
	if (mask && len < size)
		snprintf(text + len, size - len, "%s0x%x", len ? "|" : "", (unsigned)mask);
	return text;
}
