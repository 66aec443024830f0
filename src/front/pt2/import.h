/* import.h: what the files of the importer share. Internal to front/pt2.
 *
 * program.c   finds the parts of the JSON without reading them
 * symbols.c   ranges, symbols, expressions, guards
 * payload.c   the tables of weights and constants, and their bytes (legacy.c, pickle.c: older
 *             files)
 * values.c    names of one graph: tensor metas and symbolic values, read when first needed
 * args.c      one argument of a node
 * nodes.c     nodes: special.c those that are no operators, hop.c and hop_loop.c those that hold
 *             graphs, source.c their place
 * signature.c inputs and outputs */
#ifndef HN_FRONT_PT2_IMPORT_H
#define HN_FRONT_PT2_IMPORT_H

#include "front/pt2/archive.h"
#include "front/pt2/expr.h"
#include "base/json.h"

/* --- program.c --- */

/* A place in the text; `at` is NULL when the file lacks the field. */
typedef hn_json hn_pt2_place;

/* A node as it stands in the file. */
typedef struct hn_pt2_node_text {
    hn_str target, name;
    hn_str trace;                 /* stack trace as it is escaped in the JSON */
    const char *inputs, *outputs; /* read them with hn_pt2_node_json */
} hn_pt2_node_text;

typedef struct hn_pt2_graph_text {
    hn_pt2_place inputs, outputs, tensor_values, sym_int_values, sym_bool_values, sym_float_values,
        custom_obj_values;
    hn_pt2_place node; /* a reader as deep as a node's fields */
    struct {
        hn_pt2_node_text *items;
        uint32_t count, cap;
    } nodes;
} hn_pt2_graph_text;

/* A reader at `at`, the inputs or outputs of one of the graph's nodes. */
static inline hn_json hn_pt2_node_json(const hn_pt2_graph_text *text, const char *at) {
    hn_json json = text->node;
    json.at = at;
    return json;
}

typedef struct hn_pt2_program {
    hn_pt2_graph_text graph;
    hn_pt2_place input_specs, output_specs, range_constraints, guards_code;
    int64_t major, minor;
} hn_pt2_program;

/* Notes where everything is; the bulk of the file, the nodes, is walked over once. */
hn_status hn_pt2_program_read(hn_json *json, hn_pt2_program *out) HN_MUST_USE;
hn_status hn_pt2_graph_text_read(hn_json *json, hn_pt2_graph_text *out) HN_MUST_USE;

/* Readers of small shapes that recur. */
/* {"name": N, ...} */
hn_status hn_pt2_name_read(hn_json *json, hn_str *out) HN_MUST_USE;
/* {KEY: value}: reads up to the value; the caller reads it and calls hn_pt2_union_end. */
hn_status hn_pt2_union_begin(hn_json *json, hn_str *out_key) HN_MUST_USE;
hn_status hn_pt2_union_end(hn_json *json) HN_MUST_USE;

/* --- the importer --- */

typedef struct hn_pt2_range {
    hn_str name;
    int64_t lo, hi;
} hn_pt2_range;

/* A tensor of the weights: a strided view of a record. */
typedef struct hn_pt2_payload {
    hn_str name;         /* fully qualified */
    hn_dtype dtype;      /* NONE: not supported */
    const char *problem; /* why it cannot be used; NULL when it can */
    uint32_t rank;
    const int64_t *sizes, *strides;
    int64_t offset_elems;
    hn_zip *zip; /* where the record is: the archive, or one inside it */
    hn_zip_entry *record;
    uint64_t zip_offset; /* of that zip in the file */
} hn_pt2_payload;

/* A kind of node that cannot be imported. */
typedef struct hn_pt2_missing_op {
    hn_str target, reason; /* reason "": no such operator */
    hn_origin first;
    uint32_t count;
} hn_pt2_missing_op;

typedef struct hn_pt2_importer {
    hn_pt2 *file;
    hn_str model;
    hn_arena *arena;   /* of the result */
    hn_arena *scratch; /* until the import ends */
    hn_sym *sym;
    hn_pt2_program program;
    hn_pt2_expr_env env;
    struct {
        hn_pt2_range *items;
        uint32_t count, cap;
    } ranges;
    hn_strmap range_index, expr_cache;
    struct {
        hn_pt2_payload *items;
        uint32_t count, cap;
    } payloads;
    hn_strmap weights, constants; /* name -> index into payloads */
    hn_map storages;              /* record -> storage id */
    hn_arg **defaults;            /* by op, then by parameter; NULL until needed */
    struct {
        hn_pt2_missing_op *items;
        uint32_t count, cap;
    } missing;
    hn_strmap missing_index;
    hn_import_survey *survey; /* of hn_pt2_look; NULL for an import */
    bool used_lost;           /* a value that a missing node would have made was asked for */
    uint32_t depth;           /* of nested graphs */
} hn_pt2_importer;

