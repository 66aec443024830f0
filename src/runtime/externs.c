/* externs.c: calls of operations, bound to one set of sizes. On the host src/ops does them, on
 * another device the row of the device (hn_device_operations). */
#include "runtime/externs.h"

#include "base/compiler.h"

static const hn_device_operations *own_of(const hn_run_extern *x) {
    return x->dev->ops->operations;
}

bool hn_extern_is_prepared(const hn_run_extern *x) {
    return x->own || x->call.impl || x->has_kernel;
}

hn_status hn_extern_prepare(hn_run_extern *x) {
    if (x->dev->facts.is_host) return hn_ext_prepare(&x->call);
    HN_TRY(hn_ext_check(&x->call));
    return hn_ext_annotate(&x->call, own_of(x)->prepare(x->dev, &x->call, &x->own));
}

size_t hn_extern_scratch_bytes(const hn_run_extern *x) {
    return x->own ? own_of(x)->scratch_bytes(x->own) : x->call.scratch_bytes;
}

void hn_extern_release(hn_run_extern *x) {
    hn_dev_operation_release(x->dev, x->own);
    x->own = NULL;
    x->has_kernel = false;
    hn_ext_release(&x->call);
}

static hn_status run_here(hn_ext_call *call, void *const *args, void *scratch) {
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (call->dtypes[k]) call->operands[k] = args[k];
    return hn_ext_run(call, call->scratch_bytes ? scratch : NULL);
}

hn_status hn_extern_run(const hn_context *c, const hn_run_step *s, hn_device_fault *out) {
    const hn_context_place *place = &c->places[s->place];
    hn_run_extern *x = s->ext;
    uint8_t *scratch =
        s->scratch_at < 0 ? place->scratch.memory : place->workspace.memory + s->scratch_at;
    *out = (hn_device_fault){.is_set = false};
    if (!x->own) return run_here(&x->call, s->args, scratch);
    return own_of(x)->run(place->queue, x->own, s->index, s->args, scratch, out);
}
