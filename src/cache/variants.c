/* variants.c: tables of variants: writing, merging, looking up. See variants.h; what one expression says is guards.c.
 *
 * Layout: header, features (places of expressions), variants sorted by their interval on the primary feature, conditions,
 * expressions. Conditions lie in the order of the canonical form, so that this form is made again from them. */
#include "cache/variants_internal.h"

#include "base/map.h"

#include <stdlib.h>

#define TABLE_MAGIC "HNVARS1\n"

typedef struct table_header {
    char magic[8];
    uint32_t feature_count, variant_count, cond_count;
    uint32_t primary; /* feature; UINT32_MAX: no variant has a condition */
    uint32_t input_count, tensor_count, expr_bytes, next_age;
} table_header;

typedef struct table_place {
    uint32_t offset, len; /* of an expression */
} table_place;

typedef struct table_variant {
    hn_digest key;
    int64_t lo, hi, most; /* on the primary feature; the largest `hi` in the half that this variant stands for */
    uint32_t cond_first, cond_count, age, is_default;
} table_variant;

typedef struct table_cond {
    int64_t lo, hi;
    uint32_t feature, outside;
} table_cond;

/* A table in place. The bytes may stand anywhere: structs are copied out. */
typedef struct view {
    table_header head;
    const char *places, *variants, *conds, *exprs;
} view;

static void copy_at(const char *array, size_t elem_bytes, uint32_t index, void *out) { memcpy(out, array + index * elem_bytes, elem_bytes); }

/* Counts are below 2^32 and elements small: nothing overflows in 64 bits. */
static bool view_open(hn_str table, view *v) {
    if (table.len < sizeof v->head) return false;
    memcpy(&v->head, table.ptr, sizeof v->head);
    const table_header *h = &v->head;
    uint64_t places = sizeof *h, variants = places + (uint64_t)h->feature_count * sizeof(table_place),
             conds = variants + (uint64_t)h->variant_count * sizeof(table_variant),
             exprs = conds + (uint64_t)h->cond_count * sizeof(table_cond);
    if (memcmp(h->magic, TABLE_MAGIC, sizeof h->magic) != 0 || h->variant_count > HN_VARIANTS_MAX) return false;
    if (exprs + h->expr_bytes != table.len || (h->primary != UINT32_MAX && h->primary >= h->feature_count)) return false;
    v->places = table.ptr + places;
    v->variants = table.ptr + variants;
    v->conds = table.ptr + conds;
    v->exprs = table.ptr + exprs;
    return true;
}

bool hn_variants_is_table(hn_str bytes) {
    view v;
    return view_open(bytes, &v);
}

static bool view_expr(const view *v, uint32_t feature, hn_str *out) {
    table_place place;
    if (feature >= v->head.feature_count) return false;
    copy_at(v->places, sizeof place, feature, &place);
    if ((uint64_t)place.offset + place.len > v->head.expr_bytes) return false;
    *out = (hn_str){v->exprs + place.offset, place.len};
    return true;
}

static bool view_cond(const view *v, const table_variant *variant, uint32_t index, table_cond *out) {
    uint64_t at = (uint64_t)variant->cond_first + index;
    if (index >= variant->cond_count || at >= v->head.cond_count) return false;
    copy_at(v->conds, sizeof *out, (uint32_t)at, out);
    return true;
}

/* ---- walking ---- */

static hn_status canonical_of(const view *v, const table_variant *variant, hn_strbuf *out) {
    hn_guards_begin(v->head.input_count, v->head.tensor_count, variant->cond_count, out);
    for (uint32_t k = 0; k < variant->cond_count; k++) {
        table_cond cond;
        hn_str expr;
        if (!view_cond(v, variant, k, &cond) || !view_expr(v, cond.feature, &expr))
            return HN_ERROR(HN_CORRUPT, "a table of variants is damaged");
        hn_guards_put(out, expr, &(hn_guard_bounds){cond.lo, cond.hi, cond.outside != 0});
    }
    return hn_strbuf_status(out);
}

static int by_age(const void *a, const void *b) {
    const table_variant *x = a, *y = b;
    return (x->age > y->age) - (x->age < y->age);
}

