/* signature.c: inputs and outputs. The specs say, position by position, what each graph input and
 * output is; files number nothing else, so the order is the calling convention. */
#include "front/pt2/import.h"

#include "base/compiler.h"
#include "base/log.h"

/* The fields of an input or output spec, of whatever kind. */
typedef struct spec {
    hn_str kind;        /* "parameter", "user_output", ... */
    hn_pt2_place arg;   /* U Argument, or {"name": ...} */
    hn_pt2_place value; /* of constant_input */
    hn_str target;      /* parameter_name, buffer_name, ... */
    hn_str name;        /* of constant_input */
} spec;

/* {"buffer": {"arg": {...}, "buffer_name": "n.mean", "persistent": true}} */
static hn_status spec_read(hn_json *json, spec *out) {
    *out = (spec){.target = HN_STR(""), .name = HN_STR("")};
    HN_TRY(hn_pt2_union_begin(json, &out->kind));
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        bool is_target = key.len > 5 && memcmp(key.ptr + key.len - 5, "_name", 5) == 0;
        if (hn_str_eq(key, HN_STR("name"))) {
            HN_TRY(hn_json_string(json, &out->name));
        } else if (is_target) {
            HN_TRY(hn_json_string(json, &out->target));
        } else {
            if (hn_str_eq(key, HN_STR("arg"))) out->arg = *json;
            if (hn_str_eq(key, HN_STR("value"))) out->value = *json;
            HN_TRY(hn_json_skip(json));
        }
    }
    HN_TRY(hn_json_status(json));
    return hn_pt2_union_end(json);
}

static hn_status arg_missing(const spec *s) {
    return s->arg.at
               ? NULL
               : HN_ERROR(HN_CORRUPT, "'" HN_STR_FMT "' without an argument", HN_STR_ARG(s->kind));
}

/* --- inputs from the file's weights --- */

static const hn_pt2_payload *payload_find(const hn_pt2_importer *im, hn_input_kind kind,
                                          hn_str name) {
    const hn_strmap *first = kind == HN_INPUT_CONSTANT ? &im->constants : &im->weights;
    const hn_strmap *second = kind == HN_INPUT_CONSTANT ? &im->weights : &im->constants;
    const uint64_t *index = hn_strmap_get(first, name);
    /* non-persistent buffers are among the constants */
    if (!index) index = hn_strmap_get(second, name);
    return index ? &im->payloads.items[*index] : NULL;
}

/* The recorded shape and the stored one must agree; strides are those of the bytes. */
static hn_status payload_match(hn_graph *graph, hn_value value, const hn_pt2_payload *payload) {
    hn_value_info *info = &graph->values.items[value];
    bool same = info->dtype == payload->dtype && info->rank == payload->rank, contiguous = true;
    for (uint32_t k = 0; same && k < info->rank; k++)
        same = hn_sym_is_value(graph->sym, info->sizes[k], payload->sizes[k]);
    if (!same)
        return HN_ERROR(HN_CORRUPT,
                        "tensor '" HN_STR_FMT
                        "' is stored with another shape or dtype than the graph records",
                        HN_STR_ARG(payload->name));
    int64_t stride = 1;
    for (uint32_t k = info->rank; k-- > 0;) {
        if (payload->sizes[k] != 1 && payload->strides[k] != stride) contiguous = false;
        /* no overflow: the graph's meta was checked */
        stride *= payload->sizes[k] > 1 ? payload->sizes[k] : 1;
    }
    info->strides = NULL;
    if (contiguous) return NULL;
    hn_expr *strides = NULL;
    HN_TRY(hn_arena_array(graph->arena, info->rank, sizeof *strides, &strides));
    for (uint32_t k = 0; k < info->rank; k++)
        strides[k] = hn_sym_int(graph->sym, payload->strides[k]);
    info->strides = strides;
    return NULL;
}

static hn_status weight_input(hn_pt2_scope *scope, const spec *s, hn_input_kind kind) {
    hn_pt2_importer *im = scope->im;
    hn_json arg = s->arg;
    hn_str name;
    hn_pt2_name *entry = NULL;
    HN_TRY(arg_missing(s));
    HN_TRY(hn_pt2_name_read(&arg, &name));
    HN_TRY(hn_pt2_define(scope, name, HN_PT2_TENSOR, &entry));
    const hn_pt2_payload *payload = payload_find(im, kind, s->target);
    if (payload && payload->problem && !entry->problem) entry->problem = payload->problem;
    /* an error only where it is used: files carry tensors that nothing reads */
    if (entry->problem) {
        hn_log("pt2", HN_LOG_INFO, "left out '" HN_STR_FMT "': it %s", HN_STR_ARG(s->target),
               entry->problem);
        return NULL;
    }
    if (!payload)
        return HN_ERROR(HN_CORRUPT, "weights of '" HN_STR_FMT "' are not in the file",
                        HN_STR_ARG(s->target));
    HN_TRY(payload_match(scope->graph, entry->value, payload));
    hn_input input = {.kind = kind,
                      .value = entry->value,
                      .name = s->target,
                      .storage_offset_elems = payload->offset_elems};
    HN_TRY(hn_pt2_storage_of(im, scope->graph, payload, &input.storage));
    return hn_graph_add_input(scope->graph, input);
}

