/* variant_sizes.c: what a kernel is known by, the sizes at which its forms are compared, and what
 * is expected of forms over all of them. See variants.h. */
#include "driver/call_forms.h"

#include "base/checked.h"
#include "kernel/plan_cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- identity ---- */

/* The plain form of the kernel, with nothing left to what is expected. */
static hn_status plain_form(const hn_variants_of *of, hn_arena *arena, hn_form **out) {
    const hn_kernel *k = of->kernel;
    hn_cpu_choice plain = {
        .stores = HN_CPU_STORES_CACHED, .ahead = HN_CPU_AHEAD_NONE, .vectors = 1, .grain = 1};
    plain.form = k->slabs                     ? HN_CPU_ROWS_SLABS
                 : k->mode == HN_VECTOR_FLAT  ? HN_CPU_FLAT
                 : k->mode == HN_VECTOR_OUTER ? HN_CPU_COLUMNS_NARROW
                                              : HN_CPU_ROWS;
    return hn_form_plan_cpu_as(of->program, k, of->target->vector_bytes, of->target->cpu, &plain,
                               arena, arena, out);
}

static hn_status print_plain(const hn_variants_of *of, hn_arena *arena, hn_kernel_code *out) {
    hn_form *form;
    uint32_t count = 1;
    HN_TRY(of->target->cpu ? plain_form(of, arena, &form)
                           : of->target->kind->plan(of->program, of->kernel, of->target, 1, arena,
                                                    arena, &form, &count));
    if (!count) return HN_ERROR(HN_INTERNAL, "no form of a kernel fits the processor");
    return hn_target_print_form(of->target, form, arena, arena, out);
}

/* Parameters come first, then what only the number of iterations depends on. */
static bool add_symbol(const hn_variants_of *of, hn_expr symbol, hn_kernel_identity *out) {
    for (uint32_t k = 0; k < out->symbol_count; k++)
        if (out->symbols[k] == symbol) return true;
    if (out->symbol_count == HN_VARIANT_SYMBOLS_MAX ||
        hn_sym_kind(of->program->sym, symbol) != HN_EXPR_SYMBOL ||
        hn_sym_symbol_kind(of->program->sym, symbol) != HN_SYMBOL_SIZE)
        return false;
    out->symbols[out->symbol_count++] = symbol;
    return true;
}

static void take_symbols(const hn_variants_of *of, const hn_kernel_code *code,
                         hn_kernel_identity *out) {
    hn_expr symbols[HN_VARIANT_SYMBOLS_MAX];
    const uint32_t count =
        hn_sym_symbols(of->program->sym, code->extent, symbols, HN_VARIANT_SYMBOLS_MAX);
    bool is_known = count <= HN_VARIANT_SYMBOLS_MAX;
    out->symbol_count = 0;
    for (uint32_t k = 0; k < code->size_count && is_known; k++)
        is_known = add_symbol(of, code->sizes[k], out);
    for (uint32_t k = 0; k < count && is_known; k++) is_known = add_symbol(of, symbols[k], out);
    out->is_tunable = is_known;
    if (!is_known) out->symbol_count = 0;
}

/* Of the text, and of how many iterations there are: at some sizes, so that names do not count. */
static hn_digest digest_of(const hn_variants_of *of, const hn_kernel_code *code,
                           const hn_kernel_identity *id) {
    static const int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31};
    hn_digest_state state;
    int64_t values[HN_VARIANT_SYMBOLS_MAX], iterations;
    hn_digest_begin(&state);
    hn_digest_update(&state, &code->digest, sizeof code->digest);
    for (uint32_t point = 0; point < 3; point++) {
        for (uint32_t k = 0; k < id->symbol_count; k++) values[k] = primes[point + k] << 7 * point;
        if (!hn_sym_eval(of->program->sym, code->extent, id->symbols, values, id->symbol_count,
                         &iterations))
            iterations = -1;
        hn_digest_update(&state, &iterations, sizeof iterations);
    }
    return hn_digest_end(&state);
}

/* Of a GPU the layout depends on sizes: all are expected to be the same for every kernel. */
enum { ANY_SIZE = 1024 };

