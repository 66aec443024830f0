/* index_fault.h: which index of a kernel was out of bounds. Only for messages: a kernel tells no
 * more than that one was. */
#ifndef HN_RUNTIME_INDEX_FAULT_H
#define HN_RUNTIME_INDEX_FAULT_H

#include "runtime/module_impl.h"

typedef struct hn_index_fault {
    uint32_t origin;
    /* the value is known; otherwise it is the only check that it can have been */
    bool is_found;
    int64_t value, lo, hi;
    const char *input; /* of the module, that has the indices; "": none has */
} hn_index_fault;

/* Makes the check at parameter `at` of a kernel's step again. Steps below `until` may have been
 * done since: indices that one of them has overwritten are not looked at. False: no bad index was
 * seen, or the check cannot be made. */
bool hn_index_fault_find(const hn_module *m, const hn_context *c, const hn_run_step *s, uint32_t at,
                         uint32_t until, hn_index_fault *out);

/* steps.c: an element as int64. */
int64_t hn_number_read(const void *element, uint32_t type);

#endif
