/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_WIRE_CM_H
#define VB_WIRE_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * Messages of connection management: management datagrams (MADs) of class 7, 256 bytes each,
 * between the queue pairs number 1 of two ports. struct vb_cm_msg is the decoded form of all of
 * them: a message has the fields that its attribute says, the others are 0. Private data
 * is always the whole field of the message, zero padded: there is no length on the wire.
 *
 * A connection request by IP address begins its private data with the addresses (struct
 * vb_cm_ip), as RDMA IP CM service defines (IBA1 A11).
 *
 * Spec: IBA1 12 (messages: 12.6 to 12.8, 12.11), 13.4.3 (MAD header)
 */

#define VB_MAD_LEN 256
#define VB_CM_QPN  1u
#define VB_CM_QKEY 0x80010000u

enum vb_cm_attr {
	VB_CM_REQ = 0x10,
	VB_CM_MRA = 0x11,
	VB_CM_REJ = 0x12,
	VB_CM_REP = 0x13,
	VB_CM_RTU = 0x14,
	VB_CM_DREQ = 0x15,
	VB_CM_DREP = 0x16,
	VB_CM_SIDR_REQ = 0x17,
	VB_CM_SIDR_REP = 0x18,
	VB_CM_LAP = 0x19,
	VB_CM_APR = 0x1a,
};

/* Why a request or reply is rejected (IBA1 12.6.7.2). */
enum vb_cm_reason {
	VB_CM_REJ_NO_QP = 1,
	VB_CM_REJ_NO_RESOURCES = 3,
	VB_CM_REJ_TIMEOUT = 4,
	VB_CM_REJ_UNSUPPORTED = 5,
	VB_CM_REJ_INVALID_COMM_ID = 6,
	VB_CM_REJ_INVALID_SERVICE_ID = 8,
	VB_CM_REJ_INVALID_TRANSPORT = 9,
	VB_CM_REJ_STALE_CONN = 10,
	VB_CM_REJ_INVALID_GID = 13,
	VB_CM_REJ_CONSUMER = 28,
	VB_CM_REJ_DUPLICATE_COMM_ID = 30,
	VB_CM_REJ_INVALID_CLASS_VERSION = 31,
	VB_CM_REJ_INVALID_MTU = 26,
	VB_CM_REJ_VENDOR_OPTION = 35,
};

/* What a MRA, a REJ is about. */
enum vb_cm_about { VB_CM_ABOUT_REQ, VB_CM_ABOUT_REP, VB_CM_ABOUT_OTHER };

/* The answer to a SIDR_REQ (IBA1 12.11.2). */
enum vb_cm_sidr_status {
	VB_CM_SIDR_VALID,
	VB_CM_SIDR_UNSUPPORTED,
	VB_CM_SIDR_REJECT,
	VB_CM_SIDR_NO_QP,
	VB_CM_SIDR_REDIRECT,
	VB_CM_SIDR_BAD_VERSION,
};

/* The answer to a LAP where alternate paths are not used (IBA1 12.8.2). */
#define VB_CM_APR_NOT_SUPPORTED 2

#define VB_CM_REQ_PRIV	    92
#define VB_CM_REP_PRIV	    196
#define VB_CM_REJ_PRIV	    148
#define VB_CM_ARI_LEN	    72
#define VB_CM_SIDR_REQ_PRIV 216
#define VB_CM_SIDR_REP_PRIV 136
#define VB_CM_PRIV_MAX	    224

struct vb_cm_path {
	uint16_t slid, dlid;
	uint8_t sgid[16], dgid[16];
	uint32_t flow_label; /* 20 bits */
	uint8_t rate;	     /* enum ibv_rate */
	uint8_t traffic_class, hop_limit;
	uint8_t sl; /* 4 bits */
	bool subnet_local;
	uint8_t ack_timeout; /* 4.096 us * 2^n */
};

struct vb_cm_msg {
	/* MAD header */
	uint64_t tid;
	uint16_t attr; /* enum vb_cm_attr */
	/* Ids of the sender and of the receiver; of a SIDR message: the request's, in local_id */
	uint32_t local_id, remote_id;
	uint64_t service_id;	  /* REQ, SIDR */
	uint64_t ca_guid;	  /* REQ, REP */
	uint32_t qkey;		  /* REQ, REP, SIDR_REP */
	uint32_t qpn;		  /* REQ, REP, SIDR_REP: the sender's; DREQ, LAP: the receiver's */
	uint32_t psn;		  /* REQ, REP: the first that the receiver is to send */
	uint8_t resources, depth; /* REQ, REP */
	uint8_t transport;	  /* REQ: 0 RC, 1 UC */
	uint8_t ext_transport;	  /* REQ: 1 XRC with transport 3 */
	bool flow_control, srq;	  /* REQ, REP */
	uint8_t remote_timeout;	  /* REQ, LAP: 4.096 us * 2^n, for the receiver's answers */
	uint8_t local_timeout;	  /* REQ: for the sender's */
	uint8_t retries, rnr_retries; /* REQ: of the QP; REP: rnr_retries */
	uint8_t cm_retries;	      /* REQ */
	uint8_t mtu;		      /* REQ: enum ibv_mtu */
	uint16_t pkey;		      /* REQ, SIDR_REQ */
	struct vb_cm_path path, alt;  /* REQ; LAP: alt */
	uint8_t ack_delay, failover;  /* REP */
	uint32_t vendor_id, attr_mod; /* REQ, REP: enhanced connection establishment */
	uint8_t about;		      /* MRA, REJ: enum vb_cm_about */
	uint8_t service_timeout;      /* MRA */
	uint16_t reason;	      /* REJ */
	uint8_t status;		      /* SIDR_REP, APR */
	uint8_t ari_len;	      /* REJ, SIDR_REP, APR */
	uint8_t ari[VB_CM_ARI_LEN];
	uint8_t private_data[VB_CM_PRIV_MAX];
};

/** vb_cm_parse() - Decode a MAD
 * @bytes:  Payload of a packet to QP 1
 * @len:    Its bytes, any number
 * @msg:    Filled where good
 * Return:  false: not a message of connection management that this release knows. Values are not
 *          judged, but ari_len is never more than VB_CM_ARI_LEN
 */
bool vb_cm_parse(const uint8_t *bytes, size_t len, struct vb_cm_msg *msg);

/** vb_cm_build() - Write a MAD
 * @bytes:  Receives VB_MAD_LEN bytes
 */
void vb_cm_build(const struct vb_cm_msg *msg, uint8_t *bytes);

/** vb_cm_private_len() - Bytes of private data that a message of a kind has; 0 for an unknown one
 */
size_t vb_cm_private_len(uint16_t attr);

/* ---- By IP address ---- */

#define VB_CM_IP_LEN 36
/* The service of a port: its space, which is enum rdma_port_space, and its number. */
#define VB_CM_SERVICE(space, port) ((uint64_t)(space) << 16 | (port))

struct vb_cm_ip {
	uint8_t version;	  /* 4 or 6 */
	uint16_t port;		  /* source port, host order */
	uint8_t src[16], dst[16]; /* IPv4: the last four bytes, zeroes before them */
};

/** vb_cm_ip_parse() - Addresses in front of the private data of a REQ or SIDR_REQ
 * Return:  false: not by IP address, or of another version
 */
bool vb_cm_ip_parse(const uint8_t *private_data, struct vb_cm_ip *ip);

/** vb_cm_ip_build() - Write them, VB_CM_IP_LEN bytes */
void vb_cm_ip_build(const struct vb_cm_ip *ip, uint8_t *private_data);

#endif
