/* verify_devices.h: what wrapper IR says of devices, checked. Internal to src/wrapper.
 *
 * - Every line runs where its operands are: the host does not touch memory of a device, a kernel no
 *   memory of the host. Operations run on the host. All that is not the host is one kind of device.
 * - A copy joins the host and a device, or stays on one of them.
 * - Between a copy that a device makes and the next WAIT the host does not use memory that the copy
 *   writes, and does not change memory that it reads. A WAIT in the body of a conditional counts in
 *   that body only. */
#ifndef HN_WRAPPER_VERIFY_DEVICES_H
#define HN_WRAPPER_VERIFY_DEVICES_H

#include "wrapper/wrapper.h"

/* Requires: known buffers, and bodies of conditionals that nest. Errors: internal. */
hn_status hn_wrapper_devices_verify(const hn_wrapper *w, hn_arena *arena) HN_MUST_USE;

#endif