/* --- symbols.c --- */

hn_status hn_pt2_symbols_init(hn_pt2_importer *im) HN_MUST_USE;
/* An integer expression; the same text is parsed once. */
hn_status hn_pt2_expr_of(hn_pt2_importer *im, hn_str text, hn_expr *out) HN_MUST_USE;
/* U SymInt: {"as_int": 3} or {"as_expr": {"expr_str": ..., "hint": ...}}. Sets hints of plain
 * symbols. */
hn_status hn_pt2_sym_int_read(hn_pt2_importer *im, hn_json *json, hn_expr *out) HN_MUST_USE;
/* Ranges of derived sizes and guards_code; needs the inputs to exist. */
hn_status hn_pt2_guards_read(hn_pt2_importer *im, hn_graph *graph) HN_MUST_USE;

/* --- values.c --- */

typedef struct hn_pt2_meta {
    hn_dtype dtype; /* NONE: not supported, see dtype_code */
    int64_t dtype_code;
    uint32_t rank;
    bool contiguous;
    bool constant; /* all sizes and strides are numbers: `ints` and `int_strides` hold */
    hn_expr sizes[HN_MAX_RANK], strides[HN_MAX_RANK];
    int64_t ints[HN_MAX_RANK], int_strides[HN_MAX_RANK];
    int64_t offset; /* -1: symbolic */
} hn_pt2_meta;

hn_status hn_pt2_meta_read(hn_pt2_importer *im, hn_json *json, hn_pt2_meta *out) HN_MUST_USE;
/* "complex64" for a ScalarType number that henry lacks, "dtype 99" is "unknown". */
const char *hn_pt2_dtype_name(int64_t code);

typedef enum hn_pt2_name_kind {
    HN_PT2_TENSOR,
    HN_PT2_SYM_INT,
    HN_PT2_SYM_BOOL,
    HN_PT2_SYM_FLOAT,
    HN_PT2_CUSTOM
} hn_pt2_name_kind;

/* One name of a graph. Its meta is parsed when it is defined, so unused ones cost a skip. */
typedef struct hn_pt2_name {
    hn_str name;
    hn_pt2_name_kind kind;
    bool defined;
    bool lost;           /* comes from a node that could not be imported */
    const char *text;    /* of its TensorMeta or symbolic value */
    const char *problem; /* why it cannot be used, once defined */
    hn_value value;      /* 0 until defined; symbolic ones get a value only where one is needed */
    hn_expr expr;        /* of SYM_INT, once read */
} hn_pt2_name;

/* The names of one graph, and where its nodes go. */
typedef struct hn_pt2_scope {
    hn_pt2_importer *im;
    hn_graph *graph;
    hn_pt2_graph_text text;
    struct {
        hn_pt2_name *items;
        uint32_t count, cap;
    } names;
    hn_strmap index;
} hn_pt2_scope;

hn_status hn_pt2_scope_init(hn_pt2_scope *scope, hn_pt2_importer *im, hn_graph *graph,
                            const hn_pt2_graph_text *text) HN_MUST_USE;
/* The entry `name`; NULL when the graph has none. */
hn_pt2_name *hn_pt2_name_find(hn_pt2_scope *scope, hn_str name);
/* Makes the value of a tensor or symbolic name: a node's result or an input. Errors: when it is
 * defined already. */
hn_status hn_pt2_define(hn_pt2_scope *scope, hn_str name, hn_pt2_name_kind kind,
                        hn_pt2_name **out) HN_MUST_USE;
/* Lets `name` stand for a value that exists (inlined graphs). */
hn_status hn_pt2_bind(hn_pt2_scope *scope, hn_str name, hn_value value, hn_expr expr) HN_MUST_USE;
/* The entry of a defined name. Errors: undefined, or not usable. */
hn_status hn_pt2_use(hn_pt2_scope *scope, hn_str name, hn_pt2_name **out) HN_MUST_USE;
/* The value of a defined name; symbolic ones get one now. */
hn_status hn_pt2_use_value(hn_pt2_scope *scope, hn_str name, hn_value *out) HN_MUST_USE;
/* The integer that a symbolic float is equal to (a size as a float); 0 when it is no expression of
 * that kind. */
hn_status hn_pt2_sym_float_read(hn_pt2_scope *scope, const hn_pt2_name *name,
                                hn_expr *out) HN_MUST_USE;