/* --- inputs of the caller --- */

static hn_status scalar_input(hn_pt2_scope *scope, hn_pt2_place place, hn_str name) {
    hn_input input = {.kind = HN_INPUT_SCALAR, .name = name};
    HN_TRY(hn_pt2_arg_read(scope, &place, NULL, &input.scalar));
    return hn_graph_add_input(scope->graph, input);
}

static hn_status named_input(hn_pt2_scope *scope, hn_str name, hn_pt2_name_kind kind) {
    hn_pt2_name *entry = NULL;
    hn_input input = {.kind = HN_INPUT_USER, .name = name};
    HN_TRY(hn_pt2_define(scope, name, kind, &entry));
    HN_TRY(hn_pt2_use_value(scope, name, &input.value));
    return hn_graph_add_input(scope->graph, input);
}

/* {"as_name": ...} of a symbolic argument; false for a constant. */
static hn_status symbolic_name(hn_json *json, hn_str *out, bool *out_found) {
    hn_str key;
    HN_TRY(hn_pt2_union_begin(json, &key));
    *out_found = hn_str_eq(key, HN_STR("as_name"));
    return *out_found ? hn_json_string(json, out) : hn_json_skip(json);
}

static const struct {
    const char *key;
    hn_pt2_name_kind kind;
} symbolic_kinds[] = {{"as_sym_int", HN_PT2_SYM_INT},
                      {"as_sym_bool", HN_PT2_SYM_BOOL},
                      {"as_sym_float", HN_PT2_SYM_FLOAT}};

static hn_status user_input(hn_pt2_scope *scope, const spec *s) {
    hn_str key, name;
    bool found = false;
    HN_TRY(arg_missing(s));
    hn_json arg = s->arg;
    HN_TRY(hn_pt2_union_begin(&arg, &key));
    if (hn_str_eq(key, HN_STR("as_tensor"))) {
        HN_TRY(hn_pt2_name_read(&arg, &name));
        return named_input(scope, name, HN_PT2_TENSOR);
    }
    for (size_t k = 0; k < HN_COUNT_OF(symbolic_kinds); k++) {
        if (!hn_str_eq(key, hn_str_of(symbolic_kinds[k].key))) continue;
        HN_TRY(symbolic_name(&arg, &name, &found));
        if (found) return named_input(scope, name, symbolic_kinds[k].kind);
    }
    return scalar_input(scope, s->arg, HN_STR(""));
}

static hn_status input_add(hn_pt2_scope *scope, const spec *s) {
    if (hn_str_eq(s->kind, HN_STR("user_input"))) return user_input(scope, s);
    if (hn_str_eq(s->kind, HN_STR("parameter"))) return weight_input(scope, s, HN_INPUT_PARAMETER);
    if (hn_str_eq(s->kind, HN_STR("buffer"))) return weight_input(scope, s, HN_INPUT_BUFFER);
    if (hn_str_eq(s->kind, HN_STR("tensor_constant")))
        return weight_input(scope, s, HN_INPUT_CONSTANT);
    if (hn_str_eq(s->kind, HN_STR("constant_input"))) {
        if (!s->value.at) return HN_ERROR(HN_CORRUPT, "constant input without a value");
        return scalar_input(scope, s->value, s->name);
    }
    return HN_ERROR(HN_UNSUPPORTED, "inputs of kind '" HN_STR_FMT "' are Python objects",
                    HN_STR_ARG(s->kind));
}

/* Walks the specs beside the graph's own list: both must have the same length. */
static hn_status specs_walk(hn_pt2_scope *scope, hn_json specs, hn_json list, const char *what,
                            hn_status (*add)(hn_pt2_scope *, const spec *)) {
    uint32_t k = 0;
    HN_TRY(hn_json_array(&specs));
    HN_TRY(hn_json_array(&list));
    while (hn_json_item(&specs)) {
        spec s;
        HN_TRY(spec_read(&specs, &s));
        if (!hn_json_item(&list))
            return HN_ERROR(HN_CORRUPT, "signature has more %ss than the graph", what);
        HN_TRY(hn_json_skip(&list));
        HN_TRY(hn_status_annotate(add(scope, &s), "%s %u", what, k++));
    }
    HN_TRY(hn_json_status(&specs));
    return hn_json_item(&list) ? HN_ERROR(HN_CORRUPT, "graph has more %ss than the signature", what)
                               : hn_json_status(&list);
}