hn_status hn_variants_each(hn_str table, hn_variant_visitor visit, void *user) {
    view v;
    if (!view_open(table, &v)) return HN_ERROR(HN_CORRUPT, "a table of variants is damaged");
    uint32_t count = v.head.variant_count;
    table_variant *all = calloc(count ? count : 1, sizeof *all);
    hn_strbuf canonical;
    hn_status status = NULL;
    if (!all) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a table of variants");
    memcpy(all, v.variants, count * sizeof *all);
    if (count) qsort(all, count, sizeof *all, by_age);
    hn_strbuf_init(&canonical);
    for (uint32_t k = 0; k < count && !status; k++) {
        hn_strbuf_reset(&canonical);
        status = canonical_of(&v, &all[k], &canonical);
        if (!status) visit(user, hn_strbuf_str(&canonical), &all[k].key, all[k].is_default != 0);
    }
    hn_strbuf_deinit(&canonical);
    free(all);
    return status;
}

/* ---- building ---- */

typedef struct builder {
    hn_arena arena;
    table_header head;
    struct { table_variant *items; uint32_t count, cap; } variants;
    struct { table_cond *items; uint32_t count, cap; } conds;
    struct { table_place *items; uint32_t count, cap; } places;
    hn_strbuf exprs;
    hn_strmap features, known; /* expression -> feature; canonical guards -> variant */
    hn_status status;          /* of visits */
} builder;

static void builder_init(builder *b) {
    *b = (builder){.head = {.magic = {0}, .primary = UINT32_MAX}};
    memcpy(b->head.magic, TABLE_MAGIC, sizeof b->head.magic);
    hn_arena_init(&b->arena);
    hn_strbuf_init(&b->exprs);
    hn_strmap_init(&b->features, &b->arena);
    hn_strmap_init(&b->known, &b->arena);
}

static void builder_deinit(builder *b) {
    hn_strbuf_deinit(&b->exprs);
    hn_arena_deinit(&b->arena);
}

static hn_status keep(builder *b, hn_str text, hn_str *out) {
    char *copy = hn_arena_strndup(&b->arena, text.ptr, text.len);
    *out = (hn_str){copy, text.len};
    return copy ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a table of variants");
}

static hn_status feature_of(builder *b, hn_str expr, uint32_t *out) {
    const uint64_t *known = hn_strmap_get(&b->features, expr);
    hn_str kept;
    if (known) {
        *out = (uint32_t)*known;
        return NULL;
    }
    *out = b->places.count;
    HN_TRY(keep(b, expr, &kept));
    HN_TRY(hn_strmap_put(&b->features, kept, *out));
    HN_PUSH(&b->arena, &b->places, ((table_place){(uint32_t)b->exprs.len, (uint32_t)expr.len}));
    hn_strbuf_append(&b->exprs, expr.ptr, expr.len);
    return hn_strbuf_status(&b->exprs);
}

static hn_status add_conds(builder *b, hn_str canonical, table_variant *variant) {
    hn_guards_reader reader;
    hn_guard_bounds bounds;
    hn_str expr;
    HN_TRY(hn_guards_open(canonical, &reader));
    b->head.input_count = reader.input_count;
    b->head.tensor_count = reader.tensor_count;
    variant->cond_first = b->conds.count;
    variant->cond_count = reader.count;
    for (uint32_t k = 0; k < variant->cond_count; k++) {
        table_cond cond = {0};
        HN_TRY(hn_guards_next(&reader, &expr, &bounds));
        HN_TRY(feature_of(b, expr, &cond.feature));
        cond.lo = bounds.lo;
        cond.hi = bounds.hi;
        cond.outside = bounds.outside;
        HN_PUSH(&b->arena, &b->conds, cond);
    }
    return NULL;
}

/* Later ones replace earlier ones with the same guards, at their place. */
static hn_status add(builder *b, hn_str canonical, const hn_digest *key, bool is_default) {
    const uint64_t *known = hn_strmap_get(&b->known, canonical);
    table_variant variant = {.key = *key, .is_default = is_default, .age = b->head.next_age};
    hn_str kept;
    if (known) {
        b->variants.items[*known].key = *key;
        b->variants.items[*known].is_default |= is_default;
        return NULL;
    }
    b->head.next_age++;
    HN_TRY(add_conds(b, canonical, &variant));
    HN_TRY(keep(b, canonical, &kept));
    HN_TRY(hn_strmap_put(&b->known, kept, b->variants.count));
    HN_PUSH(&b->arena, &b->variants, variant);
    return NULL;
}

