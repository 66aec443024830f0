/* sort.c: stable sort and top-k along rows.
 *
 * Each element becomes an unsigned key whose order is the wanted one: NaN is one key, above all;
 * both zeros are one key; a descending order inverts the bits. With its position behind it, no two
 * items are equal, so every method is stable. Long rows are sorted by digits of the key, from the
 * last one (radix), short ones by insertion and merging. Top-k keeps the best of what it has seen,
 * and throws out the worse half when its buffer is full: one pass over the row.
 *
 * Threads take whole rows. */
#include "ops/cpu/sort/sort.h"

#include "henry/tensor.h"

#include <string.h>

enum {
    VALUES = 0,
    INDICES = 1,
    X = 2,
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
    SHORT_ROW = 256,
    INSERTION = 16,
    PARALLEL_ITEMS = 4096
};

typedef struct item {
    uint64_t key;
    int64_t at;
} item;

typedef struct sort_state {
    int64_t outer, n, inner, k;
    uint8_t dtype;
    /* select: only the first k of the order are wanted, and they are few */
    bool descending, select;
    int key_bits, threads;
    int64_t row_items; /* scratch of a thread */
} sort_state;

/* ---- keys ---- */

static uint64_t float_key(uint64_t bits, int width, uint64_t infinity) {
    const uint64_t sign = (uint64_t)1 << (width - 1), magnitude = bits & (sign - 1),
                   all = sign | (sign - 1);
    if (magnitude > infinity) return all; /* NaN */
    if (magnitude == 0) return sign;      /* +0 and -0 */
    return bits & sign ? ~bits & all : bits | sign;
}

static uint64_t key_at(uint8_t dtype, const void *x, int64_t at) {
    uint64_t bits = 0;
    switch (dtype) {
    case HN_F64:
        memcpy(&bits, (const char *)x + 8 * at, 8);
        return float_key(bits, 64, 0x7ff0000000000000);
    case HN_F32: memcpy(&bits, (const char *)x + 4 * at, 4); return float_key(bits, 32, 0x7f800000);
    case HN_F16: return float_key(((const uint16_t *)x)[at], 16, 0x7c00);
    case HN_BF16: return float_key(((const uint16_t *)x)[at], 16, 0x7f80);
    case HN_I64: return ((const uint64_t *)x)[at] ^ (uint64_t)1 << 63;
    case HN_I32: return ((const uint32_t *)x)[at] ^ (uint32_t)1 << 31;
    case HN_I16: return ((const uint16_t *)x)[at] ^ 0x8000u;
    case HN_I8: return ((const uint8_t *)x)[at] ^ 0x80u;
    default: return ((const uint8_t *)x)[at];
    }
}

/* Byte order is that of the machine: memcpy of 4 bytes into a zeroed u64 must fill its low half. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "keys are read on little-endian machines");

/* [count] items of the row that begins at element `at` and goes on in steps. */
static void load_items(const sort_state *s, const void *x, int64_t at, int64_t first, int64_t count,
                       item *out) {
    const uint64_t flip =
        s->descending ? (s->key_bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << s->key_bits) - 1) : 0;
    at += first * s->inner;
#define LOAD(DTYPE)                                                                                \
    case DTYPE:                                                                                    \
        for (int64_t j = 0; j < count; j++, at += s->inner)                                        \
            out[j] = (item){key_at(DTYPE, x, at) ^ flip, first + j};                               \
        return;
    switch (s->dtype) { /* once for each row, so that the loop has no branches on the dtype */
        LOAD(HN_F64)
        LOAD(HN_F32)
        LOAD(HN_F16)
        LOAD(HN_BF16)
        LOAD(HN_I64)
        LOAD(HN_I32)
        LOAD(HN_I16)
        LOAD(HN_I8)
        LOAD(HN_U8)
    }
#undef LOAD
}

/* ---- sorting ---- */

static bool before(item a, item b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }

static void insertion_sort(item *x, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        item moved = x[i];
        int64_t j = i;
        for (; j > 0 && before(moved, x[j - 1]); j--) x[j] = x[j - 1];
        x[j] = moved;
    }
}

/* Runs of INSERTION items, then merges between the two buffers. Returns the one with the result. */
static item *merge_sort(item *x, item *spare, int64_t count) {
    for (int64_t i = 0; i < count; i += INSERTION)
        insertion_sort(x + i, count - i < INSERTION ? count - i : INSERTION);
    for (int64_t run = INSERTION; run < count; run *= 2) {
        for (int64_t i = 0; i < count; i += 2 * run) {
            int64_t left = i, middle = i + run < count ? i + run : count, right = middle,
                    end = i + 2 * run < count ? i + 2 * run : count;
            for (int64_t o = i; o < end; o++)
                spare[o] = left < middle && (right == end || before(x[left], x[right]))
                               ? x[left++]
                               : x[right++];
        }
        item *t = x;
        x = spare, spare = t;
    }
    return x;
}

/* Items come in the order of their positions, which each pass keeps among equal digits. */
static item *radix_sort(item *x, item *spare, int64_t count, int key_bits) {
    for (int shift = 0; shift < key_bits; shift += DIGIT_BITS) {
        int64_t start[DIGITS] = {0}, at = 0;
        for (int64_t i = 0; i < count; i++) start[x[i].key >> shift & (DIGITS - 1)]++;
        if (start[x[0].key >> shift & (DIGITS - 1)] == count) continue; /* one digit for all */
        for (int d = 0; d < DIGITS; d++) {
            int64_t n = start[d];
            start[d] = at, at += n;
        }
        for (int64_t i = 0; i < count; i++) spare[start[x[i].key >> shift & (DIGITS - 1)]++] = x[i];
        item *t = x;
        x = spare, spare = t;
    }
    return x;
}

