/* debug.h: what debug.c, which looks at tensors, and debug_save.c share. */
#ifndef DEBUG_H
#define DEBUG_H

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

/* Of a model. */
struct debug {
    debug_wanted wanted;
    uint64_t call;     /* that `wanted` was read for */
    bool *seen;        /* per buffer: a weight that was looked at */
    debug_file *files; /* per buffer: the last one of what is in it */
    char folder[600];  /* of SAVE */
    FILE *manifest;    /* NULL: there is none yet */
    long end;          /* where its next entry goes */
    uint64_t saved, entries;
    uint64_t inputs_of; /* the run whose inputs were looked at */
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

/* Writes the tensor to a file of its own, unless the last one of its memory has the same, and an
 * entry of manifest.json. Nonzero, with a message in the model, when there is no folder for them;
 * a file that cannot be written is said on standard error. */
int debug_save(model *m, const debug_tensor *t);

#endif
