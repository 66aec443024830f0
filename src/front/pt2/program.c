/* program.c: one pass over the JSON of a program that notes where its parts are. The parts must be
 * read in another order than they are written: nodes need the tensor metas that follow them. */
#include "front/pt2/import.h"

#include "base/compiler.h"
#include "base/log.h"

enum { KNOWN_MINOR = 20 }; /* PyTorch 2.12 */

/* A field that is noted, and where. */
typedef struct field {
    const char *key;
    hn_pt2_place *place;
} field;

static hn_status fields_note(hn_json *json, const field *fields, size_t count) {
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        for (size_t k = 0; k < count; k++)
            if (hn_str_eq(key, hn_str_of(fields[k].key))) *fields[k].place = *json;
        HN_TRY(hn_json_skip(json));
    }
    return hn_json_status(json);
}

/* --- nodes --- */

static hn_status metadata_note(hn_json *json, hn_pt2_node_text *out) {
    if (hn_json_peek(json) != HN_JSON_OBJECT) return hn_json_skip(json);
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("stack_trace")) && hn_json_peek(json) == HN_JSON_STRING)
            HN_TRY(hn_json_raw_string(json, &out->trace));
        else HN_TRY(hn_json_skip(json));
    }
    return hn_json_status(json);
}

static hn_status node_field_note(hn_json *json, hn_str key, hn_pt2_node_text *out) {
    if (hn_str_eq(key, HN_STR("target"))) return hn_json_string(json, &out->target);
    if (hn_str_eq(key, HN_STR("metadata"))) return metadata_note(json, out);
    if (hn_str_eq(key, HN_STR("name")) && hn_json_peek(json) == HN_JSON_STRING)
        return hn_json_string(json, &out->name);
    if (hn_str_eq(key, HN_STR("inputs"))) out->inputs = json->at;
    if (hn_str_eq(key, HN_STR("outputs"))) out->outputs = json->at;
    return hn_json_skip(json);
}

static hn_status nodes_note(hn_json *json, hn_pt2_graph_text *out) {
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        hn_pt2_node_text node = {.name = HN_STR(""), .trace = HN_STR("")};
        HN_TRY(hn_json_object(json));
        out->node = *json;
        out->node.fresh = false;
        for (hn_str key; hn_json_key(json, &key);) HN_TRY(node_field_note(json, key, &node));
        HN_TRY(hn_json_status(json));
        if (!node.target.len || !node.inputs || !node.outputs)
            return hn_json_error(json, "a node lacks its target, inputs or outputs");
        HN_PUSH(json->arena, &out->nodes, node);
    }
    return hn_json_status(json);
}

/* --- graphs --- */

hn_status hn_pt2_graph_text_read(hn_json *json, hn_pt2_graph_text *out) {
    const field fields[] = {{"inputs", &out->inputs},
                            {"outputs", &out->outputs},
                            {"tensor_values", &out->tensor_values},
                            {"sym_int_values", &out->sym_int_values},
                            {"sym_bool_values", &out->sym_bool_values},
                            {"sym_float_values", &out->sym_float_values},
                            {"custom_obj_values", &out->custom_obj_values}};
    bool has_nodes = false;
    *out = (hn_pt2_graph_text){0};
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (!has_nodes && hn_str_eq(key, HN_STR("nodes"))) {
            HN_TRY(nodes_note(json, out));
            has_nodes = true;
            continue;
        }
        for (size_t k = 0; k < HN_COUNT_OF(fields); k++)
            if (hn_str_eq(key, hn_str_of(fields[k].key))) *fields[k].place = *json;
        HN_TRY(hn_json_skip(json));
    }
    HN_TRY(hn_json_status(json));
    if (has_nodes && out->inputs.at && out->outputs.at && out->tensor_values.at) return NULL;
    return HN_ERROR(HN_CORRUPT, "a graph lacks inputs, outputs, nodes or tensor_values");
}

/* --- programs --- */

static hn_status graph_module_read(hn_json *json, hn_pt2_program *out) {
    bool found = false;
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (!found && hn_str_eq(key, HN_STR("graph"))) {
            HN_TRY(hn_pt2_graph_text_read(json, &out->graph));
            found = true;
        } else if (hn_str_eq(key, HN_STR("signature"))) {
            const field fields[] = {{"input_specs", &out->input_specs},
                                    {"output_specs", &out->output_specs}};
            HN_TRY(fields_note(json, fields, HN_COUNT_OF(fields)));
        } else {
            HN_TRY(hn_json_skip(json));
        }
    }
    HN_TRY(hn_json_status(json));
    if (found && out->input_specs.at && out->output_specs.at) return NULL;
    return HN_ERROR(HN_CORRUPT, "the program lacks its graph or its signature");
}

static hn_status version_read(hn_json *json, hn_pt2_program *out) {
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("major"))) HN_TRY(hn_json_int(json, &out->major));
        else if (hn_str_eq(key, HN_STR("minor"))) HN_TRY(hn_json_int(json, &out->minor));
        else HN_TRY(hn_json_skip(json));
    }
    return hn_json_status(json);
}

hn_status hn_pt2_program_read(hn_json *json, hn_pt2_program *out) {
    *out = (hn_pt2_program){.major = -1};
    bool found = false;
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (!found && hn_str_eq(key, HN_STR("graph_module"))) {
            HN_TRY(graph_module_read(json, out));
            found = true;
        } else if (hn_str_eq(key, HN_STR("schema_version"))) {
            HN_TRY(version_read(json, out));
        } else {
            if (hn_str_eq(key, HN_STR("range_constraints"))) out->range_constraints = *json;
            if (hn_str_eq(key, HN_STR("guards_code"))) out->guards_code = *json;
            HN_TRY(hn_json_skip(json));
        }
    }
    HN_TRY(hn_json_finish(json));
    if (!found) return HN_ERROR(HN_CORRUPT, "the program has no graph_module");
    if (out->major != 8)
        return HN_ERROR(
            HN_INCOMPATIBLE,
            "schema version is %lld.%lld; henry reads 8.*; export the model again with a current PyTorch",
            (long long)out->major, (long long)out->minor);
    /* compatible by the format's own rule: what is new fails only where it is used */
    if (out->minor > KNOWN_MINOR)
        hn_log("pt2", HN_LOG_INFO, "schema version 8.%lld is newer than the known 8.%d",
               (long long)out->minor, KNOWN_MINOR);
    return NULL;
}

/* --- readers of small shapes --- */

hn_status hn_pt2_name_read(hn_json *json, hn_str *out) {
    bool found = false;
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("name"))) {
            HN_TRY(hn_json_string(json, out));
            found = true;
        } else {
            HN_TRY(hn_json_skip(json));
        }
    }
    HN_TRY(hn_json_status(json));
    return found ? NULL : hn_json_error(json, "expected a \"name\"");
}

hn_status hn_pt2_union_begin(hn_json *json, hn_str *out_key) {
    HN_TRY(hn_json_object(json));
    if (hn_json_key(json, out_key)) return NULL;
    HN_TRY(hn_json_status(json));
    return hn_json_error(json, "expected an object with one key");
}

hn_status hn_pt2_union_end(hn_json *json) {
    hn_str extra;
    bool more = hn_json_key(json, &extra);
    HN_TRY(hn_json_status(json));
    return more ? hn_json_error(json, "expected an object with one key only") : NULL;
}
