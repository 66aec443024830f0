/* cancel.c: tokens that ask runs to stop. */
#include "runtime/module_impl.h"

#include "base/require.h"

#include <stdlib.h>

_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a signal handler may set a token");

hn_status hn_cancel_create(hn_cancel **out_cancel) {
    HN_REQUIRE(out_cancel, "out_cancel");
    hn_cancel *cancel = malloc(sizeof *cancel);
    if (!cancel) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a cancellation token");
    atomic_init(&cancel->is_set, false);
    *out_cancel = cancel;
    return NULL;
}

void hn_cancel_set(hn_cancel *cancel) {
    if (cancel) atomic_store_explicit(&cancel->is_set, true, memory_order_release);
}

void hn_cancel_reset(hn_cancel *cancel) {
    if (cancel) atomic_store_explicit(&cancel->is_set, false, memory_order_release);
}

bool hn_cancel_is_set(const hn_cancel *cancel) {
    return cancel && atomic_load_explicit(&cancel->is_set, memory_order_acquire);
}

void hn_cancel_destroy(hn_cancel *cancel) { free(cancel); }