/* The relations of a symbolic bool. */
hn_status hn_pt2_sym_bool_read(hn_pt2_scope *scope, const hn_pt2_name *name,
                               const hn_pt2_relation **out, uint32_t *out_count) HN_MUST_USE;
/* A rank-0 bool tensor that says whether all relations hold. */
hn_value hn_pt2_relations_build(hn_graph *graph, const hn_pt2_relation *relations, uint32_t count);

/* --- args.c --- */

/* U Argument as the parameter wants it; `param` NULL: as it comes. Lists live in the scratch
 * arena. */
hn_status hn_pt2_arg_read(hn_pt2_scope *scope, hn_json *json, const hn_param *param,
                          hn_arg *out) HN_MUST_USE;
/* The defaults of all parameters of `op`, NONE for those without. Owns: the importer. */
hn_status hn_pt2_defaults(hn_pt2_importer *im, hn_graph *graph, hn_op op,
                          const hn_arg **out) HN_MUST_USE;

/* --- nodes.c --- */

/* The results that a node defines, 0 for absent ones. */
typedef struct hn_pt2_results {
    hn_value *items;
    uint32_t count, cap;
} hn_pt2_results;

/* With `want_values` symbolic results get values, as results of a graph node must. */
hn_status hn_pt2_results_read(hn_pt2_scope *scope, const hn_pt2_node_text *node, bool want_values,
                              hn_pt2_results *out) HN_MUST_USE;
/* NamedArgument: {"name": "self", "arg": {...}, "kind": 1}; fields may stand in any order. */
hn_status hn_pt2_named_read(hn_json *json, hn_str *out_name, hn_pt2_place *out_arg) HN_MUST_USE;
/* Makes what follows come from `node`. */
hn_status hn_pt2_origin_set(hn_pt2_scope *scope, const hn_pt2_node_text *node) HN_MUST_USE;
hn_status hn_pt2_nodes_read(hn_pt2_scope *scope) HN_MUST_USE;
/* The error that lists all that henry cannot compile; NULL when there is none. */
hn_status hn_pt2_missing_status(const hn_pt2_importer *im) HN_MUST_USE;

/* --- source.c --- */

/* "model.py:12" from a node's stack trace, "" when there is no line of the user's. */
hn_status hn_pt2_source_find(hn_pt2_importer *im, hn_str trace, hn_str *out) HN_MUST_USE;

/* --- special.c, hop.c --- */

/* Readers of nodes that are no rows of the op table. */
typedef hn_status (*hn_pt2_node_reader)(hn_pt2_scope *scope, const hn_pt2_node_text *node);
/* The reader of `target`, NULL when there is none. */
hn_pt2_node_reader hn_pt2_special_find(hn_str target);
hn_status hn_pt2_set_grad_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) HN_MUST_USE;
hn_status hn_pt2_autocast_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) HN_MUST_USE;
hn_status hn_pt2_cond_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) HN_MUST_USE;
/* sym_float.c */
hn_status hn_pt2_sym_float_build(hn_pt2_scope *scope, const hn_pt2_node_text *node) HN_MUST_USE;
/* hop_loop.c: loops that are unrolled */
hn_status hn_pt2_while_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) HN_MUST_USE;
hn_status hn_pt2_while_stack_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) HN_MUST_USE;
hn_status hn_pt2_map_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) HN_MUST_USE;
hn_status hn_pt2_scan_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) HN_MUST_USE;
hn_status hn_pt2_associative_scan_read(hn_pt2_scope *scope,
                                       const hn_pt2_node_text *node) HN_MUST_USE;

/* --- payload.c, legacy.c --- */

hn_status hn_pt2_payloads_read(hn_pt2_importer *im) HN_MUST_USE;
hn_status hn_pt2_legacy_read(hn_pt2_importer *im, hn_zip_entry *archive,
                             hn_strmap *table) HN_MUST_USE;
/* Records a tensor in `table`; checks that its view lies inside the record. */
hn_status hn_pt2_payload_add(hn_pt2_importer *im, hn_strmap *table,
                             hn_pt2_payload payload) HN_MUST_USE;
/* The storage of the payload's record in `graph`, made when first asked for. */
hn_status hn_pt2_storage_of(hn_pt2_importer *im, hn_graph *graph, const hn_pt2_payload *payload,
                            uint32_t *out) HN_MUST_USE;

/* --- signature.c --- */

hn_status hn_pt2_inputs_read(hn_pt2_scope *scope) HN_MUST_USE;
hn_status hn_pt2_outputs_read(hn_pt2_scope *scope) HN_MUST_USE;

/* nodes.c: "aten.relu.default" of "torch.ops.aten.relu.default". */
hn_str hn_pt2_short_target(hn_str target);

#endif
