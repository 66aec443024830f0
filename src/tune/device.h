/* device.h: what tells devices apart for which other forms of a kernel may be the fastest: the
 * device of a tuning record, as lines "name=value" (record.h). Nothing in it names one of several
 * equal devices, a machine or a time. */
#ifndef HN_TUNE_DEVICE_H
#define HN_TUNE_DEVICE_H

#include "runtime/device/device.h"

/* What kernels are made for and by. */
typedef struct hn_tuning_code {
    const char *target;   /* "x86-64-v3", "sm_90a" */
    const char *compiler; /* with its version, without its path: "gcc 12.2.0"; NULL: not known */
} hn_tuning_code;

/* The CPU: its name, the level that kernels are for, the bytes of its vectors, its caches, and how
 * many threads run them. Errors latch in `out`. */
void hn_tuning_device_host(const hn_tuning_code *code, int threads, hn_strbuf *out);
/* Another device: its kind and name, its memory in GiB, its driver, the libraries of its
 * operations. */
void hn_tuning_device_of(const hn_dev *dev, const hn_tuning_code *code, hn_strbuf *out);

/* The device, which is opened. False, and nothing is appended, when this machine does not have it,
 * or it does not work. `out` may be NULL. */
bool hn_tuning_device_find(hn_device device, const hn_tuning_code *code, hn_strbuf *out);

/* A line for each field in which the two differ: "'driver' was 'CUDA 12.4', is 'CUDA 13.0'". How
 * many. `out` may be NULL. */
uint32_t hn_tuning_device_diff(hn_str was, hn_str is, hn_strbuf *out);

#endif
