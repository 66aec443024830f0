/* cpu_choice.c: see the header. */
#include "kernel/cpu_choice.h"

#include "base/compiler.h"
#include "kernel/cpu_internal.h"

#include <string.h>

/* ---- kinds ---- */

enum { STORES = 1, AHEAD = 2, VECTORS = 4, WIDTH = 8, GRAIN = 16 };

typedef struct kind {
    const char *name;
    unsigned has; /* numbers that may be chosen */
    uint32_t width_least, width_most;
} kind;

static const kind kinds[] = {
    [HN_CPU_FLAT] = {"flat", STORES | AHEAD | VECTORS | WIDTH | GRAIN, 256, 65536},
    [HN_CPU_ROWS] = {"rows", STORES | AHEAD | VECTORS | GRAIN, 0, 0},
    [HN_CPU_ROWS_PIPELINED] = {"rows-pipelined", STORES | AHEAD | VECTORS | GRAIN, 0, 0},
    [HN_CPU_ROWS_SPLIT] = {"rows-split", STORES | GRAIN, 0, 0},
    [HN_CPU_ROWS_SLABS] = {"slabs-of-rows", STORES | AHEAD | VECTORS | GRAIN, 0, 0},
    [HN_CPU_COLUMNS_NARROW] = {"columns", STORES | VECTORS | GRAIN, 0, 0},
    [HN_CPU_COLUMNS_WIDE] = {"strips-of-columns", STORES | VECTORS | WIDTH | GRAIN, 64, 8192},
    [HN_CPU_TILES] = {"tiles", STORES | AHEAD | GRAIN, 0, 0},
    [HN_CPU_TILES_WIDE] = {"wide-tiles", STORES | GRAIN, 0, 0},
};

const char *hn_cpu_form_name(hn_cpu_form form) { return kinds[form].name; }

bool hn_cpu_form_named(hn_str name, hn_cpu_form *out) {
    for (size_t k = 0; k < HN_COUNT_OF(kinds); k++) {
        if (!hn_str_eq(name, hn_str_of(kinds[k].name))) continue;
        *out = (hn_cpu_form)k;
        return true;
    }
    return false;
}

/* ---- text ---- */

static void put(hn_strbuf *out, size_t begin, const char *name, int64_t value) {
    hn_strbuf_printf(out, "%s%s=%lld", out->len > begin ? " " : "", name, (long long)value);
}
static void put_word(hn_strbuf *out, size_t begin, const char *name, const char *word) {
    hn_strbuf_printf(out, "%s%s=%s", out->len > begin ? " " : "", name, word);
}

void hn_cpu_choice_print(const hn_cpu_choice *c, hn_strbuf *out) {
    const size_t begin = out->len;
    if (c->stores)
        put_word(out, begin, "stores", c->stores == HN_CPU_STORES_CACHED ? "cached" : "streaming");
    if (c->ahead == HN_CPU_AHEAD_NONE) put_word(out, begin, "ahead", "none");
    else if (c->ahead) put(out, begin, "ahead", c->ahead);
    if (c->vectors) put(out, begin, "vectors", c->vectors);
    if (c->width) put(out, begin, "width", c->width);
    if (c->grain == INT64_MAX) put_word(out, begin, "grain", "never");
    else if (c->grain) put(out, begin, "grain", c->grain);
}

static bool read_number(hn_str text, int64_t least, int64_t most, int64_t *out) {
    *out = 0;
    if (!text.len || text.len > 18) return false;
    for (size_t k = 0; k < text.len; k++) {
        if (text.ptr[k] < '0' || text.ptr[k] > '9') return false;
        *out = *out * 10 + (text.ptr[k] - '0');
    }
    return *out >= least && *out <= most;
}

static bool is_power_of_two(int64_t value) { return (value & (value - 1)) == 0; }

static bool is_word(hn_str text, const char *word) { return hn_str_eq(text, hn_str_of(word)); }

static bool read_stores(hn_str value, hn_cpu_choice *out) {
    out->stores = is_word(value, "cached")      ? HN_CPU_STORES_CACHED
                  : is_word(value, "streaming") ? HN_CPU_STORES_STREAMING
                                                : HN_CPU_STORES_ANY;
    return out->stores != HN_CPU_STORES_ANY;
}

static bool read_ahead(hn_str value, hn_cpu_choice *out) {
    int64_t number = HN_CPU_AHEAD_NONE;
    if (!is_word(value, "none") && !read_number(value, 1, HN_CPU_AHEAD_NONE - 1, &number))
        return false;
    out->ahead = (uint32_t)number;
    return true;
}

