/* gpu_arch.h: the names of NVIDIA's architectures, and which device runs code for which. */
#ifndef HN_BASE_GPU_ARCH_H
#define HN_BASE_GPU_ARCH_H

#include <stdbool.h>

/* "sm_90" and "compute_90" are 90 with suffix 0, "sm_90a" has suffix 'a'. False for what is no
 * architecture.
 */
bool hn_arch_parse(const char *arch, bool *out_is_ptx, int *out_number, char *out_suffix);

/* How well code for `arch` fits a device of `number`, which is 90 for capability 9.0: the higher
 * the better, -1: not at all. The order: the cubin of the highest minor number that is not above,
 * of the same major one; the PTX of the highest architecture that is not above. Those whose name
 * ends in a letter fit only themselves ("sm_90a") or their family ("sm_100f": same major number,
 * not lower). */
int hn_arch_fitness(const char *arch, int number);

#endif
