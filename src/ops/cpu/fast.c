/* fast.c: picks the implementation of a kind that takes a call. */
#include "ops/cpu/fast.h"

#include "ops/cpu/attention/attention.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/gemm/matmul.h"

#include <stdlib.h>

/* The state of a call: who does it, and that one's own state. */
typedef struct choice {
    const hn_ext_impl *impl;
    void *state;
} choice;

/* The first of `list` (up to a NULL) that does not say unsupported. */
static hn_status choose(hn_ext_call *call, const hn_ext_impl *const *list) {
    choice *c = malloc(sizeof *c);
    if (!c) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an extern call");
    hn_status status = NULL;
    for (; *list; list++) {
        hn_status_free(status);
        call->state = NULL;
        call->scratch_bytes = 0;
        status = (*list)->prepare(call);
        if (hn_status_code(status) != HN_UNSUPPORTED) break;
    }
    if (status) {
        free(c);
        call->state = NULL;
        return status;
    }
    *c = (choice){.impl = *list, .state = call->state};
    call->state = c;
    return NULL;
}

static hn_status run(const hn_ext_call *call, void *scratch) {
    const choice *c = call->state;
    hn_ext_call inner = *call;
    inner.state = c->state;
    return c->impl->run(&inner, scratch);
}

static void release(hn_ext_call *call) {
    choice *c = call->state;
    call->state = c->state;
    if (c->impl->release) c->impl->release(call);
    call->state = NULL;
    free(c);
}

static hn_status matmul_prepare(hn_ext_call *call) {
    return choose(call, (const hn_ext_impl *const[]){&hn_ext_matmul_skinny, &hn_ext_matmul_f32,
                                                     &hn_ext_half, &hn_ext_matmul_f64,
                                                     &hn_ext_matmul_plain, NULL});
}
static hn_status conv_prepare(hn_ext_call *call) {
    return choose(call, (const hn_ext_impl *const[]){&hn_ext_conv_f32, &hn_ext_half, NULL});
}
static hn_status attention_prepare(hn_ext_call *call) {
    return choose(call, (const hn_ext_impl *const[]){&hn_ext_attention_decode,
                                                     &hn_ext_attention_f32, &hn_ext_half, NULL});
}

const hn_ext_impl hn_ext_matmul = {
    .name = "gemm", .prepare = matmul_prepare, .run = run, .release = release};
const hn_ext_impl hn_ext_convolution = {
    .name = "conv", .prepare = conv_prepare, .run = run, .release = release};
const hn_ext_impl hn_ext_attention = {
    .name = "attention", .prepare = attention_prepare, .run = run, .release = release};
