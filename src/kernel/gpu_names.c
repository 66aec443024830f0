/* gpu_names.c: see gpu_names.h. */
#include "kernel/gpu_names.h"

#include "base/compiler.h"

/* ---- kinds ---- */

enum { ELEMENTS, ROWS, ROWS_KEPT, ROWS_OVER_BLOCKS, TILES, SCATTER, SLABS_OF_ROWS };

static const struct {
    const char *words, *name;
} shapes[HN_GPU_SHAPES] = {
    [ELEMENTS] = {"elements", "elements"},
    [ROWS] = {"rows", "rows"},
    [ROWS_KEPT] = {"rows, kept", "rows-kept"},
    [ROWS_OVER_BLOCKS] = {"rows over blocks", "rows-over-blocks"},
    [TILES] = {"tiles", "tiles"},
    [SCATTER] = {"scatter", "scatter"},
    [SLABS_OF_ROWS] = {"slabs of rows", "slabs-of-rows"},
};

static uint32_t shape_of(const hn_gpu_planner *pl, const hn_gpu_layout *l) {
    if (pl->k->serial) return SCATTER;
    if (pl->k->slabs) return SLABS_OF_ROWS;
    if (l->tile) return TILES;
    if (hn_gpu_is_elementwise(pl)) return ELEMENTS;
    if (l->blocks > 1) return ROWS_OVER_BLOCKS;
    return l->keeps ? ROWS_KEPT : ROWS;
}

const char *hn_gpu_shape(const hn_gpu_planner *pl, const hn_gpu_layout *l) {
    return shapes[shape_of(pl, l)].words;
}

const char *hn_gpu_shape_name(uint32_t shape) { return shapes[shape].name; }

uint32_t hn_gpu_shape_named(hn_str name) {
    uint32_t k = 0;
    while (k < HN_GPU_SHAPES && !hn_str_eq(name, hn_str_of(shapes[k].name))) k++;
    return k;
}

/* ---- numbers and words ---- */

enum { THREADS, ROWS_OF_GROUP, VECTOR, UNROLL, BLOCKS, SLABS, STAGES, TILE, PARTS, RESIDENT };
enum { VALUE_MOST = 1 << 20 };

static const char *const names[HN_GPU_NUMBERS] = {
    [THREADS] = "threads", [ROWS_OF_GROUP] = "rows", [VECTOR] = "vector", [UNROLL] = "unroll",
    [BLOCKS] = "blocks",   [SLABS] = "slabs",        [STAGES] = "stages", [TILE] = "tile",
    [PARTS] = "parts",     [RESIDENT] = "resident",
};

static void numbers_of(const hn_gpu_layout *l, uint32_t out[HN_GPU_NUMBERS]) {
    out[THREADS] = l->width * (l->rows ? l->rows : 1);
    out[ROWS_OF_GROUP] = l->rows;
    out[VECTOR] = l->vector;
    out[UNROLL] = l->unroll;
    out[BLOCKS] = l->blocks;
    out[SLABS] = l->slabs;
    out[STAGES] = l->stages;
    out[TILE] = l->tile;
    out[PARTS] = l->parts;
    out[RESIDENT] = l->resident;
}

/* What a layout has or has not. That rows are kept is told by the kind, but of slabs. */
static const struct {
    const char *name;
    size_t offset;
} words[] = {{"ahead", offsetof(hn_gpu_layout, ahead)},
             {"peels", offsetof(hn_gpu_layout, peels)},
             {"online", offsetof(hn_gpu_layout, online)},
             {"keeps", offsetof(hn_gpu_layout, keeps)}};

static bool has_word(const hn_gpu_layout *l, size_t k) {
    return *(const bool *)((const char *)l + words[k].offset);
}

static bool is_told_by_kind(uint32_t shape, size_t k) {
    return words[k].offset == offsetof(hn_gpu_layout, keeps) && shape != SLABS_OF_ROWS;
}

const char *hn_gpu_parameters(const hn_gpu_planner *pl, const hn_gpu_layout *l, hn_arena *arena) {
    uint32_t numbers[HN_GPU_NUMBERS];
    hn_strbuf text;
    hn_strbuf_init(&text);
    numbers_of(l, numbers);
    for (uint32_t k = 0; k < HN_GPU_NUMBERS; k++)
        hn_strbuf_printf(&text, "%s%s=%u", k ? " " : "", names[k], numbers[k]);
    if (l->guard) hn_strbuf_printf(&text, " guard=%u", l->guard);
    for (size_t k = 0; k < HN_COUNT_OF(words); k++)
        if (has_word(l, k) && !is_told_by_kind(shape_of(pl, l), k))
            hn_strbuf_printf(&text, " %s", words[k].name);
    const char *copy = text.failed ? NULL : hn_arena_strndup(arena, text.ptr, text.len);
    hn_strbuf_deinit(&text);
    return copy;
}

