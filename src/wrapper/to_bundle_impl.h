/* to_bundle_impl.h: what the files of the printer to bundles share. */
#ifndef HN_WRAPPER_TO_BUNDLE_IMPL_H
#define HN_WRAPPER_TO_BUNDLE_IMPL_H

#include "bundle/writer.h"
#include "wrapper/numbering.h"
#include "wrapper/to_bundle.h"

typedef struct bundle_emitter {
    const hn_wrapper *w;
    const hn_memory_plan *plan;
    const hn_to_bundle_options *options;
    hn_sym *sym;
    hn_bundle_writer out;
    uint32_t target_count;
    hn_wnumbering numbering;
    uint32_t *buffers;   /* per buffer its number in the bundle: of a view that of its root */
    uint32_t *sources;   /* of a program of weights, per storage of its graph; else NULL */
    uint32_t first_pool; /* in the bundle: behind the buffers */
    hn_strmap shapes; /* sizes and strides that are stored already -> the first of them in dims */
    struct {
        uint32_t *items;
        uint32_t count, cap;
    } beside; /* storages for a safetensors file */
} bundle_emitter;

/* to_bundle.c. An optional expression that is absent is node 0. */
hn_status hn_emit_str(bundle_emitter *e, hn_str text, hnb_str *out) HN_MUST_USE;
hn_status hn_emit_expr(bundle_emitter *e, hn_expr expr, uint32_t *out_node) HN_MUST_USE;
hn_status hn_emit_optional(bundle_emitter *e, hn_expr expr, uint32_t *out_node) HN_MUST_USE;

/* to_bundle_steps.c, in this order. */
hn_status hn_emit_targets(bundle_emitter *e, const hn_bundle_objects *objects) HN_MUST_USE;
hn_status hn_emit_objects(bundle_emitter *e, const hn_bundle_objects *objects) HN_MUST_USE;
hn_status hn_emit_kernels(bundle_emitter *e, uint32_t object_count) HN_MUST_USE;
hn_status hn_emit_origins(bundle_emitter *e) HN_MUST_USE;
hn_status hn_emit_step(bundle_emitter *e, uint32_t line) HN_MUST_USE;
/* to_bundle_records.c: of a line that is step number `step`. */
hn_status hn_emit_records(bundle_emitter *e, uint32_t line, uint32_t step) HN_MUST_USE;

#endif
