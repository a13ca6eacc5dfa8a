/* SPDX-License-Identifier: BSD-2-Clause */
#include "vendor/foreign.h"

NO_OBJECT(mlx4dv_create_qp)

NO_CODE(mlx4dv_init_obj)
NO_CODE(mlx4dv_query_device)
NO_CODE(mlx4dv_set_context_attr)
