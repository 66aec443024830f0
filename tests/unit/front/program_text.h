/* program_text.h: small .pt2 programs for tests, written piece by piece in the exporter's JSON. */
#ifndef HN_TESTS_PROGRAM_TEXT_H
#define HN_TESTS_PROGRAM_TEXT_H

#include "unit/front/zip_writer.h"

#include <stdio.h>

#define TENSOR(name)   "{\"as_tensor\": {\"name\": \"" name "\"}}"
#define TENSORS(names) "{\"as_tensors\": [" names "]}"
#define NAME(name)     "{\"name\": \"" name "\"}"
#define INT(value)     "{\"as_int\": " value "}"
#define INTS(values)   "{\"as_ints\": [" values "]}"
#define EXPR(text, hint)                                                                           \
    "{\"as_expr\": {\"expr_str\": \"" text "\", \"hint\": {\"as_int\": " hint "}}}"
#define META(name, dtype, sizes, strides)                                                          \
    "\"" name "\": {\"dtype\": " dtype ", \"sizes\": [" sizes                                      \
    "], \"requires_grad\": false, \"device\": {\"type\": "                                         \
    "\"cpu\", \"index\": null}, \"strides\": [" strides                                            \
    "], \"storage_offset\": {\"as_int\": 0}, \"layout\": 7}"
#define ARG(name, value) "{\"name\": \"" name "\", \"arg\": " value ", \"kind\": 1}"
#define NODE(target, name, inputs, outputs)                                                        \
    "{\"target\": \"" target "\", \"inputs\": [" inputs "], \"outputs\": [" outputs                \
    "], \"metadata\": {}, \"is_hop_single_tensor_return\": null, \"name\": \"" name "\"}"
#define USER_INPUT(value)  "{\"user_input\": {\"arg\": " value "}}"
#define USER_OUTPUT(value) "{\"user_output\": {\"arg\": " value "}}"
#define PARAMETER(arg, name)                                                                       \
    "{\"parameter\": {\"arg\": {\"name\": \"" arg "\"}, \"parameter_name\": \"" name "\"}}"
#define BUFFER(arg, name)                                                                          \
    "{\"buffer\": {\"arg\": {\"name\": \"" arg "\"}, \"buffer_name\": \"" name                     \
    "\", \"persistent\": true}}"
#define PAYLOAD(name, record, meta_fields)                                                         \
    "\"" name "\": {\"path_name\": \"" record                                                      \
    "\", \"is_param\": true, \"use_pickle\": false, \"tensor_meta\": {" meta_fields "}}"
#define PAYLOAD_META(dtype, sizes, strides, offset)                                                \
    "\"dtype\": " dtype ", \"sizes\": [" sizes "], \"strides\": [" strides                         \
    "], \"storage_offset\": {\"as_int\": " offset "}, \"layout\": 7"
#define GRAPH(inputs, outputs, nodes, metas)                                                       \
    "{\"inputs\": [" inputs "], \"outputs\": [" outputs "], \"nodes\": [" nodes                    \
    "], \"tensor_values\": {" metas "}}"

/* f32[2, 3] in rows */
#define F23(name) META(name, "7", INT("2") ", " INT("3"), INT("3") ", " INT("1"))

/* The parts of a program; NULL is nothing. */
typedef struct program_parts {
    const char *inputs, *outputs, *nodes, *metas, *sym_ints, *sym_bools, *sym_floats, *input_specs,
        *output_specs, *ranges, *guards, *version;
} program_parts;

static inline const char *program_or(const char *text, const char *other) {
    return text ? text : other;
}

/* Heap text. */
static inline char *program_text(const program_parts *p) {
    char *text = NULL;
    int len = asprintf(
        &text,
        "{\"graph_module\": {\"graph\": {\"inputs\": [%s], \"outputs\": [%s], \"nodes\": [%s], "
        "\"tensor_values\": {%s}, "
        "\"sym_int_values\": {%s}, \"sym_bool_values\": {%s}, \"is_single_tensor_return\": false, "
        "\"custom_obj_values\": {}, \"sym_float_values\": {%s}}, \"signature\": {\"input_specs\": "
        "[%s], \"output_specs\": "
        "[%s]}, \"module_call_graph\": [], \"metadata\": {}}, \"opset_version\": {\"aten\": 10}, "
        "\"range_constraints\": {%s}, \"schema_version\": %s, \"verifiers\": [\"TRAINING\"], "
        "\"torch_version\": "
        "\"2.11.0\", \"guards_code\": [%s]}",
        program_or(p->inputs, ""), program_or(p->outputs, ""), program_or(p->nodes, ""),
        program_or(p->metas, ""), program_or(p->sym_ints, ""), program_or(p->sym_bools, ""),
        program_or(p->sym_floats, ""), program_or(p->input_specs, ""),
        program_or(p->output_specs, ""), program_or(p->ranges, ""),
        program_or(p->version, "{\"major\": 8, \"minor\": 17}"), program_or(p->guards, ""));
    if (len < 0) abort();
    return text;
}

/* The records that every archive has. The weights' table may be NULL. */
static inline void program_archive(zip_writer *w, const char *json, const char *weights) {
    zip_writer_add(w, "m/models/model.json", json, strlen(json), false);
    zip_writer_add(w, "m/archive_format", "pt2", 3, false);
    zip_writer_add(w, "m/archive_version", "0", 1, false);
    zip_writer_add(w, "m/byteorder", "little", 6, false);
    if (!weights) return;
    char *table = NULL;
    if (asprintf(&table, "{\"config\": {%s}}", weights) < 0) abort();
    zip_writer_add(w, "m/data/weights/model_weights_config.json", table, strlen(table), false);
    free(table);
}

#endif