static void visit_add(void *user, hn_str canonical, const hn_digest *key, bool is_default) {
    builder *b = user;
    if (!b->status) b->status = add(b, canonical, key, is_default);
}

/* The variants of a table. One that is damaged, or of another version, has none. */
static hn_status add_table(builder *b, hn_str table) {
    view v;
    if (!view_open(table, &v)) return NULL;
    hn_status status = hn_variants_each(table, visit_add, b);
    if (status && b->status) {
        hn_status_free(status);
        status = NULL;
    }
    return status ? status : b->status;
}

/* The bounds of a variant on a feature. */
static void bounds_on(const builder *b, const table_variant *variant, uint32_t feature, int64_t *lo, int64_t *hi) {
    *lo = INT64_MIN;
    *hi = INT64_MAX;
    for (uint32_t k = 0; k < variant->cond_count; k++) {
        const table_cond *cond = &b->conds.items[variant->cond_first + k];
        if (cond->feature != feature || cond->outside) continue;
        *lo = cond->lo;
        *hi = cond->hi;
    }
}

static int by_bounds(const void *a, const void *b) {
    const table_variant *x = a, *y = b;
    if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
    if (x->hi != y->hi) return x->hi < y->hi ? -1 : 1;
    return by_age(a, b);
}

static void sort_on(builder *b, uint32_t feature) {
    for (uint32_t k = 0; k < b->variants.count; k++)
        bounds_on(b, &b->variants.items[k], feature, &b->variants.items[k].lo, &b->variants.items[k].hi);
    if (b->variants.count) qsort(b->variants.items, b->variants.count, sizeof *b->variants.items, by_bounds);
}

/* The feature on which the most variants have bounds of their own. Trying a feature costs a sort, so only the first few,
 * which come from the oldest variants, are tried. */
static void choose_primary(builder *b) {
    enum { TRIES = 16 };
    uint32_t best = UINT32_MAX, most = 0;
    for (uint32_t f = 0; f < b->places.count && f < TRIES; f++) {
        uint32_t distinct = 0;
        sort_on(b, f);
        for (uint32_t k = 0; k < b->variants.count; k++) {
            const table_variant *v = &b->variants.items[k];
            distinct += k == 0 || v->lo != v[-1].lo || v->hi != v[-1].hi;
        }
        if (distinct <= most) continue;
        best = f;
        most = distinct;
    }
    b->head.primary = best;
    sort_on(b, best);
}

/* The half [begin, end) is a tree whose root is its middle. */
static int64_t set_most(table_variant *items, uint32_t begin, uint32_t end) {
    if (begin == end) return INT64_MIN;
    uint32_t middle = begin + (end - begin) / 2;
    int64_t left = set_most(items, begin, middle), right = set_most(items, middle + 1, end), most = items[middle].hi;
    if (left > most) most = left;
    if (right > most) most = right;
    return items[middle].most = most;
}

/* Drops the oldest ones, but not the default one. Their conditions stay behind until the next change. */
static void drop_oldest(builder *b) {
    if (b->variants.count <= HN_VARIANTS_MAX) return;
    uint32_t surplus = b->variants.count - HN_VARIANTS_MAX, kept = 0;
    qsort(b->variants.items, b->variants.count, sizeof *b->variants.items, by_age);
    for (uint32_t k = 0; k < b->variants.count; k++) {
        bool drop = surplus && !b->variants.items[k].is_default;
        surplus -= drop;
        if (!drop) b->variants.items[kept++] = b->variants.items[k];
    }
    b->variants.count = kept < HN_VARIANTS_MAX ? kept : HN_VARIANTS_MAX;
}