static bool read_vectors(hn_str value, hn_cpu_choice *out) {
    int64_t number;
    if (!read_number(value, 1, HN_CPU_UNROLL_MAX, &number) || !is_power_of_two(number))
        return false;
    out->vectors = (uint32_t)number;
    return true;
}

static bool read_width(hn_str value, hn_cpu_choice *out) {
    const kind *k = &kinds[out->form];
    int64_t number;
    if (!read_number(value, k->width_least, k->width_most, &number) || !is_power_of_two(number))
        return false;
    out->width = (uint32_t)number;
    return true;
}

static bool read_grain(hn_str value, hn_cpu_choice *out) {
    out->grain = INT64_MAX;
    return is_word(value, "never") || read_number(value, 1, INT64_MAX, &out->grain);
}

static const struct {
    const char *name;
    unsigned bit;
    bool (*read)(hn_str value, hn_cpu_choice *out);
} numbers[] = {
    {"stores", STORES, read_stores},    {"ahead", AHEAD, read_ahead},
    {"vectors", VECTORS, read_vectors}, {"width", WIDTH, read_width},
    {"grain", GRAIN, read_grain},
};

static bool read_word(hn_str word, unsigned *seen, hn_cpu_choice *out) {
    const char *equals = memchr(word.ptr, '=', word.len);
    if (!equals) return false;
    const hn_str name = {word.ptr, (size_t)(equals - word.ptr)},
                 value = {equals + 1, word.len - name.len - 1};
    for (size_t k = 0; k < HN_COUNT_OF(numbers); k++) {
        if (!hn_str_eq(name, hn_str_of(numbers[k].name))) continue;
        if (!(kinds[out->form].has & numbers[k].bit) || *seen & numbers[k].bit) return false;
        *seen |= numbers[k].bit;
        return numbers[k].read(value, out);
    }
    return false;
}

hn_status hn_cpu_choice_parse(hn_cpu_form form, hn_str text, hn_cpu_choice *out) {
    unsigned seen = 0;
    *out = (hn_cpu_choice){.form = form};
    while (text.len) {
        const char *blank = memchr(text.ptr, ' ', text.len);
        const hn_str word = {text.ptr, blank ? (size_t)(blank - text.ptr) : text.len};
        if (!read_word(word, &seen, out))
            return HN_ERROR(HN_INVALID_ARGUMENT, "a form '%s' has no parameter '" HN_STR_FMT "'",
                            kinds[form].name, HN_STR_ARG(word));
        text.ptr += word.len + (blank != NULL);
        text.len -= word.len + (blank != NULL);
    }
    return NULL;
}

bool hn_cpu_choice_eq(const hn_cpu_choice *a, const hn_cpu_choice *b) {
    return a->form == b->form && a->stores == b->stores && a->ahead == b->ahead &&
           a->vectors == b->vectors && a->width == b->width && a->grain == b->grain;
}

/* ---- what a plan decided ---- */

static uint32_t ahead_of(const hn_cpu_plan *pl) {
    if (pl->form == HN_CPU_TILES) return pl->tiles.prefetches ? 1 : HN_CPU_AHEAD_NONE;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++)
        if (pl->phases[f].prefetch_count) return pl->phases[f].ahead;
    return HN_CPU_AHEAD_NONE;
}

hn_cpu_choice hn_cpu_choice_of(const hn_cpu_plan *pl) {
    const unsigned has = kinds[pl->form].has;
    hn_cpu_choice c = {.form = pl->form, .grain = pl->grain};
    if (pl->kernel->serial) return (hn_cpu_choice){.form = pl->form, .vectors = pl->choice.vectors};
    if (has & STORES) c.stores = pl->nontemporal ? HN_CPU_STORES_STREAMING : HN_CPU_STORES_CACHED;
    if (has & AHEAD) c.ahead = ahead_of(pl);
    if (has & VECTORS)
        c.vectors = hn_cpu_has_lane_loop(pl->form) ? pl->choice.vectors : pl->columns.copies;
    if (has & WIDTH) c.width = pl->form == HN_CPU_FLAT ? pl->flat_block_elems : pl->columns.width;
    return c;
}

/* ---- others ---- */

static uint32_t add(const hn_cpu_choice *c, hn_cpu_choice out[HN_CPU_CHOICES_MAX], uint32_t count) {
    if (count == HN_CPU_CHOICES_MAX) return count;
    out[count] = *c;
    return count + 1;
}

