/* writer.h: building a bundle image. Fill the arrays, then finish. Knows nothing of the
 * compiler. */
#ifndef HN_BUNDLE_WRITER_H
#define HN_BUNDLE_WRITER_H

#include "bundle/nodes.h"

typedef struct hn_bundle_writer {
    hn_arena *arena;
    hnb_info info;
    hn_str key;    /* borrowed; bytes of HNB_KEY */
    hn_str tuning; /* borrowed; bytes of HNB_TUNING; empty: there is no such section */
    hn_nodes nodes;
#define HN_WRITER_ARRAY(name, type)                                                                \
    struct {                                                                                       \
        type *items;                                                                               \
        uint32_t count, cap;                                                                       \
    } name;
    HN_WRITER_ARRAY(symbols, hnb_symbol)
    HN_WRITER_ARRAY(guards, hnb_guard)
    HN_WRITER_ARRAY(inputs, hnb_input)
    HN_WRITER_ARRAY(outputs, hnb_output)
    HN_WRITER_ARRAY(dims, uint32_t)
    HN_WRITER_ARRAY(buffers, hnb_buffer)
    HN_WRITER_ARRAY(steps, hnb_step)
    HN_WRITER_ARRAY(operands, hnb_operand)
    HN_WRITER_ARRAY(params, uint32_t)
    HN_WRITER_ARRAY(kernels, hnb_kernel)
    HN_WRITER_ARRAY(objects, hnb_object)
    HN_WRITER_ARRAY(storages, hnb_storage)
    HN_WRITER_ARRAY(weight_files, hnb_weight_file)
    HN_WRITER_ARRAY(origins, hnb_origin)
    HN_WRITER_ARRAY(step_origins, uint32_t)
    HN_WRITER_ARRAY(features, hnb_str)
    HN_WRITER_ARRAY(targets, hnb_target)
    HN_WRITER_ARRAY(codes, hnb_code)
    HN_WRITER_ARRAY(args, hnb_arg)
    HN_WRITER_ARRAY(launches, hnb_launch)
    HN_WRITER_ARRAY(tensors, hnb_tensor)
    HN_WRITER_ARRAY(workspaces, hnb_workspace)
    HN_WRITER_ARRAY(programs, hnb_program)
    HN_WRITER_ARRAY(pieces, hnb_piece)
    HN_WRITER_ARRAY(piece_dims, hn_box_dim)
    HN_WRITER_ARRAY(records, hnb_record)
    HN_WRITER_ARRAY(weights_program, hnb_weights_program)
    HN_WRITER_ARRAY(weights_sources, uint32_t)
    HN_WRITER_ARRAY(choices, hnb_choice)
    HN_WRITER_ARRAY(variants, hnb_variant)
    HN_WRITER_ARRAY(boxes, hn_choice_box)
#undef HN_WRITER_ARRAY
    /* Pieces of the byte areas, by reference: they must live until finish. Offsets are given out in
     * order. */
    struct hn_writer_pieces {
        struct hn_writer_piece {
            const void *bytes;
            uint64_t len, offset;
        } * items;
        uint32_t count, cap;
        uint64_t end; /* first free offset */
    } blob, code, weights;
    hn_strbuf strings;
    hn_strmap string_map;
    bool weights_digest; /* compute the full digest of part three */
    bool is_inner;       /* a program in a file that has its weights */
} hn_bundle_writer;

/* Arrays whose element 0 is a filler have it after init. Owns: arrays live in `arena`; deinit frees
 * the rest. */
hn_status hn_bundle_writer_init(hn_bundle_writer *w, hn_arena *arena) HN_MUST_USE;
void hn_bundle_writer_deinit(hn_bundle_writer *w);

/* Equal strings are stored once. */
hn_status hn_bundle_writer_str(hn_bundle_writer *w, hn_str text, hnb_str *out) HN_MUST_USE;
/* A target; `features` is a list, each with its NUL. */
hn_status hn_bundle_writer_target(hn_bundle_writer *w, hnb_target_kind kind, uint32_t machine,
                                  hn_str name, hn_str features, uint32_t *out_target) HN_MUST_USE;
/* An object of a target that is there. `bytes` NULL: only named, by `digest`, which is computed
 * otherwise. */
hn_status hn_bundle_writer_object(hn_bundle_writer *w, hnb_object_kind kind, uint32_t target,
                                  hn_str name, const void *bytes, uint64_t len,
                                  const uint8_t *digest, uint32_t *out_object) HN_MUST_USE;
/* Reserves room for bytes at the next multiple of HNB_ALIGN. */
hn_status hn_bundle_writer_piece(hn_bundle_writer *w, struct hn_writer_pieces *area,
                                 const void *bytes, uint64_t len, uint64_t *out_offset) HN_MUST_USE;

/* Appends the whole image (all parts) to `out`, which must be empty. */
hn_status hn_bundle_writer_finish(hn_bundle_writer *w, hn_strbuf *out) HN_MUST_USE;
/* The same into a file, atomically, without a copy of the weights in memory. Errors: io. */
hn_status hn_bundle_writer_save(hn_bundle_writer *w, const char *path) HN_MUST_USE;

#endif
