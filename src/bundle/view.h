/* view.h: a bundle in memory, verified, read in place. */
#ifndef HN_BUNDLE_VIEW_H
#define HN_BUNDLE_VIEW_H

#include "base/cubin.h"
#include "base/hash.h"
#include "base/str.h"
#include "bundle/format.h"
#include "henry/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Arrays of the file, by section. Borrowed: they point into the bytes given to hn_bundle_open.
 * After a successful open every index, offset and count inside them is in range. */
typedef struct hn_bundle {
    const uint8_t *bytes;
    size_t len;
    const hnb_header *header;
    const hnb_info *info;
#define HN_BUNDLE_ARRAY(name, type)                                                                \
    const type *name;                                                                              \
    uint32_t name##_count;
    HN_BUNDLE_ARRAY(nodes, hnb_node)
    HN_BUNDLE_ARRAY(symbols, hnb_symbol)
    HN_BUNDLE_ARRAY(guards, hnb_guard)
    HN_BUNDLE_ARRAY(inputs, hnb_input)
    HN_BUNDLE_ARRAY(outputs, hnb_output)
    HN_BUNDLE_ARRAY(dims, uint32_t)
    HN_BUNDLE_ARRAY(buffers, hnb_buffer)
    HN_BUNDLE_ARRAY(steps, hnb_step)
    HN_BUNDLE_ARRAY(operands, hnb_operand)
    HN_BUNDLE_ARRAY(params, uint32_t)
    HN_BUNDLE_ARRAY(kernels, hnb_kernel)
    HN_BUNDLE_ARRAY(objects, hnb_object)
    HN_BUNDLE_ARRAY(storages, hnb_storage)
    HN_BUNDLE_ARRAY(weight_files, hnb_weight_file)
    HN_BUNDLE_ARRAY(origins, hnb_origin)
    HN_BUNDLE_ARRAY(step_origins, uint32_t)
    HN_BUNDLE_ARRAY(features, hnb_str)
    HN_BUNDLE_ARRAY(targets, hnb_target)
    HN_BUNDLE_ARRAY(codes, hnb_code)
    HN_BUNDLE_ARRAY(args, hnb_arg)
    HN_BUNDLE_ARRAY(launches, hnb_launch)
    HN_BUNDLE_ARRAY(tensors, hnb_tensor)
    HN_BUNDLE_ARRAY(workspaces, hnb_workspace)
    HN_BUNDLE_ARRAY(programs, hnb_program) /* none: the file has one program, this */
    HN_BUNDLE_ARRAY(pieces, hnb_piece)
    HN_BUNDLE_ARRAY(piece_dims, hn_box_dim)
    HN_BUNDLE_ARRAY(records, hnb_record)
    HN_BUNDLE_ARRAY(weights_program, hnb_weights_program) /* none or one */
    HN_BUNDLE_ARRAY(weights_sources, uint32_t)
    HN_BUNDLE_ARRAY(choices, hnb_choice)
    HN_BUNDLE_ARRAY(variants, hnb_variant)
    HN_BUNDLE_ARRAY(boxes, hn_choice_box)
#undef HN_BUNDLE_ARRAY
    const char *strings;
    uint64_t strings_bytes;
    const uint8_t *blob;
    uint64_t blob_bytes;
    const char *key; /* NULL when it is missing */
    uint64_t key_bytes;
    const char *tuning; /* lines of tuning records; NULL when it is missing */
    uint64_t tuning_bytes;
    const uint8_t *code;                       /* part two; NULL when there is none */
    const uint8_t *weights;                    /* part three of the file, if it is in `bytes` */
    uint64_t weights_bytes, weight_file_bytes; /* of part three, of the file's weights file */
    /* number of the program's first object among those of all programs of the file */
    uint32_t first_object;
    bool is_of_weights; /* it is the program of weights of another one */
} hn_bundle;

/* Verifies structure (always) and the digest of part one (when asked) and fills the view. Objects
 * and weights are not read: hn_bundle_object_get and hn_bundle_weights_check compare those. `bytes`
 * must be 8-byte aligned; part three may be missing from `bytes` when `len` is the size of the
 * others (a cache entry without its weights).
 * Errors: corrupt, naming what is wrong; incompatible for another version of the format or of the
 * ABIs; invalid-argument for unaligned bytes. */
hn_status hn_bundle_open(const void *bytes, size_t len, bool check_digest,
                         hn_bundle *out) HN_MUST_USE;

