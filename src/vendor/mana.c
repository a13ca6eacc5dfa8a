/* SPDX-License-Identifier: BSD-2-Clause */
#include "vendor/foreign.h"

NO_CODE(manadv_init_obj)
NO_CODE(manadv_set_context_attr)
