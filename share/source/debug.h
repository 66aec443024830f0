/* debug.h: what debug.c, which looks at tensors, and debug_save.c share. */
#ifndef DEBUG_H
#define DEBUG_H

#include "runtime/tensor_stats.h"
#include "support.h"

#include <stdio.h>

enum { DEBUG_OFF, DEBUG_NAMES, DEBUG_STATS, DEBUG_SAVE, DEBUG_CHECK };

/* What HENRY_DEBUG_TENSORS asks for. */
typedef struct debug_wanted {
    char text[1200]; /* what the others point into */
    int level;
    bool ignore_inf, ignore_nan;
    const char *kernel, *node, *arg; /* patterns; NULL: all */
    const char *to;                  /* the folder of SAVE, the file of lines; NULL: stderr */
    uint64_t first_call, last_call;  /* last_call 0: no end */
} debug_wanted;

typedef struct debug_file {
    uint64_t call, digest, number; /* 0: there is none */
} debug_file;

/* What was seen of the tensor in a buffer, which has not changed since. */
typedef struct debug_seen {
    uint64_t mark;         /* of a weight 1, else the number of the run; 0: nothing was seen */
    hn_tensor_stats stats; /* of STATS */
} debug_seen;

/* Of a model. */
struct debug {
    debug_wanted wanted;
    uint64_t call;     /* that `wanted` was read for */
    debug_seen *seen;  /* per buffer */
    debug_file *files; /* per buffer: the last one of what is in it */
    char folder[600];  /* of SAVE */
    FILE *manifest;    /* NULL: there is none yet */
    long end;          /* where its next entry goes */
    uint64_t saved, entries;
    uint64_t inputs_of;    /* the run whose inputs were looked at */
    struct debug_gpu *gpu; /* debug_device.c; NULL: not needed yet */
};

typedef enum debug_when { DEBUG_INPUT, DEBUG_BEFORE, DEBUG_AFTER } debug_when;

/* A tensor of a call, or an input of the model. */
typedef struct debug_tensor {
    const debug_step *step; /* of an INPUT: the first one that is looked at */
    const debug_operand *operand;
    debug_when when;
    const int64_t *sizes, *strides; /* elements */
    const void *data;
} debug_tensor;

/* debug_device.c: of tensors that a GPU has, by the GPU. */
typedef struct debug_device_calls {
    /* false: the GPU does not do it. Waits for it. */
    bool (*stats)(model *m, const debug_tensor *t, hn_tensor_stats *out);
    /* Of CHECK: the GPU makes the statistics when it comes to them, and check_all judges them.
     * Waits for it when there are too many. `*out_done` false: the GPU does not do it. Nonzero,
     * with a message in the model: an earlier tensor has a fault. */
    int (*check_later)(model *m, const debug_tensor *t, bool *out_done);
    int (*check_all)(model *m);
    void (*close)(model *m);
} debug_device_calls;

/* Nonzero, with a message in the model, when the statistics of a tensor tell of a fault. */
int debug_check(model *m, const debug_tensor *t, const hn_tensor_stats *stats);

/* Writes the tensor to a file of its own, unless the last one of its memory has the same, and an
 * entry of manifest.json. Nonzero, with a message in the model, when there is no folder for them;
 * a file that cannot be written is said on standard error. */
int debug_save(model *m, const debug_tensor *t);

#endif
