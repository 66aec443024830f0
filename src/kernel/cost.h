/* cost.h: what a kernel reads, writes and computes, in whatever form. */
#ifndef HN_KERNEL_COST_H
#define HN_KERNEL_COST_H

#include "kernel/form.h"
#include "sched/sched.h"

/* At the hints of the sizes; `ns` is 0. */
hn_form_cost hn_kernel_work(const hn_program *program, const hn_kernel *kernel);

#endif