static item *sort_items(const sort_state *s, item *x, item *spare, int64_t count, bool in_order) {
    if (count <= SHORT_ROW || !in_order) return merge_sort(x, spare, count);
    return radix_sort(x, spare, count, s->key_bits);
}

/* Moves the `keep` first items of the order to the front, in any order. */
static void select_items(item *x, int64_t count, int64_t keep) {
    int64_t low = 0, high = count - 1;
    while (low < high) {
        item a = x[low], b = x[low + (high - low) / 2], c = x[high];
        item pivot = before(a, b) ? (before(b, c)   ? b
                                     : before(a, c) ? c
                                                    : a)
                                  : (before(a, c)   ? a
                                     : before(b, c) ? c
                                                    : b);
        int64_t i = low, j = high;
        while (i <= j) {
            while (before(x[i], pivot)) i++;
            while (before(pivot, x[j])) j--;
            if (i > j) break;
            item t = x[i];
            x[i++] = x[j], x[j--] = t;
        }
        if (keep - 1 <= j) high = j;
        else if (keep - 1 >= i) low = i;
        else return;
    }
}

static int64_t buffer_items(const sort_state *s) { return 2 * s->k + 1024; }

/* The first k of the order, sorted. */
static item *top_items(const sort_state *s, const void *x, int64_t at, item *buffer, item *spare) {
    const int64_t capacity = buffer_items(s), chunk = 512;
    int64_t count = 0;
    uint64_t worst = ~(uint64_t)0;
    for (int64_t first = 0; first < s->n; first += chunk) {
        int64_t length = s->n - first < chunk ? s->n - first : chunk;
        load_items(s, x, at, first, length, spare);
        for (int64_t i = 0; i < length; i++) {
            buffer[count] = spare[i];
            /* later ones among equals lose, and are thrown out below */
            count += spare[i].key <= worst;
        }
        if (count < capacity - chunk) continue;
        select_items(buffer, count, s->k);
        count = s->k;
        worst = 0;
        for (int64_t i = 0; i < count; i++)
            if (buffer[i].key > worst) worst = buffer[i].key;
    }
    select_items(buffer, count, s->k);
    return merge_sort(buffer, spare, s->k);
}

/* ---- the implementation ---- */

static void run_row(const hn_ext_call *call, int64_t row, item *buffer) {
    const sort_state *s = call->state;
    const size_t bytes = hn_scalar_type_bytes((hn_scalar_type)s->dtype);
    const int64_t o = row / s->inner, i = row % s->inner, base = o * s->n * s->inner + i;
    item *spare = buffer + s->row_items / 2, *order;
    if (s->select) {
        order = top_items(s, call->operands[X], base, buffer, spare);
    } else {
        load_items(s, call->operands[X], base, 0, s->n, buffer);
        order = sort_items(s, buffer, spare, s->n, true);
    }
    int64_t *indices = call->operands[INDICES];
    for (int64_t j = 0; j < s->k; j++) {
        int64_t to = (o * s->k + j) * s->inner + i, from = base + order[j].at * s->inner;
        memcpy((char *)call->operands[VALUES] + (size_t)to * bytes,
               (const char *)call->operands[X] + (size_t)from * bytes, bytes);
        indices[to] = order[j].at;
    }
}

typedef struct job {
    const hn_ext_call *call;
    item *scratch;
    int64_t next; /* row that nobody has taken */
} job;

static void sort_rows(void *context, int rank) {
    job *j = context;
    const sort_state *s = j->call->state;
    const int64_t rows = s->outer * s->inner;
    for (int64_t r; (r = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < rows;)
        run_row(j->call, r, j->scratch + rank * s->row_items);
}

static hn_status sort_run(const hn_ext_call *call, void *scratch) {
    const sort_state *s = call->state;
    const int64_t rows = s->outer * s->inner;
    if (rows == 0 || s->k == 0) return NULL;
    hn_team_run(call->team, s->threads, sort_rows, &(job){.call = call, .scratch = scratch});
    return NULL;
}

static hn_status sort_prepare(hn_ext_call *call) {
    const int64_t *p = call->params;
    sort_state s = {.outer = p[HN_SORT_OUTER],
                    .n = p[HN_SORT_N],
                    .inner = p[HN_SORT_INNER],
                    .k = p[HN_SORT_K],
                    .dtype = call->dtypes[X] == HN_BOOL ? HN_U8 : call->dtypes[X],
                    .descending = p[HN_SORT_DESCENDING] != 0,
                    .threads = call->threads};
    s.key_bits = 8 * (int)hn_scalar_type_bytes((hn_scalar_type)s.dtype);
    s.select = s.k < s.n / 8;
    int64_t rows = s.outer * s.inner, items = s.select ? buffer_items(&s) : s.n;
    if (s.n > INT64_MAX / 64 / call->threads)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the work space exceeds 63 bits");
    if (rows < 2 || s.n < PARALLEL_ITEMS / rows) s.threads = 1; /* one or all: see ext.h */
    s.row_items = 2 * (items < 512 ? 512 : items);
    HN_TRY(hn_ext_state_keep(call, &s, sizeof s));
    call->scratch_bytes = (size_t)s.threads * (size_t)s.row_items * sizeof(item);
    return NULL;
}

const hn_ext_impl hn_ext_sort = {
    .name = "sort", .prepare = sort_prepare, .run = sort_run, .release = hn_ext_state_free};
