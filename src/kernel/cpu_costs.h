/* cpu_costs.h: how long a call of a kernel takes in a form for a CPU, by the facts of the
 * processor. */
#ifndef HN_KERNEL_CPU_COSTS_H
#define HN_KERNEL_CPU_COSTS_H

#include "kernel/cpu_internal.h"

/* Of a plan that is complete, at the hints of the sizes, on so many threads. Units: ns. It is made
 * to compare forms of one kernel; times of different kernels are less comparable. */
double hn_cpu_predicted_ns(const hn_cpu_plan *plan, uint32_t threads);

#endif
