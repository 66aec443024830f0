/* record.h: what a form is made of, in numbers. They are counted in its statements; texts are never
 * read back. */
#ifndef HN_KERNEL_RECORD_H
#define HN_KERNEL_RECORD_H

#include "kernel/form.h"

/* Statements are counted once, however often they run. Memory is that of the program. */
typedef struct hn_form_record {
    uint32_t arguments;      /* memories of the program that it has */
    uint32_t loads, stores;  /* of the program's memory; a move of several elements is one */
    uint32_t atomics;        /* of the stores, those at which threads may meet */
    uint32_t loops;          /* FOR and LANES, unrolled ones too */
    uint32_t barriers;       /* of threads */
    uint32_t reductions;     /* registers that combine values */
    uint32_t lanes, threads; /* as in hn_form */
    bool is_vectorized;      /* computes in vectors, or its threads move several elements at once */
    hn_form_cost cost;
} hn_form_record;

hn_form_record hn_form_record_of(const hn_form *f);

#endif