/* ---- reading ---- */

static bool read_number(hn_str text, uint32_t *out) {
    *out = 0;
    if (!text.len || text.len > 7) return false;
    for (size_t k = 0; k < text.len; k++) {
        if (text.ptr[k] < '0' || text.ptr[k] > '9') return false;
        *out = *out * 10 + (uint32_t)(text.ptr[k] - '0');
    }
    return *out <= VALUE_MOST;
}

static bool read_word(hn_str word, hn_gpu_wish *out) {
    for (size_t k = 0; k < HN_COUNT_OF(words); k++) {
        bool *is_set = (bool *)((char *)&out->layout + words[k].offset);
        if (!hn_str_eq(word, hn_str_of(words[k].name))) continue;
        if (is_told_by_kind(out->shape, k) || *is_set) return false;
        return *is_set = true;
    }
    return false;
}

static bool read_parameter(hn_str word, hn_gpu_wish *out) {
    const char *equals = memchr(word.ptr, '=', word.len);
    if (!equals) return read_word(word, out);
    const hn_str name = {word.ptr, (size_t)(equals - word.ptr)},
                 value = {equals + 1, word.len - name.len - 1};
    if (hn_str_eq(name, HN_STR("guard")))
        return !out->layout.guard && read_number(value, &out->layout.guard) && out->layout.guard;
    for (uint32_t k = 0; k < HN_GPU_NUMBERS; k++) {
        if (!hn_str_eq(name, hn_str_of(names[k]))) continue;
        if (out->has >> k & 1) return false;
        out->has |= 1u << k;
        return read_number(value, &out->numbers[k]);
    }
    return false;
}

/* False: so many threads are no rows. */
static bool set_layout(hn_gpu_wish *w) {
    const uint32_t *n = w->numbers, rows = n[ROWS_OF_GROUP] ? n[ROWS_OF_GROUP] : 1;
    hn_gpu_layout *l = &w->layout;
    l->rows = n[ROWS_OF_GROUP];
    l->width = n[THREADS] / rows;
    l->vector = n[VECTOR];
    l->unroll = n[UNROLL];
    l->blocks = n[BLOCKS];
    l->slabs = n[SLABS];
    l->stages = n[STAGES];
    l->tile = n[TILE];
    l->parts = n[PARTS];
    l->resident = n[RESIDENT];
    if (w->shape == ROWS_KEPT || w->shape == ROWS_OVER_BLOCKS) l->keeps = true;
    return l->width * rows == n[THREADS];
}

hn_status hn_gpu_wish_parse(uint32_t shape, hn_str parameters, hn_gpu_wish *out) {
    *out = (hn_gpu_wish){.shape = shape};
    for (hn_str rest = parameters; rest.len;) {
        const char *blank = memchr(rest.ptr, ' ', rest.len);
        const hn_str word = {rest.ptr, blank ? (size_t)(blank - rest.ptr) : rest.len};
        if (!read_parameter(word, out))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "a form '%s' of a GPU has no parameter '" HN_STR_FMT "'",
                            shapes[shape].name, HN_STR_ARG(word));
        rest.ptr += word.len + (blank != NULL);
        rest.len -= word.len + (blank != NULL);
    }
    out->is_whole = out->has == (1u << HN_GPU_NUMBERS) - 1;
    if (!out->is_whole || set_layout(out)) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "%u threads are not %u rows of equal width",
                    out->numbers[THREADS], out->numbers[ROWS_OF_GROUP]);
}

void hn_gpu_wish_of(uint32_t shape, const hn_gpu_layout *l, hn_gpu_wish *out) {
    *out = (hn_gpu_wish){
        .shape = shape, .is_whole = true, .has = (1u << HN_GPU_NUMBERS) - 1, .layout = *l};
    numbers_of(l, out->numbers);
}

bool hn_gpu_is_wished(const hn_gpu_planner *pl, const hn_gpu_layout *l) {
    const hn_gpu_wish *w = pl->wish;
    uint32_t numbers[HN_GPU_NUMBERS];
    if (!w) return true;
    const bool is_guarded = w->is_whole || w->layout.guard;
    if (shape_of(pl, l) != w->shape || (is_guarded && w->layout.guard != l->guard)) return false;
    numbers_of(l, numbers);
    for (uint32_t k = 0; k < HN_GPU_NUMBERS; k++)
        if (w->has >> k & 1 && numbers[k] != w->numbers[k]) return false;
    for (size_t k = 0; k < HN_COUNT_OF(words); k++)
        if (has_word(&w->layout, k) ? !has_word(l, k) : w->is_whole && has_word(l, k)) return false;
    return true;
}