/* How many programs a file has: 1 or more. Program 0 is `b` itself. */
static inline uint32_t hn_bundle_program_count(const hn_bundle *b) {
    return b->programs_count ? b->programs_count : 1;
}
/* A program of a file that was opened, verified as by hn_bundle_open. The view is like that of a
 * file with this program only, but the file's weights file is known to `file` only. Errors:
 * corrupt, naming the program. */
hn_status hn_bundle_program_open(const hn_bundle *file, uint32_t program, bool check_digest,
                                 hn_bundle *out) HN_MUST_USE;
/* All of them. */
hn_status hn_bundle_programs_check(const hn_bundle *file, bool check_digest) HN_MUST_USE;
/* The program for a device. `*out_program` is the count of programs if there is none. */
bool hn_bundle_program_find(const hn_bundle *file, uint32_t device, uint32_t *out_program);
/* The program of weights of a program that has one, verified as that: its storages and outputs are
 * what they are said to be. Errors: corrupt. */
hn_status hn_bundle_weights_program_open(const hn_bundle *b, bool check_digest,
                                         hn_bundle *out) HN_MUST_USE;
/* For which device a program is. */
hn_device_kind hn_bundle_program_device(const hn_bundle *file, uint32_t program);
/* "cpu (x86-64-v4, generic), cuda (sm_90a)": every program with its targets. */
void hn_bundle_programs_print(const hn_bundle *file, hn_strbuf *out);

/* Bytes of all storages but those that are made of others or computed. */
uint64_t hn_bundle_storage_bytes(const hn_bundle *b);
/* The bytes of an object, which a zero byte follows; with `verify` compared with their digest.
 * Errors: corrupt; invalid-argument for an index out of range or an object that is only named. */
hn_status hn_bundle_object_get(const hn_bundle *b, uint32_t object, bool verify,
                               hn_str *out) HN_MUST_USE;
/* Everything that no reader needs before it uses it: digests of all objects, and that what lies
 * between the parts and sections is zeros. With this, the weights' digest and that of part one
 * every byte of a file is covered. */
hn_status hn_bundle_check_code(const hn_bundle *b) HN_MUST_USE;

/* variants.c: how a step calls the function of a target. */
typedef struct hn_bundle_call {
    uint32_t kernel;
    const hnb_launch *launch; /* NULL: the step calls none */
    uint32_t arg_count;       /* operands from launch->operands on */
    hnb_str form;             /* of a step with variants */
} hn_bundle_call;
/* The table of a step with variants; NULL: it has none. */
const hnb_choice *hn_bundle_choice_find(const hn_bundle *b, uint32_t step, uint32_t target);
/* How many variants it has: 1 of a step without a table. */
uint32_t hn_bundle_variant_count(const hn_bundle *b, uint32_t step, uint32_t target);
/* `variant` is below that. Of a KERNEL step, of an EXTERN step with a kernel, or of one with a
 * table, which only has forms. */
hn_bundle_call hn_bundle_call_of(const hn_bundle *b, uint32_t step, uint32_t target,
                                 uint32_t variant);
/* The same when the step's table is known; NULL: it has none. */
hn_bundle_call hn_bundle_call_by(const hn_bundle *b, const hnb_step *step, uint32_t target,
                                 const hnb_choice *choice, uint32_t variant);
/* The variant for values of expressions, which all are there: hn_bundle_eval. Where a size cannot
 * be computed, it is that for all others. */
uint32_t hn_bundle_choice_pick(const hn_bundle *b, const hnb_choice *choice, const int64_t *values,
                               const uint8_t *bad);
/* What a function takes of a GPU. False where the object does not tell it: only cubins do. */
bool hn_bundle_code_use(const hn_bundle *b, const hnb_code *code, hn_cubin_use *out);
static inline const hnb_code *hn_bundle_code(const hn_bundle *b, uint32_t kernel, uint32_t target) {
    return &b->codes[b->kernels[kernel].codes + target];
}
const char *hn_bundle_object_kind_name(uint32_t kind); /* "elf", "cubin", "ptx", "opencl" */
const char *hn_bundle_target_kind_name(uint32_t kind); /* "cpu", "cuda", "opencl" */
/* On which kind of device code of a target runs. `kind` is in range. */
hn_device_kind hn_bundle_target_device(uint32_t kind);
/* A bundle's words for programs that run on a device; NULL: bundles have none. */
typedef struct hn_bundle_words {
    hnb_target_kind target;
    hnb_object_kind object;
    hnb_object_kind
        ptx; /* an object that the device's driver compiles; as `object` where there is none */
} hn_bundle_words;
const hn_bundle_words *hn_bundle_words_of(hn_device_kind device);
/* The size of a device's workspace, an expression; 0: it has none. */
uint32_t hn_bundle_workspace(const hn_bundle *b, uint32_t device);

