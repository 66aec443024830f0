/* debug.h: what debug.c, which looks at tensors, and debug_save.c share. */
#ifndef DEBUG_H
#define DEBUG_H

#include "support.h"

#include <stdio.h>

enum { DEBUG_OFF, DEBUG_NAMES, DEBUG_STATS, DEBUG_SAVE, DEBUG_CHECK };

/* What HENRY_DEBUG_TENSORS asks for. */
typedef struct debug_wanted {
    int level;
    bool ignore_inf, ignore_nan;
    char kernel[200], node[200]; /* patterns; "": all */
    char folder[600];            /* of SAVE */
} debug_wanted;

typedef struct debug_file {
    uint64_t call, digest, number; /* 0: there is none */
} debug_file;

/* Of a model. */
struct debug {
    debug_wanted wanted;
    uint64_t call;     /* that `wanted` was read for */
    bool *seen;        /* per buffer: a weight that was looked at */
    debug_file *files; /* per buffer: the last one of what is in it */
    FILE *manifest;    /* NULL: there is none yet */
    long end;          /* where its next entry goes */
    uint64_t saved, entries;
};

/* A tensor of a call. */
typedef struct debug_tensor {
    const debug_step *step;
    const debug_operand *operand;
    bool is_after;
    const int64_t *sizes, *strides; /* elements */
    const void *data;
} debug_tensor;

/* Writes the tensor to a file of its own, unless the last one of its memory has the same, and an
 * entry of manifest.json. Nonzero, with a message in the model, when there is no folder for them;
 * a file that cannot be written is said on standard error. */
int debug_save(model *m, const debug_tensor *t);

#endif
