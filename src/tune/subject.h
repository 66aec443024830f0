/* subject.h: the arguments of kernels that are compared: memory, what is in it, and what has to be
 * there behind a call. Internal to src/tune. */
#ifndef HN_TUNE_SUBJECT_H
#define HN_TUNE_SUBJECT_H

#include "henry/bench.h"
#include "runtime/device/device.h"

/* What elements are made up as. */
typedef enum hn_made_up {
    HN_MADE_SIGNED = 0,
    HN_MADE_POSITIVE, /* floats are */
    HN_MADE_ZERO,     /* whole numbers are, unless they are indices; floats have either sign */
    HN_MADE_COUNT
} hn_made_up;

/* Memory of one argument, or of several that share it. */
typedef struct hn_subject_memory {
    void *at; /* on the device */
    size_t bytes;
    uint8_t *initial;  /* of the host: what is there before a call; `at` itself where it stays */
    uint64_t hash;     /* of what is only read */
    uint8_t *expected; /* of the host: what is there behind it; NULL: the same */
    bool is_read, is_written, is_scratch;
} hn_subject_memory;

typedef struct hn_trial {
    const hn_bench_subject *subject;
    hn_dev *dev;
    hn_queue *queue;
    hn_team team;
    int threads;
    hn_subject_memory *memories; /* per argument; bytes and addresses of those that own theirs */
    uint32_t *owner;             /* per argument: whose memory it lies in */
    int64_t *extents;            /* per argument: bytes from element 0 to behind the last */
    void **host_args;            /* per argument, for the reference */
    uint8_t *got;                /* as large as the largest memory that is written */
    hn_made_up how;              /* what is there before a call is made up */
    void *cold;                  /* memory of the device that fills its cache; NULL: none */
    size_t cold_bytes;
} hn_trial;

/* Opens the device and makes memory, not filled yet. deinit also after an error. */
hn_status hn_trial_init(hn_trial *t, const hn_bench_subject *subject) HN_MUST_USE;
void hn_trial_deinit(hn_trial *t);

/* The address of element 0 of an argument on the device. */
static inline void *hn_trial_address(const hn_trial *t, uint32_t arg) {
    return (uint8_t *)t->memories[t->owner[arg]].at + t->subject->args[arg].offset_bytes;
}
static inline bool hn_memory_needs_restore(const hn_subject_memory *m) {
    return m->is_read && m->is_written && !m->is_scratch;
}
/* Waits for the device. Errors: invalid-argument for an index out of bounds; device. */
hn_status hn_trial_finish(hn_trial *t) HN_MUST_USE;

/* The time of so many calls of `give`, one behind the other, by the clock of the device, which has
 * one. */
hn_status hn_trial_time(hn_trial *t, hn_status (*give)(void *user), void *user, uint32_t calls,
                        double *out_ns) HN_MUST_USE;

/* Fills all memory, on the host and on the device; what is expected is the same. */
hn_status hn_trial_fill(hn_trial *t, hn_made_up how) HN_MUST_USE;
/* What kernels have changed is as before: all of it, or what they read and write. */
hn_status hn_trial_restore(hn_trial *t, bool is_all) HN_MUST_USE;
/* What is only read is as before, whatever a kernel has done to it. */
hn_status hn_trial_repair(hn_trial *t) HN_MUST_USE;
/* What is on the device now is what is expected. */
hn_status hn_trial_take_expected(hn_trial *t) HN_MUST_USE;
/* What the reference makes of what is there before a call is what is expected. */
hn_status hn_trial_run_reference(hn_trial *t) HN_MUST_USE;
/* The share of what is expected that is NaN or infinite. */
double hn_trial_bad_share(const hn_trial *t);
/* Whether the device has what is expected. Errors: internal, naming the argument and an element. */
hn_status hn_trial_check(hn_trial *t) HN_MUST_USE;
/* Nothing of the arguments is in the caches any more. */
void hn_trial_evict(void *trial);

/* content.c: `bytes` of elements. */
void hn_make_up(const hn_bench_arg *arg, hn_made_up how, uint64_t seed, uint8_t *out, size_t bytes);

#endif
