/* rows.h: the rows of the table of devices. For this folder only. */
#ifndef HN_RUNTIME_DEVICE_ROWS_H
#define HN_RUNTIME_DEVICE_ROWS_H

#include "runtime/device/device.h"

extern const hn_device_ops hn_device_cpu;
extern const hn_device_ops hn_device_cuda;
extern const hn_device_ops hn_device_opencl;

/* A program of tests has rows of its own in front: it compiles devices.c again. */
#ifndef HN_DEVICE_ROWS_OF_TESTS
#define HN_DEVICE_ROWS_OF_TESTS
#endif

#endif
