/* fast.c: picks the implementation of a kind that takes a call. */
#include "ops/cpu/fast.h"

#include "ops/cpu/attention/attention.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/gemm/matmul.h"

#include <stdlib.h>
#include <string.h>

/* The state of a call: who does it, and that one's own state. */
typedef struct choice {
    const hn_ext_impl *impl;
    void *state;
} choice;

/* Who may take a call, under the name of its form (hn_ext_form). */
typedef struct way {
    const char *kind;
    const hn_ext_impl *impl;
} way;

static bool is_asked_for(const hn_ext_call *call, const char *kind) {
    return !call->form || !call->form->kind || strcmp(call->form->kind, kind) == 0;
}

/* Why nobody takes it: what all of them said. */
static hn_status add_reason(hn_status all, hn_status one) {
    if (!all || hn_status_code(one) != HN_UNSUPPORTED) {
        hn_status_free(all);
        return one;
    }
    hn_status both =
        HN_ERROR(HN_UNSUPPORTED, "%s; %s", hn_status_message(all), hn_status_message(one));
    hn_status_free(all);
    hn_status_free(one);
    return both;
}

/* The first of `list` (up to one without impl) that does not say unsupported. */
static hn_status choose(hn_ext_call *call, const way *list) {
    choice *c = malloc(sizeof *c);
    if (!c) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an extern call");
    hn_status status = NULL;
    c->impl = NULL;
    for (; list->impl; list++) {
        if (!is_asked_for(call, list->kind)) continue;
        call->state = NULL;
        call->scratch_bytes = 0;
        c->impl = list->impl;
        status = add_reason(status, list->impl->prepare(call));
        if (hn_status_code(status) != HN_UNSUPPORTED) break;
    }
    if (!c->impl) status = HN_ERROR(HN_UNSUPPORTED, "no form '%s'", call->form->kind);
    if (status) {
        free(c);
        call->state = NULL;
        return status;
    }
    c->state = call->state;
    call->state = c;
    return NULL;
}

static hn_status prepare_absent(hn_ext_call *call) {
    (void)call;
    return HN_ERROR(HN_UNSUPPORTED, "this project does without the operation");
}
const hn_ext_impl hn_ext_absent = {.name = "absent", .prepare = prepare_absent};

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
    return choose(call, (const way[]){{"skinny", &hn_ext_matmul_skinny},
                                      {"gemm", &hn_ext_matmul_f32},
                                      {"gemm", &hn_ext_half},
                                      {"gemm", &hn_ext_matmul_f64},
                                      {"gemm", &hn_ext_matmul_plain},
                                      {NULL, NULL}});
}

/* conv/conv.c knows more kinds. */
static hn_status conv_prepare(hn_ext_call *call) {
    const char *any = call->form && call->form->kind ? call->form->kind : "";
    return choose(call, (const way[]){{any, &hn_ext_conv_f32}, {any, &hn_ext_half}, {NULL, NULL}});
}
static hn_status attention_prepare(hn_ext_call *call) {
    return choose(call, (const way[]){{"few-queries", &hn_ext_attention_decode},
                                      {"blocks", &hn_ext_attention_f32},
                                      {"blocks", &hn_ext_half},
                                      {NULL, NULL}});
}

const hn_ext_impl hn_ext_matmul = {
    .name = "gemm", .prepare = matmul_prepare, .run = run, .release = release};
const hn_ext_impl hn_ext_convolution = {
    .name = "conv", .prepare = conv_prepare, .run = run, .release = release};
const hn_ext_impl hn_ext_attention = {
    .name = "attention", .prepare = attention_prepare, .run = run, .release = release};