static hn_status finish(builder *b, hn_strbuf *out) {
    table_header *h = &b->head;
    drop_oldest(b);
    choose_primary(b);
    (void)set_most(b->variants.items, 0, b->variants.count);
    h->feature_count = b->places.count;
    h->variant_count = b->variants.count;
    h->cond_count = b->conds.count;
    h->expr_bytes = (uint32_t)b->exprs.len;
    hn_strbuf_append(out, (const char *)h, sizeof *h);
    hn_strbuf_append(out, (const char *)b->places.items, b->places.count * sizeof *b->places.items);
    hn_strbuf_append(out, (const char *)b->variants.items, b->variants.count * sizeof *b->variants.items);
    hn_strbuf_append(out, (const char *)b->conds.items, b->conds.count * sizeof *b->conds.items);
    hn_strbuf_append(out, b->exprs.ptr, b->exprs.len);
    return hn_strbuf_status(out);
}

hn_status hn_variants_add(hn_str old, hn_str canonical, const hn_digest *key, bool is_default, hn_strbuf *out) {
    builder b;
    builder_init(&b);
    hn_status status = add_table(&b, old);
    if (!status) status = add(&b, canonical, key, is_default);
    if (!status) status = finish(&b, out);
    builder_deinit(&b);
    return status;
}

hn_status hn_variants_merge(hn_str older, hn_str newer, hn_strbuf *out) {
    builder b;
    builder_init(&b);
    hn_status status = add_table(&b, older);
    if (!status) status = add_table(&b, newer);
    if (!status) status = finish(&b, out);
    builder_deinit(&b);
    return status;
}

/* ---- looking up ---- */

typedef struct finder {
    const view *v;
    hn_guard_inputs inputs;
    hn_variants_found *out;
    bool found;
    table_variant best;
    /* The value of the feature asked for last: variants share theirs. */
    uint32_t feature;
    int64_t value;
    bool is_defined;
} finder;

static bool value_of(finder *f, uint32_t feature, int64_t *out) {
    hn_str expr;
    if (f->feature != feature) {
        f->feature = feature;
        f->is_defined = view_expr(f->v, feature, &expr) && hn_guards_eval(expr, &f->inputs, &f->value);
    }
    *out = f->value;
    return f->is_defined;
}

static bool takes(finder *f, const table_variant *variant) {
    f->out->compared++;
    for (uint32_t k = 0; k < variant->cond_count; k++) {
        table_cond cond;
        int64_t value;
        if (!view_cond(f->v, variant, k, &cond) || !value_of(f, cond.feature, &value)) return false;
        if ((value >= cond.lo && value <= cond.hi) == (cond.outside != 0)) return false;
    }
    return true;
}

static void consider(finder *f, const table_variant *variant) {
    bool is_better = !f->found || variant->is_default > f->best.is_default ||
                     (variant->is_default == f->best.is_default && variant->age < f->best.age);
    if (!is_better || !takes(f, variant)) return;
    f->best = *variant;
    f->found = true;
}

/* The variants in [begin, end) whose interval holds x. The depth is the logarithm of the count. */
static void stab(finder *f, int64_t x, uint32_t begin, uint32_t end) {
    table_variant variant;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        copy_at(f->v->variants, sizeof variant, middle, &variant);
        if (variant.most < x) return;
        stab(f, x, begin, middle);
        if (variant.lo > x) return; /* so are all behind it */
        if (variant.hi >= x) consider(f, &variant);
        begin = middle + 1;
    }
}

static void find_default(const view *v, finder *f) {
    for (uint32_t k = 0; k < v->head.variant_count; k++) {
        table_variant variant;
        copy_at(v->variants, sizeof variant, k, &variant);
        if (!variant.is_default || (f->found && variant.age > f->best.age)) continue;
        f->best = variant;
        f->found = true;
    }
}

bool hn_variants_find(hn_str table, const hn_variant_input *inputs, uint32_t count, hn_variants_found *out) {
    view v;
    int64_t value = 0;
    *out = (hn_variants_found){.compared = 0};
    if (!view_open(table, &v)) return false;
    finder f = {.v = &v, .out = out, .feature = UINT32_MAX};
    out->variants = v.head.variant_count;
    f.inputs = (hn_guard_inputs){inputs, count, count != v.head.input_count && count == v.head.tensor_count};
    if (!inputs)
        find_default(&v, &f);
    else if (v.head.primary == UINT32_MAX)
        stab(&f, 0, 0, v.head.variant_count);
    else if (value_of(&f, v.head.primary, &value))
        stab(&f, value, 0, v.head.variant_count);
    if (!f.found) return false;
    out->key = f.best.key;
    out->is_default = f.best.is_default != 0;
    return true;
}
