/* kernel_abi.h: the interface between generated kernels and the loader. Standalone: generated code
 * contains the same declarations as text, so a change here needs a new HN_KERNEL_ABI_VERSION.
 *
 * A CPU kernel runs the iterations [begin, end) of its parallel dimension. The runtime splits the
 * range over threads; ranges do not overlap and every iteration runs exactly once. `scratch` is
 * private to the thread, has the size that the launch record states, and is 64-byte aligned. */
#ifndef HENRY_ABI_KERNEL_ABI_H
#define HENRY_ABI_KERNEL_ABI_H

#define HN_KERNEL_ABI_VERSION 1

/* buffers: base addresses in the order of the launch record; sizes: values of the symbols it lists.
 * Returns 0, or 1 + the number of the check that failed (an index out of bounds). */
typedef int (*hn_kernel_fn)(void *const *buffers, const long long *sizes, long long begin,
                            long long end, void *scratch);

#endif
