/* opencl_faults.h: OpenCL's functions with failures at will: a call that fails once, or a device
 * that is lost and fails from some call on. A call that fails does nothing. Those that release
 * something always work.
 *
 * Threads: calls may come from any thread; the failure is set while there are none. */
#ifndef HN_TESTS_OPENCL_FAULTS_H
#define HN_TESTS_OPENCL_FAULTS_H

#include "base/opencl.h"

/* Puts such functions into the table, in front of those that it has. One table at a time. */
void opencl_faults_wrap(hn_opencl *cl);

/* The `nth` call from now on, counted from 1, fails with `code`; 0: none. With `is_lost` those
 * behind it fail, too. */
void opencl_faults_set(long nth, cl_int code, bool is_lost);
/* Whether a call has failed since then, and the name of the last one. */
const char *opencl_faults_failed(void);
long opencl_faults_calls(void);                    /* since then */
unsigned long long opencl_faults_read_bytes(void); /* that the host has asked for since then */

#endif
