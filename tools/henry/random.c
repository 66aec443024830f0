/* random.c: inputs for models of which none are given. */
#include "tool.h"

#include "base/file.h"
#include "bundle/view.h"
#include "ir/interp.h"

#include <stdlib.h>

enum { DEFAULT_SIZE = 32 };

static uint64_t next_random(uint64_t *state) { /* splitmix64: any seed is a good one */
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Integers are 0 or 1: valid as an index into anything that has two elements. */
static hn_status random_tensor(hn_arena *arena, hn_scalar_type type, uint32_t rank,
                               const int64_t *sizes, uint64_t *state, hn_tensor **out) {
    hn_ref_tensor t;
    void *bytes;
    HN_TRY(hn_ref_tensor_init(arena, (hn_dtype)type, rank, sizes, &t));
    for (int64_t k = 0; k < t.numel; k++) {
        uint64_t bits = next_random(state);
        if (hn_dtype_is_float(t.dtype))
            t.data.f[k] = (double)(int64_t)(bits >> 11) / (double)(INT64_C(1) << 52) - 1;
        else t.data.i[k] = (int64_t)(bits >> 63);
    }
    HN_TRY(hn_arena_array(arena, (size_t)t.numel + 1, hn_scalar_type_bytes(type), &bytes));
    hn_ref_tensor_store(&t, bytes);
    HN_TRY(hn_tensor_create(&(hn_tensor_desc){.type = type, .rank = rank, .sizes = sizes}, out));
    hn_tensor_copy_in(*out, bytes);
    return NULL;
}

bool tool_random_init(const char *command, const tool_options *options, tool_random *b) {
    *b = (tool_random){.options = options};
    for (uint32_t k = 0; k < b->options->sizes.count; k++) {
        const char *word = b->options->sizes.items[k], *equals = strchr(word, '=');
        char *end = NULL;
        if (equals) b->size_values[k] = strtoll(equals + 1, &end, 10);
        if (!equals || !equals[1] || *end)
            return tool_usage(command, "--size needs NAME=N with a whole number N, not '%s'", word),
                   false;
        b->size_name_lens[k] = (size_t)(equals - word);
    }
    return true;
}

hn_status tool_random_check(const tool_random *b) {
    for (uint32_t k = 0; k < b->options->sizes.count; k++)
        if (!b->size_used[k] && !b->options->inputs.count)
            return HN_ERROR(
                HN_NOT_FOUND,
                "no size symbol has the name of '--size %s'; 'henry inspect' shows them",
                b->options->sizes.items[k]);
    return NULL;
}

static hn_status symbol_value(tool_random *b, const hn_bundle *bundle, const hnb_symbol *symbol,
                              int64_t *out) {
    hn_str name = hn_bundle_str(bundle, symbol->name);
    const int64_t usual =
        b->prefers_hints && symbol->hint != INT64_MIN ? symbol->hint : DEFAULT_SIZE;
    *out = usual < symbol->lo ? symbol->lo : usual > symbol->hi ? symbol->hi : usual;
    for (uint32_t k = 0; k < b->options->sizes.count; k++) {
        if (!hn_str_eq(name, (hn_str){b->options->sizes.items[k], b->size_name_lens[k]})) continue;
        b->size_used[k] = true;
        *out = b->size_values[k];
    }
    if (*out >= symbol->lo && *out <= symbol->hi) return NULL;
    hn_strbuf range;
    hn_strbuf_init(&range);
    hn_bundle_range_print(symbol->lo, symbol->hi, &range);
    hn_status status =
        HN_ERROR(HN_INVALID_ARGUMENT, "'" HN_STR_FMT "' cannot be %lld: its range is %s",
                 HN_STR_ARG(name), (long long)*out, hn_strbuf_str(&range).ptr);
    hn_strbuf_deinit(&range);
    return status;
}

/* No array has this many elements: says which size it is, and of what it is made. */
static hn_status no_shape(const hn_bundle *b, const hnb_input *in, uint32_t dim, bool is_known,
                          int64_t value) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_bundle_expr_print(b, b->dims[in->dims + dim], &text);
    if (is_known) hn_strbuf_printf(&text, " = %lld", (long long)value);
    hn_status status = HN_ERROR(
        HN_INVALID_ARGUMENT,
        "these sizes do not fit input '%s': its dimension %u would be %s; give others with --size",
        hn_bundle_text(b, in->name), dim, hn_strbuf_str(&text).ptr);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status random_inputs_of(tool_random *all, const hn_bundle *b, hn_arena *arena,
                                  uint32_t count, hn_tensor **out) {
    int64_t *symbols, *values;
    uint8_t *bad;
    uint64_t state = 1;
    HN_NEW(arena, symbols, b->symbols_count + 1);
    HN_NEW(arena, values, b->nodes_count + 1);
    HN_NEW(arena, bad, b->nodes_count + 1);
    for (uint32_t k = 0; k < b->symbols_count; k++)
        HN_TRY(symbol_value(all, b, &b->symbols[k], &symbols[k]));
    hn_bundle_eval(b, symbols, b->symbols_count, values, bad);
    for (uint32_t k = 0; k < b->inputs_count && k < count; k++) {
        const hnb_input *in = &b->inputs[k];
        int64_t sizes[HNB_MAX_RANK];
        if (in->kind != HNB_VALUE_TENSOR) continue;
        for (uint32_t d = 0; d < in->rank; d++) {
            uint32_t node = b->dims[in->dims + d];
            if (bad[node] || values[node] < 0) return no_shape(b, in, d, !bad[node], values[node]);
            sizes[d] = values[node];
        }
        HN_TRY(random_tensor(arena, (hn_scalar_type)in->dtype, in->rank, sizes, &state, &out[k]));
    }
    return NULL;
}

hn_status tool_random_inputs(tool_random *all, const tool_model *model, uint32_t count,
                             hn_tensor **out) {
    hn_file_map map = {0};
    size_t len = 0;
    const void *image = NULL;
    if (model->compiled) {
        image = hn_compiled_image(model->compiled, &len);
    } else {
        HN_TRY(hn_file_map_init(&map, model->path));
        image = map.data;
        len = map.size_bytes;
    }
    hn_bundle bundle;
    hn_arena arena;
    hn_arena_init(&arena);
    hn_status status = hn_bundle_open(image, len, false, &bundle);
    if (!status) status = random_inputs_of(all, &bundle, &arena, count, out);
    hn_arena_deinit(&arena);
    if (!model->compiled) hn_file_map_deinit(&map);
    return status;
}
