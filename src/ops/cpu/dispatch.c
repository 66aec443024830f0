/* dispatch.c: hands a call that was checked (check.c) to the implementation of its kind. */
#include "ops/cpu/ext.h"

#include <stdlib.h>
#include <string.h>

static hn_status prepare_with(hn_ext_call *call, const hn_ext_impl *impl) {
    call->state = NULL;
    call->scratch_bytes = 0;
    call->impl = NULL;
    HN_TRY(impl->prepare(call));
    call->impl = impl;
    return NULL;
}

hn_status hn_ext_prepare(hn_ext_call *call) {
    call->impl = NULL;
    HN_TRY(hn_ext_check(call));
    const hn_ext_impl *row = hn_ext_impls[call->kind];
    hn_status status = prepare_with(call, row);
    const bool is_named = call->form && call->form->kind;
    if (hn_status_code(status) == HN_UNSUPPORTED && row != &hn_ext_reference && !is_named) {
        hn_status_free(status);
        status = prepare_with(call, &hn_ext_reference);
    }
    return hn_ext_annotate(call, status);
}

void hn_ext_release(hn_ext_call *call) {
    if (call->impl && call->impl->release) call->impl->release(call);
    call->impl = NULL;
    call->state = NULL;
}

hn_status hn_ext_state_keep(hn_ext_call *call, const void *state, size_t bytes) {
    call->state = malloc(bytes);
    if (!call->state) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for its state");
    memcpy(call->state, state, bytes);
    return NULL;
}

void hn_ext_state_free(hn_ext_call *call) {
    free(call->state);
    call->state = NULL;
}
