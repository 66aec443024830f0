/* rows.h: the rows of the table of devices. For this folder only. */
#ifndef HN_RUNTIME_DEVICE_ROWS_H
#define HN_RUNTIME_DEVICE_ROWS_H

#include "runtime/device/device.h"

extern const hn_device_ops hn_device_cpu;
extern const hn_device_ops hn_device_opencl;

#endif