/* Stores and prefetches the other way, and both. */
static uint32_t add_memory(hn_cpu_choice c, hn_cpu_choice out[HN_CPU_CHOICES_MAX], uint32_t count) {
    const unsigned has = kinds[c.form].has;
    for (int stores = HN_CPU_STORES_ANY; stores <= HN_CPU_STORES_STREAMING; stores++) {
        c.stores = (hn_cpu_stores)stores;
        c.ahead = 0;
        count = add(&c, out, count);
        c.ahead = HN_CPU_AHEAD_NONE;
        if (has & AHEAD) count = add(&c, out, count);
    }
    return count;
}

uint32_t hn_cpu_choices_list(const hn_cpu_plan *pl, hn_cpu_choice out[HN_CPU_CHOICES_MAX]) {
    static const uint32_t vectors[] = {1, 2, 4, 8};
    uint32_t count = 0;
    for (uint32_t k = 0; k < pl->candidate_count; k++)
        count = add(&(hn_cpu_choice){.form = pl->candidates[k].form}, out, count);
    if (pl->kernel->serial) return count;
    for (uint32_t k = 0; k < pl->candidate_count; k++)
        count = add_memory((hn_cpu_choice){.form = pl->candidates[k].form}, out, count);
    for (uint32_t k = 0; k < pl->candidate_count; k++) {
        hn_cpu_choice c = {.form = pl->candidates[k].form};
        const unsigned has = kinds[c.form].has;
        for (size_t v = 0; v < HN_COUNT_OF(vectors) && has & VECTORS; v++) {
            c.vectors = vectors[v];
            count = add(&c, out, count);
        }
        c.vectors = 0;
        for (uint32_t w = 256; w <= 4096 && c.form == HN_CPU_COLUMNS_WIDE; w *= 2) {
            c.width = w;
            count = add(&c, out, count);
        }
    }
    return count;
}

static uint32_t near_number(const hn_cpu_choice *c, uint32_t *number, const hn_cpu_choice *changed,
                            uint32_t from, const uint32_t range[2],
                            hn_cpu_choice out[HN_CPU_CHOICES_MAX], uint32_t count) {
    (void)c;
    for (int up = 0; up < 2; up++) {
        *number = up ? from * 2 : from / 2;
        if (*number >= range[0] && *number <= range[1]) count = add(changed, out, count);
    }
    return count;
}

uint32_t hn_cpu_choices_near(const hn_cpu_choice *c, hn_cpu_choice out[HN_CPU_CHOICES_MAX]) {
    const kind *k = &kinds[c->form];
    hn_cpu_choice other = *c;
    uint32_t count = 0;
    if (k->has & STORES && c->stores) {
        other.stores =
            c->stores == HN_CPU_STORES_CACHED ? HN_CPU_STORES_STREAMING : HN_CPU_STORES_CACHED;
        count = add(&other, out, count);
        other = *c;
    }
    if (k->has & AHEAD) {
        const uint32_t first = c->form == HN_CPU_FLAT ? 512 : 1,
                       range[2] = {1, c->form == HN_CPU_TILES ? 1 : 4096};
        other.ahead = c->ahead == HN_CPU_AHEAD_NONE ? first : HN_CPU_AHEAD_NONE;
        count = add(&other, out, count);
        if (c->ahead != HN_CPU_AHEAD_NONE && c->ahead)
            count = near_number(c, &other.ahead, &other, c->ahead, range, out, count);
        other = *c;
    }
    if (k->has & VECTORS) {
        const uint32_t range[2] = {1, HN_CPU_UNROLL_MAX};
        count =
            near_number(c, &other.vectors, &other, c->vectors ? c->vectors : 2, range, out, count);
        other = *c;
    }
    if (k->has & WIDTH && c->width) {
        const uint32_t range[2] = {k->width_least, k->width_most};
        count = near_number(c, &other.width, &other, c->width, range, out, count);
        other = *c;
    }
    if (k->has & GRAIN && c->grain) {
        other.grain = c->grain == INT64_MAX ? 1 : INT64_MAX;
        count = add(&other, out, count);
        for (int up = 0; up < 2 && c->grain != INT64_MAX; up++) {
            other.grain = up ? c->grain * 4 : c->grain / 4;
            if (other.grain >= 1 && c->grain < INT64_MAX / 4) count = add(&other, out, count);
        }
    }
    return count;
}