static hn_status print_at_any_size(const hn_variants_of *of, const hn_kernel_identity *id,
                                   hn_arena *arena, hn_kernel_code *out) {
    int64_t values[HN_VARIANT_SYMBOLS_MAX];
    hn_variant_hints was;
    for (uint32_t k = 0; k < id->symbol_count; k++) values[k] = ANY_SIZE;
    const hn_ref_sizes sizes = {id->symbols, values, id->symbol_count};
    HN_TRY(hn_variant_hints_begin(of->program->sym, &sizes, &was));
    hn_status status = print_plain(of, arena, out);
    hn_variant_hints_end(&was);
    return status;
}

hn_status hn_kernel_identify(const hn_variants_of *of, hn_arena *arena, hn_kernel_identity *out) {
    hn_kernel_code code;
    if (of->call) return hn_call_identify(of, out);
    *out = (hn_kernel_identity){.symbol_count = 0};
    HN_TRY(print_plain(of, arena, &code));
    take_symbols(of, &code, out);
    if (!of->target->cpu && out->symbol_count) {
        HN_TRY(print_at_any_size(of, out, arena, &code));
        take_symbols(of, &code, out);
    }
    out->digest = digest_of(of, &code, out);
    return NULL;
}

/* ---- values of a symbol ---- */

enum { VALUES_MAX = 32 };

typedef struct value_list {
    int64_t values[VALUES_MAX]; /* the recorded one first */
    uint32_t count;
} value_list;

static void add_value(value_list *list, int64_t value) {
    for (uint32_t k = 0; k < list->count; k++)
        if (list->values[k] == value) return;
    if (list->count < VALUES_MAX) list->values[list->count++] = value;
}

