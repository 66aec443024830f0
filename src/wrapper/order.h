/* order.h: an order of lines with a lower peak of memory; internal to src/wrapper and the driver. */
#ifndef HN_WRAPPER_ORDER_H
#define HN_WRAPPER_ORDER_H

#include "wrapper/lifetime.h"

/* More lines stay as they are: an order is planned several times. */
enum { HN_ORDER_LINES_MAX = 20000 };

/* Before hn_wrapper_reuse. Takes another order only if the plan with these options needs clearly
 * less memory. See order.c. */
hn_status hn_wrapper_order(hn_wrapper *w, const hn_plan_options *options) HN_MUST_USE;

#endif
