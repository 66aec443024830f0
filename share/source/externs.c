/* externs.c: calls of the contractions, convolutions and the like that came along from Henry's
 * runtime (lib/runtime). */
#include "support.h"

#include "base/hash.h"
#include "ops/cpu/ext.h"
#include "ops/cpu/forms.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)MAX_OPERANDS == (int)HN_EXT_MAX_OPERANDS, "support.h and ext.h");

struct externs {
    hn_ext_shared *shared; /* packed weights */
    hn_ext_call *calls;    /* per call of the program; `impl` is NULL before the first run */
    hn_ext_form *forms;    /* per call: what it was asked for */
    int64_t **params;      /* per call: what it was prepared for */
};

/* Keys of packed weights: few and short, so a plain hash does (FNV-1a). */
uint64_t hn_hash64(const void *bytes, size_t len, uint64_t seed) {
    uint64_t hash = 0xcbf29ce484222325u ^ seed;
    for (size_t k = 0; k < len; k++) hash = (hash ^ ((const uint8_t *)bytes)[k]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

static int refuse(model *m, const char *where, hn_status status) {
    int failed = fail(m, "%s: %s", where, hn_status_message(status));
    hn_status_free(status);
    return failed;
}

static int externs_open(model *m) {
    m->externs = calloc(1, sizeof *m->externs);
    if (!m->externs) return fail(m, "out of memory");
    m->externs->calls = calloc(model_program.externs, sizeof *m->externs->calls);
    m->externs->forms = calloc(model_program.externs, sizeof *m->externs->forms);
    m->externs->params = calloc(model_program.externs, sizeof *m->externs->params);
    if (!m->externs->calls || !m->externs->forms || !m->externs->params)
        return fail(m, "out of memory");
    hn_status status = hn_ext_shared_create(&m->externs->shared);
    return status ? refuse(m, "extern operations", status) : 0;
}

void externs_close(model *m) {
    struct externs *e = m->externs;
    for (uint32_t k = 0; e->calls && e->params && k < model_program.externs; k++) {
        if (e->calls[k].impl) hn_ext_release(&e->calls[k]);
        free(e->params[k]);
    }
    hn_ext_shared_destroy(e->shared);
    free(e->calls);
    free(e->forms);
    free(e->params);
    free(e);
}

/* In the form that it is asked for; a form that it cannot have here is left to the operation. */
static hn_status prepare_in_form(hn_ext_call *call, const char *text, hn_ext_form *form) {
    hn_status status = *text ? hn_ext_form_read(text, form) : NULL;
    if (*text && !status) {
        call->form = form;
        status = hn_ext_prepare(call);
        if (hn_status_code(status) != HN_UNSUPPORTED) return status;
    }
    hn_status_free(status);
    call->form = NULL;
    return hn_ext_prepare(call);
}

/* The call with these parameters, which stay with it. */
static int prepare(model *m, const extern_facts *f, void *const *operands, const int64_t *params) {
    hn_ext_call *call = &m->externs->calls[f->index];
    int64_t **kept = &m->externs->params[f->index];
    for (uint32_t k = 0; k < f->params; k++)
        if (params[k] == UNDEFINED) return fail(m, "%s: the inputs are too large", f->where);
    if (call->impl && memcmp(*kept, params, f->params * sizeof *params) == 0) return 0;
    if (call->impl) hn_ext_release(call);
    if (!*kept) *kept = calloc(f->params, sizeof *params);
    *call = (hn_ext_call){.kind = (hn_extern_kind)f->kind,
                          .threads = m->threads,
                          .team = &m->team,
                          .shared = m->externs->shared};
    if (!*kept) return fail(m, "out of memory");
    memcpy(*kept, params, f->params * sizeof *params);
    call->params = *kept;
    call->param_count = f->params;
    for (uint32_t k = 0; k < f->operands; k++) {
        call->dtypes[k] = f->types[k];
        call->is_constant[k] = f->constants >> k & 1;
        if (call->is_constant[k]) call->operands[k] = operands[k];
    }
    hn_status status = prepare_in_form(call, f->form, &m->externs->forms[f->index]);
    if (!status) return 0;
    call->impl = NULL;
    return refuse(m, f->where, status);
}

int extern_run(model *m, const extern_facts *f, void *const *operands, const int64_t *params) {
    if (!m->externs) TRY(externs_open(m));
    TRY(prepare(m, f, operands, params));
    hn_ext_call *call = &m->externs->calls[f->index];
    TRY(reserve(m, &m->scratch, (int64_t)call->scratch_bytes));
    for (uint32_t k = 0; k < f->operands; k++)
        if (f->types[k]) call->operands[k] = operands[k];
    hn_status status = hn_ext_run(call, call->scratch_bytes ? m->scratch.bytes : NULL);
    return status ? refuse(m, f->where, status) : 0;
}