/* Bytes of the largest loop of the kernel at the hints. */
static int64_t largest_bytes(const hn_variants_of *of) {
    hn_sym *sym = of->program->sym;
    int64_t most = 0;
    for (uint32_t f = 0; f < of->kernel->loop_count; f++) {
        const hn_loop *loop = &of->kernel->loops[f].loop;
        int64_t bytes = 4;
        for (uint32_t v = 0; v < loop->rank + loop->red_rank; v++) {
            const hn_expr extent = hn_sym_symbol_extent(sym, loop->vars[v]);
            if (!hn_mul_i64(bytes, hn_sym_hint(sym, extent, 1), &bytes)) bytes = INT64_MAX;
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Of calls, whose forms are many. */
static const double call_ns_max = 50e6;

/* At these values. */
static bool is_too_large(const hn_variants_of *of, const hn_expr *symbols, const int64_t *values,
                         uint32_t count) {
    hn_sym *sym = of->program->sym;
    int64_t was[HN_VARIANT_SYMBOLS_MAX];
    bool had[HN_VARIANT_SYMBOLS_MAX];
    for (uint32_t k = 0; k < count; k++) {
        had[k] = hn_sym_has_hint(sym, symbols[k], &was[k]);
        hn_sym_set_hint(sym, symbols[k], values[k]);
    }
    const bool is_too_large =
        of->call ? hn_call_time(of) > call_ns_max : largest_bytes(of) > HN_VARIANT_BYTES_MAX;
    for (uint32_t k = 0; k < count; k++) {
        if (had[k]) hn_sym_set_hint(sym, symbols[k], was[k]);
        else hn_sym_drop_hint(sym, symbols[k]);
    }
    return is_too_large;
}

static void list_default(const hn_variants_of *of, hn_expr symbol, value_list *out) {
    hn_sym *sym = of->program->sym;
    const int64_t divisor = hn_sym_divisor(sym, symbol), step = divisor > 0 ? divisor : 1;
    int64_t lo, hi, hint;
    hn_sym_range(sym, symbol, &lo, &hi);
    if (hn_sym_has_hint(sym, symbol, &hint)) add_value(out, hint);
    for (int64_t value = 1; value <= (int64_t)1 << 40; value *= 4) {
        const int64_t at = value < step ? step : value / step * step;
        if (at < lo || at > hi) continue;
        if (is_too_large(of, &symbol, &at, 1)) break;
        add_value(out, at);
    }
    if (!out->count) add_value(out, hn_sym_hint(sym, symbol, lo > 1 ? lo : 1));
}

static const hn_size_hint *hint_for(const hn_size_hints *hints, hn_str symbol) {
    for (uint32_t k = 0; hints && k < hints->count; k++)
        if (hn_str_eq(hints->items[k].symbol, symbol)) return &hints->items[k];
    return NULL;
}

static hn_status list_given(const hn_variants_of *of, hn_expr symbol, const hn_size_hint *given,
                            value_list *out) {
    int64_t lo, hi;
    hn_sym_range(of->program->sym, symbol, &lo, &hi);
    for (uint32_t k = 0; k < given->count; k++) {
        if (given->values[k] < lo || given->values[k] > hi)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "'" HN_STR_FMT "' cannot be %lld: it is from %lld to %lld",
                            HN_STR_ARG(given->symbol), (long long)given->values[k], (long long)lo,
                            (long long)hi);
        add_value(out, given->values[k]);
    }
    return NULL;
}

/* ---- sets of sizes ---- */

/* Combinations that are looked at: of more, values between the least and the largest are left
 * out. */
enum { COMBINATIONS_MAX = 1024 };
/* Of more symbols some are large together. */
enum { CORNER_SYMBOLS = 3 };

typedef struct set_list {
    const hn_variants_of *of;
    const hn_expr *names;
    value_list *lists;
    uint32_t symbols, count;
    int64_t *values;  /* of all sets */
    double *distance; /* of each set, to the nearest one that was taken */
} set_list;

static uint64_t count_of(const value_list *lists, uint32_t count) {
    uint64_t all = 1;
    for (uint32_t d = 0; d < count; d++) all *= lists[d].count; /* at most 32 to the power of 8 */
    return all;
}

static int by_value(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Every second one of those that are neither the first, the least nor the largest goes. */
static void thin(value_list *list) {
    int64_t *rest = list->values + 1;
    uint32_t kept = 1;
    qsort(rest, list->count - 1u, sizeof *rest, by_value);
    for (uint32_t k = 1; k < list->count; k++)
        if (k == 1 || k + 1 == list->count || k % 2) list->values[kept++] = list->values[k];
    list->count = kept;
}

static void thin_all(set_list *s) {
    while (count_of(s->lists, s->symbols) > COMBINATIONS_MAX) {
        value_list *longest = s->lists;
        for (uint32_t d = 1; d < s->symbols; d++)
            if (s->lists[d].count > longest->count) longest = &s->lists[d];
        const uint32_t before = longest->count;
        thin(longest);
        if (longest->count == before) longest->count--; /* three or less of each: eight symbols */
    }
}

/* All combinations, that of the first values in front; those that are too large are left out,
 * unless the caller has named them. */
static hn_status list_all(set_list *s, bool is_given, hn_arena *arena) {
    const uint64_t all = count_of(s->lists, s->symbols);
    HN_NEW(arena, s->values, (size_t)all * s->symbols + 1);
    HN_NEW(arena, s->distance, (size_t)all);
    for (uint64_t number = 0; number < all; number++) {
        int64_t *to = &s->values[(size_t)s->count * s->symbols];
        uint64_t rest = number;
        for (uint32_t d = 0; d < s->symbols; d++) {
            to[d] = s->lists[d].values[rest % s->lists[d].count];
            rest /= s->lists[d].count;
        }
        s->count += !number || is_given || !is_too_large(s->of, s->names, to, s->symbols);
    }
    return NULL;
}

static double log2_of(int64_t size) { return size > 0 ? log2((double)size) : -1; }

double hn_variant_distance(const int64_t *a, const int64_t *b, uint32_t count) {
    double sum = 0;
    for (uint32_t d = 0; d < count; d++) sum += fabs(log2_of(a[d]) - log2_of(b[d]));
    return sum;
}

static const int64_t *set_at(const set_list *s, uint32_t k) {
    return &s->values[(size_t)k * s->symbols];
}

/* Puts set `from` behind the `taken` ones that come first. */
static void take(set_list *s, uint32_t taken, uint32_t from) {
    int64_t *x = (int64_t *)set_at(s, taken), *y = (int64_t *)set_at(s, from);
    for (uint32_t d = 0; d < s->symbols; d++) {
        const int64_t value = x[d];
        x[d] = y[d], y[d] = value;
    }
    s->distance[from] = s->distance[taken];
    for (uint32_t k = taken + 1; k < s->count; k++) {
        const double d = hn_variant_distance(x, set_at(s, k), s->symbols);
        if (d < s->distance[k]) s->distance[k] = d;
    }
}

/* How far it is towards a corner: each bit is a symbol that is large there. */
static double height(const set_list *s, uint32_t k, uint32_t corner) {
    double sum = 0;
    for (uint32_t d = 0; d < s->symbols; d++) {
        const double value = log2_of(set_at(s, k)[d]);
        sum += corner >> d % CORNER_SYMBOLS & 1 ? value : -value;
    }
    return sum;
}

static uint32_t corner_of(const set_list *s, uint32_t corner) {
    uint32_t best = 0;
    for (uint32_t k = 1; k < s->count; k++)
        if (height(s, k, corner) > height(s, best, corner)) best = k;
    return best;
}

static uint32_t farthest(const set_list *s, uint32_t taken) {
    uint32_t best = taken;
    for (uint32_t k = taken + 1; k < s->count; k++)
        if (s->distance[k] > s->distance[best]) best = k;
    return best;
}

/* Takes `most` sets: the first one, the corners, then always the one that is the farthest from all
 * before it. So however many are timed, they are spread over all sizes. */
static void spread(set_list *s, uint32_t most) {
    const uint32_t bits = s->symbols < CORNER_SYMBOLS ? s->symbols : CORNER_SYMBOLS;
    uint32_t taken = 0;
    for (uint32_t k = 0; k < s->count; k++) s->distance[k] = INFINITY;
    take(s, taken++, 0);
    for (uint32_t k = 0; k < 1u << bits && taken < s->count; k++) {
        const uint32_t best = corner_of(s, k & 1 ? (1u << bits) - 1 - k / 2 : k / 2);
        if (best >= taken) take(s, taken++, best);
    }
    while (taken < s->count && taken < most) {
        take(s, taken, farthest(s, taken));
        taken++;
    }
    if (s->count > most) s->count = most;
}

static hn_status list_values(set_list *s, const hn_size_hints *hints) {
    for (uint32_t d = 0; d < s->symbols; d++) {
        const hn_size_hint *given =
            hint_for(hints, hn_sym_symbol_name(s->of->program->sym, s->names[d]));
        if (given && given->count) HN_TRY(list_given(s->of, s->names[d], given, &s->lists[d]));
        else list_default(s->of, s->names[d], &s->lists[d]);
    }
    return NULL;
}

hn_status hn_variant_sizes_list(const hn_variants_of *of, const hn_kernel_identity *id,
                                const hn_size_hints *hints, hn_arena *arena,
                                hn_variant_sizes *out) {
    const uint32_t asked = hints ? hints->samples_max : 0, most = !asked ? HN_VARIANT_SAMPLES
                                                                  : asked > HN_VARIANT_SAMPLES_MAX
                                                                      ? HN_VARIANT_SAMPLES_MAX
                                                                      : asked;
    set_list sets = {.of = of, .names = id->symbols, .symbols = id->symbol_count};
    HN_NEW(arena, sets.lists, id->symbol_count + 1u);
    HN_TRY(list_values(&sets, hints));
    thin_all(&sets);
    HN_TRY(list_all(&sets, hints && hints->count, arena));
    spread(&sets, most);
    *out = (hn_variant_sizes){.symbols = id->symbols,
                              .symbol_count = id->symbol_count,
                              .count = sets.count,
                              .values = sets.values};
    return NULL;
}

hn_ref_sizes hn_variant_sizes_at(const hn_variant_sizes *sizes, uint32_t k) {
    return (hn_ref_sizes){.symbols = sizes->symbols,
                          .values = sizes->values + (size_t)k * sizes->symbol_count,
                          .count = sizes->symbol_count};
}

/* ---- forms over all sizes ---- */

enum { MOST_BY_DEFAULT = 4 };

/* A form that is among the best somewhere: its best place at any set of sizes, and at how many sets
 * it is listed. */
typedef struct choice {
    hn_variant v;
    uint32_t place, sets, number;
} choice;

typedef struct choices {
    choice *items;
    uint32_t count, cap;
} choices;

static hn_status add_choice(hn_arena *arena, choices *all, const hn_variant *v, uint32_t place) {
    for (uint32_t k = 0; k < all->count; k++) {
        choice *c = &all->items[k];
        if (!hn_form_name_eq(&c->v.name, &v->name)) continue;
        if (place < c->place) c->place = place;
        c->sets++;
        return NULL;
    }
    const choice c = {.v = *v, .place = place, .sets = 1, .number = all->count};
    HN_PUSH(arena, all, c);
    return NULL;
}

/* Who is the best somewhere comes before who is the second best at more sizes. */
static int by_coverage(const void *a, const void *b) {
    const choice *x = a, *y = b;
    if (!x->number != !y->number) return x->number ? 1 : -1; /* the best at the first set */
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    if (x->sets != y->sets) return x->sets > y->sets ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static int by_number(const void *a, const void *b) {
    const choice *x = a, *y = b;
    return x->number < y->number ? -1 : 1;
}

/* All of them, or as many as there is room for: in the order in which they were found. */
static void take_choices(choices *all, hn_variants *out) {
    if (all->count > HN_VARIANTS_MAX) {
        qsort(all->items, all->count, sizeof *all->items, by_coverage);
        all->count = HN_VARIANTS_MAX;
        qsort(all->items, all->count, sizeof *all->items, by_number);
    }
    for (uint32_t k = 0; k < all->count; k++) out->items[out->count++] = all->items[k].v;
}

/* 0 where the form cannot be had at these sizes. */
static hn_status expect(const hn_variants_of *of, const hn_variants *set, uint32_t variant,
                        uint32_t sample, double *out) {
    const hn_ref_sizes sizes = hn_variant_sizes_at(set->sizes, sample);
    hn_status status = hn_variant_cost(of, &set->items[variant].name, &sizes, out);
    if (hn_status_code(status) != HN_NOT_FOUND) return status;
    hn_status_free(status);
    *out = 0;
    return NULL;
}

hn_status hn_variants_over(const hn_variants_of *of, const hn_variant_sizes *sizes, uint32_t most,
                           hn_arena *arena, hn_variants *out) {
    hn_variants *here;
    choices all = {.count = 0};
    HN_NEW(arena, here, 1);
    *out = (hn_variants){.sizes = sizes};
    if (!most) most = MOST_BY_DEFAULT;
    for (uint32_t k = 0; k < sizes->count; k++) {
        const hn_ref_sizes at = hn_variant_sizes_at(sizes, k);
        HN_TRY(hn_variants_list(of, &at, most, arena, here));
        for (uint32_t v = 0; v < here->count; v++)
            HN_TRY(add_choice(arena, &all, &here->items[v], v));
    }
    take_choices(&all, out);
    HN_NEW(arena, out->ns, (size_t)sizes->count * out->count + 1u);
    for (uint32_t k = 0; k < sizes->count; k++)
        for (uint32_t v = 0; v < out->count; v++)
            HN_TRY(expect(of, out, v, k, &out->ns[(size_t)k * out->count + v]));
    return NULL;
}

void hn_variants_order(const hn_variants *set, uint32_t k, uint32_t *out) {
    const double *ns = &set->ns[(size_t)k * set->count];
    for (uint32_t v = 0; v < set->count; v++) {
        uint32_t at = v;
        for (; at > 0 && ns[v] != 0 && (ns[out[at - 1]] == 0 || ns[out[at - 1]] > ns[v]); at--)
            out[at] = out[at - 1];
        out[at] = v;
    }
}

hn_status hn_variants_times(const hn_variants *set, hn_arena *arena, hn_choice_times *out) {
    const size_t count = (size_t)set->sizes->count * set->count;
    hn_choice_time *times;
    HN_NEW(arena, times, count + 1);
    for (size_t k = 0; k < count; k++)
        times[k] = (hn_choice_time){set->ns[k], set->ns[k], set->ns[k]};
    *out = (hn_choice_times){.size_count = set->sizes->symbol_count,
                             .variant_count = set->count,
                             .sample_count = set->sizes->symbol_count ? set->sizes->count : 0,
                             .sizes = set->sizes->values,
                             .times = times,
                             .fallback = set->sizes->symbol_count ? HN_CHOICE_ANY : 0};
    return NULL;
}