/* What a step is made of on a target; NULL: there is no record. */
const hnb_record *hn_bundle_record_find(const hn_bundle *b, uint32_t step, uint32_t target);

/* The next tuning record, a line without its end; `at` is 0 first. False behind the last. What is
 * in it nobody has checked: tune/record.h reads it. */
bool hn_bundle_tuning_next(const hn_bundle *b, uint64_t *at, hn_str *out_line);

/* What a piece of a made storage copies. */
static inline hn_box hn_bundle_piece_box(const hn_bundle *b, const hnb_piece *piece) {
    return (hn_box){.rank = piece->rank,
                    .dims = b->piece_dims + piece->dims,
                    .run_bytes = piece->run_bytes,
                    .from = piece->from,
                    .to = piece->to};
}
/* Whether `piece` is one of storage `storage`, which is MADE: its pieces are from its `offset`
 * on. */
static inline bool hn_bundle_has_piece(const hn_bundle *b, uint32_t storage, uint64_t piece) {
    return piece < b->pieces_count && b->pieces[piece].storage == storage;
}

/* What a program whose kernels run on a device leaves to the host, bodies of conditionals
 * included. */
typedef struct hn_bundle_transfers {
    bool is_for_device;  /* false: the host does everything, and the rest is 0 */
    uint32_t host_steps; /* operations */
    /* steps that copy between host and device; inputs and outputs are no steps */
    uint32_t copies;
    /* of these copies, for the sizes that the model was exported with; -1: the data decides */
    int64_t bytes;
} hn_bundle_transfers;
void hn_bundle_transfers_get(const hn_bundle *b, hn_bundle_transfers *out);

/* Whether all 32 bytes are 0: a digest that was not computed. */
bool hn_bundle_digest_is_unknown(const uint8_t digest[32]);
/* The digest of part one, with digest, signer and signature of the header as zeros. */
hn_digest hn_bundle_meta_digest(const void *bytes, size_t meta_bytes);
/* The "ends" digest: see hnb_weight_file. */
hn_digest hn_bundle_ends_digest(const uint8_t *bytes, size_t len);

static inline const char *hn_bundle_text(const hn_bundle *b, hnb_str s) {
    return s.len ? b->strings + s.offset : "";
}
static inline hn_str hn_bundle_str(const hn_bundle *b, hnb_str s) {
    return (hn_str){hn_bundle_text(b, s), s.len};
}

/* Evaluates every node: out_values[nodes_count]; out_bad[nodes_count] is 1 where the value is
 * undefined (overflow, division by 0, or an operand that is). `symbols` has a value for each
 * symbol; nodes that use a symbol from `symbol_count` on are bad. */
void hn_bundle_eval(const hn_bundle *b, const int64_t *symbols, uint32_t symbol_count,
                    int64_t *out_values, uint8_t *out_bad);
/* The same for nodes [first, end), when those before are there already. */
void hn_bundle_eval_range(const hn_bundle *b, const int64_t *symbols, uint32_t symbol_count,
                          uint32_t first, uint32_t end, int64_t *values, uint8_t *bad);

/* "==" and the like, by hnb_relation; and whether it holds. */
extern const char *const hn_bundle_relations[HNB_RELATION_COUNT];
bool hn_bundle_relation_holds(uint32_t relation, int64_t x, int64_t y);

/* "2*s0 + 7"; "?" for 0. Long expressions are cut with "...". */
void hn_bundle_expr_print(const hn_bundle *b, uint32_t node, hn_strbuf *out);
/* "2..512"; "-inf" and "inf" for bounds that are none. */
void hn_bundle_range_print(int64_t lo, int64_t hi, hn_strbuf *out);
/* Whether the expression is a number. */
bool hn_bundle_expr_const(const hn_bundle *b, uint32_t node, int64_t *out_value);

/* Everything about the bundle as text for people, or as one JSON object. */
void hn_bundle_describe_text(const hn_bundle *b, hn_strbuf *out);
void hn_bundle_describe_json(const hn_bundle *b, hn_strbuf *out);

/* "f32" by number; "none" out of range. Same names as include/henry/tensor.h. */
const char *hn_bundle_dtype_name(uint32_t dtype);
uint32_t hn_bundle_dtype_bytes(uint32_t dtype); /* 0 out of range */
const char *hn_bundle_extern_name(uint32_t kind);
const char *hn_bundle_buffer_kind_name(uint32_t kind); /* "temp" */
const char *hn_bundle_step_kind_name(uint32_t kind);   /* "kernel" */

#endif
