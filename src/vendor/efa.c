/* SPDX-License-Identifier: BSD-2-Clause */
#include "vendor/foreign.h"

NO_OBJECT(efadv_cq_from_ibv_cq_ex)
NO_OBJECT(efadv_create_comp_cntr)
NO_OBJECT(efadv_create_cq)
NO_OBJECT(efadv_create_driver_qp)
NO_OBJECT(efadv_create_qp_ex)
NO_OBJECT(efadv_qp_from_ibv_qp_ex)

NO_CODE(efadv_query_ah)
NO_CODE(efadv_query_cq)
NO_CODE(efadv_query_device)
NO_CODE(efadv_query_mr)
NO_CODE(efadv_query_qp_wqs)

NO_NEGATIVE(efadv_get_max_rq_depth)
NO_NEGATIVE(efadv_get_max_sq_depth)
