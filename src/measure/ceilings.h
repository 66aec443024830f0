/* ceilings.h: what a machine can do at most: how fast it moves bytes at each distance, and how fast
 * it computes. Measured once, by loops of our own, and kept in the cache with the identity of the
 * device.
 *
 * What is near holds little. A level is a distance: the caches of a processor, then memory. */
#ifndef HN_MEASURE_CEILINGS_H
#define HN_MEASURE_CEILINGS_H

#include "base/str.h"
#include "henry/tensor.h"

enum { HN_CEILING_LEVELS = 4 };

/* Units: bytes a nanosecond, of all threads together. What a copy moves is read and written: twice
 * the bytes that are copied. */
typedef struct hn_ceiling_level {
    char name[8];  /* "L1", "L2", "L3", "memory"; of a GPU "cache", "memory" */
    int64_t bytes; /* that it holds, of all threads; INT64_MAX: it is memory */
    double read, copy, fill;
} hn_ceiling_level;

/* Units: operations a nanosecond, of all threads. A product that is added up is two operations. */
typedef enum hn_ceiling_math {
    HN_CEILING_ADD,      /* additions of f32: what generated kernels are counted in */
    HN_CEILING_PRODUCTS, /* of matrix products and convolutions, in f32, ... */
    HN_CEILING_PRODUCTS_HALF,
    HN_CEILING_PRODUCTS_F64,
    HN_CEILING_MATH_COUNT
} hn_ceiling_math;

typedef struct hn_ceilings {
    char name[64]; /* of the device: "Intel(R) Xeon(R) Processor" */
    hn_device device;
    int threads; /* of the CPU; 0 for other devices */
    uint32_t level_count;
    hn_ceiling_level levels[HN_CEILING_LEVELS]; /* the nearest first; the last one is memory */
    double math[HN_CEILING_MATH_COUNT];         /* 0: unknown */
    /* of the processors' time while it was measured, what the measurement had: well below 1 others
     * were at work, and the ceilings are too low. 1 for other devices */
    double own_share;
    int64_t measured_s; /* Unix time */
} hn_ceilings;

typedef struct hn_ceilings_options {
    hn_device device;
    int threads;           /* of the CPU; 0: as many as a run has by default */
    const char *cache_dir; /* as hn_store_options.dir */
    bool no_cache;         /* neither look there nor keep them there */
    bool anew;             /* do not look there */
    /* taken before anything else where device and threads are those that are asked for; may be
     * NULL */
    const struct hn_ceilings *known;
    uint32_t known_count;
} hn_ceilings_options;

/* From the cache, or measured: up to some seconds of all threads. `out_is_cached` may be NULL.
 * Errors: not-found without such a device; device; out-of-memory. */
hn_status hn_ceilings_get(const hn_ceilings_options *options, hn_ceilings *out,
                          bool *out_is_cached) HN_MUST_USE;

/* The least time of moving these bytes at one distance, in ns. Between reading alone, a copy and
 * writing alone, the time of a byte changes evenly with the share of what is written. */
double hn_ceiling_move_ns(const hn_ceiling_level *level, double read_bytes, double written_bytes);

/* "bf16": the ceiling of products of this type. */
hn_ceiling_math hn_ceiling_math_of(hn_scalar_type type);

/* ---- parts ---- */

/* host.c: the CPU. */
/* Of the memory that the machine has. */
int64_t hn_ceilings_host_memory(void);
/* A limit of memory as Linux writes it for a group of processes, in bytes; INT64_MAX: there is no
 * such file, or no limit in it. */
int64_t hn_ceilings_limit_read(const char *path);
/* How many bytes may be touched: a sixteenth of the machine's memory, and no more than a quarter of
 * what a container may have. */
int64_t hn_ceilings_host_room(void);
/* Touches `room` bytes at most, but never less than 16 MiB and some for each thread. Errors:
 * out-of-memory. */
hn_status hn_ceilings_measure_host(int threads, int64_t room, hn_ceilings *out) HN_MUST_USE;

/* device.c: any device that runs texts of kernels. */
struct hn_dev;
hn_status hn_ceilings_measure_device(struct hn_dev *dev, hn_ceilings *out) HN_MUST_USE;

/* text.c: one JSON object, as the cache keeps them. */
void hn_ceilings_print(const hn_ceilings *ceilings, hn_strbuf *out);
/* Errors: corrupt for anything that hn_ceilings_print does not write; out-of-memory. */
hn_status hn_ceilings_parse(hn_str text, hn_ceilings *out) HN_MUST_USE;

#endif