hn_status hn_pt2_inputs_read(hn_pt2_scope *scope) {
    return specs_walk(scope, scope->im->program.input_specs, scope->text.inputs, "input",
                      input_add);
}

/* --- outputs --- */

static hn_status scalar_output(hn_pt2_scope *scope, hn_pt2_place place) {
    hn_output output = {.kind = HN_OUTPUT_SCALAR, .name = HN_STR("")};
    HN_TRY(hn_pt2_arg_read(scope, &place, NULL, &output.scalar));
    if (output.scalar.kind == HN_ARG_VALUES)
        return HN_ERROR(HN_UNSUPPORTED, "output that is a list");
    return hn_graph_add_output(scope->graph, output);
}

static hn_status tensor_output(hn_pt2_scope *scope, hn_str name) {
    hn_output output = {.kind = HN_OUTPUT_USER, .name = name};
    HN_TRY(hn_pt2_use_value(scope, name, &output.value));
    return hn_graph_add_output(scope->graph, output);
}

/* A Python float or bool: what an operator made, or, for a condition on sizes, a tensor that is
 * computed from it. */
static hn_status symbolic_output(hn_pt2_scope *scope, hn_str name) {
    hn_output output = {.kind = HN_OUTPUT_USER, .name = name};
    const hn_pt2_relation *relations = NULL;
    uint32_t count = 0;
    hn_pt2_name *entry = NULL;
    HN_TRY(hn_pt2_use(scope, name, &entry));
    if (entry->value || entry->kind != HN_PT2_SYM_BOOL) return tensor_output(scope, name);
    HN_TRY(hn_pt2_sym_bool_read(scope, entry, &relations, &count));
    output.value = hn_pt2_relations_build(scope->graph, relations, count);
    HN_TRY(hn_graph_status(scope->graph));
    return hn_graph_add_output(scope->graph, output);
}

static hn_status user_output(hn_pt2_scope *scope, const spec *s) {
    hn_str key, name;
    hn_json arg = s->arg;
    HN_TRY(hn_pt2_union_begin(&arg, &key));
    if (hn_str_eq(key, HN_STR("as_sym_float")) || hn_str_eq(key, HN_STR("as_sym_bool"))) {
        bool found = false;
        HN_TRY(symbolic_name(&arg, &name, &found));
        if (found) return symbolic_output(scope, name);
    }
    if (!hn_str_eq(key, HN_STR("as_tensor"))) return scalar_output(scope, s->arg);
    HN_TRY(hn_pt2_name_read(&arg, &name));
    return tensor_output(scope, name);
}

static hn_status named_output(hn_pt2_scope *scope, const spec *s) {
    hn_str name;
    hn_json arg = s->arg;
    HN_TRY(hn_pt2_name_read(&arg, &name));
    return tensor_output(scope, name);
}

static hn_status mutation_output(hn_pt2_scope *scope, const spec *s, hn_input_kind kind) {
    hn_graph *graph = scope->graph;
    hn_str name;
    hn_json arg = s->arg;
    hn_output output = {.kind = HN_OUTPUT_MUTATION};
    HN_TRY(hn_pt2_name_read(&arg, &name));
    output.name = name;
    HN_TRY(hn_pt2_use_value(scope, name, &output.value));
    while (output.target < graph->inputs.count) {
        const hn_input *input = &graph->inputs.items[output.target];
        if (input->kind == kind && hn_str_eq(input->name, s->target))
            return hn_graph_add_output(graph, output);
        output.target++;
    }
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "'" HN_STR_FMT "', which the program writes, is none of its inputs",
                    HN_STR_ARG(s->target));
}

static hn_status output_add(hn_pt2_scope *scope, const spec *s) {
    HN_TRY(arg_missing(s));
    if (hn_str_eq(s->kind, HN_STR("user_output"))) return user_output(scope, s);
    if (hn_str_eq(s->kind, HN_STR("buffer_mutation")))
        return mutation_output(scope, s, HN_INPUT_BUFFER);
    if (hn_str_eq(s->kind, HN_STR("parameter_mutation")))
        return mutation_output(scope, s, HN_INPUT_PARAMETER);
    if (hn_str_eq(s->kind, HN_STR("user_input_mutation")))
        return mutation_output(scope, s, HN_INPUT_USER);
    if (hn_str_eq(s->kind, HN_STR("loss_output")) ||
        hn_str_eq(s->kind, HN_STR("gradient_to_parameter")) ||
        hn_str_eq(s->kind, HN_STR("gradient_to_user_input")))
        return named_output(scope, s);
    return HN_ERROR(HN_UNSUPPORTED, "outputs of kind '" HN_STR_FMT "'", HN_STR_ARG(s->kind));
}

hn_status hn_pt2_outputs_read(hn_pt2_scope *scope) {
    return specs_walk(scope, scope->im->program.output_specs, scope->text.outputs, "output",
                      output_add);
}
