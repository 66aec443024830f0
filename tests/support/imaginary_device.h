/* imaginary_device.h: a device for tests of the runtime, as a row of its table. It runs kernels of
 * the fixture's shared objects on the CPU, but nothing of it is the host's: its addresses lie in a
 * range that faults when it is touched. Work is done when the host waits for it, not before, so
 * that a wait that is missing shows. Any call of the table can be made to fail. Its operations are
 * those of the host.
 *
 * A program of tests gets the row by being linked with imaginary_device.c, which has the table of
 * devices again. There it takes the place of OpenCL.
 *
 * Threads: as runtime/device/device.h asks. The numbers below are of the whole process. */
#ifndef HN_TESTS_IMAGINARY_DEVICE_H
#define HN_TESTS_IMAGINARY_DEVICE_H

#include "runtime/device/device.h"

typedef struct imaginary_state {
    atomic_uint calls;        /* of the table since the last reset, that can fail */
    atomic_uint fail_at;      /* this call fails, from 1; 0: none does */
    atomic_bool is_lost;      /* all calls fail ... */
    atomic_bool stays_lost;   /* ... from the one that `fail_at` counts on */
    atomic_bool refuses;      /* it takes no operation */
    atomic_bool fail_copies;  /* copies to it fail */
    atomic_size_t scratch;    /* bytes: operations want so much more, and write to all of it */
    atomic_size_t memory;     /* bytes that are allocated */
    atomic_size_t memory_max; /* allocations beyond it fail; 0: no limit */
    atomic_uint open, queues, programs, events, operations; /* that are there now */
    atomic_uint launches, finishes, operation_runs;
    atomic_int candidate; /* of the form that the last operation was asked for; -1: of none */
    atomic_uint kinds; /* of operations, that something was loaded for before a device was open */
} imaginary_state;

extern imaginary_state imaginary;
extern const hn_device_ops imaginary_device;

/* Counts from 0 again, and nothing fails. */
void imaginary_reset(void);

#endif
