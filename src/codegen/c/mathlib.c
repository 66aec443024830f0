/* mathlib.c: the head of a translation unit: types, macros, and those snippets that its kernels
 * call. */
#include "codegen/c/mathlib.h"

#include "base/compiler.h"
#include "ir/dtype.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *vector_type(hn_dtype d) {
    switch (d) {
    case HN_DTYPE_F64: return "vd";
    case HN_DTYPE_F32:
    case HN_DTYPE_F16:
    case HN_DTYPE_BF16: return "vf";
    case HN_DTYPE_I64: return "vl";
    default: return "vi";
    }
}

/* One id for each name: the plain snippets, then patterns times dtypes. */
static uint32_t id_count(void) { return c_snippet_count + c_pattern_count * HN_DTYPE_COUNT; }

/* Names to ids by open addressing; made once. */
enum { SLOTS = 1024, MAX_NAME = 32 };
static struct {
    pthread_once_t once;
    struct {
        char name[MAX_NAME];
        int32_t id;
    } slots[SLOTS]; /* an empty name: free */
} table = {.once = PTHREAD_ONCE_INIT};

static uint32_t slot_of(const char *name, size_t len) {
    uint32_t hash = 2166136261u;
    for (size_t k = 0; k < len; k++) hash = (hash ^ (unsigned char)name[k]) * 16777619u;
    return (hash ^ hash >> 15) % SLOTS;
}

static void enter(const char *first, const char *second, uint32_t id) {
    char name[MAX_NAME];
    int len = snprintf(name, sizeof name, "%s%s", first, second);
    assert(len > 0 && len < MAX_NAME);
    uint32_t at = slot_of(name, (size_t)len);
    while (table.slots[at].name[0]) {
        /* a plain snippet goes before a pattern */
        if (strcmp(table.slots[at].name, name) == 0) return;
        at = (at + 1) % SLOTS;
    }
    memcpy(table.slots[at].name, name, sizeof name);
    table.slots[at].id = (int32_t)id;
}

static void fill_table(void) {
    assert(2 * id_count() < SLOTS);
    for (uint32_t k = 0; k < c_snippet_count; k++) enter(c_snippets[k].name, "", k);
    for (uint32_t k = 0; k < c_pattern_count; k++)
        for (uint32_t d = 1; d < HN_DTYPE_COUNT; d++)
            enter(c_patterns[k].name, hn_dtype_facts((hn_dtype)d)->name,
                  c_snippet_count + k * HN_DTYPE_COUNT + d);
}

static int find(const char *name, size_t len) {
    for (uint32_t at = slot_of(name, len); len < MAX_NAME && table.slots[at].name[0];
         at = (at + 1) % SLOTS)
        if (memcmp(table.slots[at].name, name, len) == 0 && !table.slots[at].name[len])
            return table.slots[at].id;
    return -1;
}

static void expand(int id, hn_strbuf *out) {
    if (id < (int)c_snippet_count) {
        hn_strbuf_puts(out, c_snippets[id].text);
        return;
    }
    hn_dtype d = (hn_dtype)((id - (int)c_snippet_count) % HN_DTYPE_COUNT);
    const hn_dtype_info *info = hn_dtype_facts(d);
    for (const char *c = c_patterns[(id - (int)c_snippet_count) / HN_DTYPE_COUNT].text; *c; c++) {
        if (*c != '@') {
            hn_strbuf_putc(out, *c);
            continue;
        }
        c++;
        hn_strbuf_puts(out, *c == 'T'   ? (d == HN_DTYPE_I64 ? "ll" : info->c_type)
                            : *c == 'V' ? vector_type(d)
                                        : info->name);
    }
}

static const hn_snippet_source snippets = {find, expand};

/* Loops over lanes, and what depends on the vectors' width: single instructions, where the compiler
 * has names for them, and how a vector is folded in halves (TREE: `b` is `a` with its halves,
 * quarters... exchanged). */
static const char widths[] =
    "#define LANES _Pragma(\"GCC unroll 16\") for (int k = 0; k < VF; k++)\n"
    "#define OUTSIDE(x, e) __builtin_expect((unsigned long long)(x) >= (unsigned long long)(e), 0)\n"
    "#if defined(__AVX512F__) && VF == 16 && !defined(__clang__)\n"
    "#define MIN_PS(a, b) ((vf)__builtin_ia32_minps512_mask(a, b, a, -1, 4))\n"
    "#define MAX_PS(a, b) ((vf)__builtin_ia32_maxps512_mask(a, b, a, -1, 4))\n"
    "#define STREAM_PS(p, v) __builtin_ia32_movntps512(p, v)\n"
    "#elif defined(__AVX__) && VF == 8 && !defined(__clang__)\n"
    "#define MIN_PS(a, b) ((vf)__builtin_ia32_minps256(a, b))\n"
    "#define MAX_PS(a, b) ((vf)__builtin_ia32_maxps256(a, b))\n"
    "#define STREAM_PS(p, v) __builtin_ia32_movntps256(p, v)\n"
    "#elif defined(__SSE__) && VF == 4 && !defined(__clang__)\n"
    "#define MIN_PS(a, b) ((vf)__builtin_ia32_minps(a, b))\n"
    "#define MAX_PS(a, b) ((vf)__builtin_ia32_maxps(a, b))\n"
    "#define STREAM_PS(p, v) __builtin_ia32_movntps(p, v)\n"
    "#endif\n"
    "#define FOLD(a, e, ...) { __typeof__(a) b = __builtin_shufflevector(a, a, __VA_ARGS__); a = e; }\n"
    "#if VF == 16\n"
    "#define TREE(a, e) FOLD(a, e, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)"
    " FOLD(a, e, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)"
    " FOLD(a, e, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)"
    " FOLD(a, e, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)\n"
    "#elif VF == 8\n"
    "#define TREE(a, e) FOLD(a, e, 4, 5, 6, 7, 0, 1, 2, 3) FOLD(a, e, 2, 3, 0, 1, 6, 7, 4, 5) FOLD(a, e, 1, 0, 3, 2, 5, 4, 7, 6)\n"
    "#else\n"
    "#define TREE(a, e) FOLD(a, e, 2, 3, 0, 1) FOLD(a, e, 1, 0, 3, 2)\n"
    "#endif\n";

void hn_c_prelude(hn_str text, uint32_t lanes, hn_strbuf *out) {
    hn_strbuf_printf(out, "#define VF %u\ntypedef long long ll;\n", lanes);
    static const struct {
        const char *name, *type;
        uint32_t bytes;
    } vectors[] = {
        {"vf", "float", 4},
        {"vd", "double", 8},
        {"vi", "int", 4},
        {"vl", "ll", 8},
    };
    for (size_t k = 0; k < HN_COUNT_OF(vectors); k++) {
        uint32_t bytes = vectors[k].bytes * lanes;
        hn_strbuf_printf(out, "typedef %s %s __attribute__((vector_size(%u)));\n", vectors[k].type,
                         vectors[k].name, bytes);
        hn_strbuf_printf(
            out, "typedef %s %su __attribute__((vector_size(%u), aligned(%u), may_alias));\n",
            vectors[k].type, vectors[k].name, bytes, vectors[k].bytes);
    }
    static const struct {
        const char *name, *type;
        uint32_t bytes;
    } narrow[] = {
        {"vsu", "short", 2},
        {"vwu", "unsigned short", 2},
        {"vcu", "signed char", 1},
        {"vbu", "unsigned char", 1},
    };
    for (size_t k = 0; k < HN_COUNT_OF(narrow); k++)
        hn_strbuf_printf(
            out, "typedef %s %s __attribute__((vector_size(%u), aligned(%u), may_alias));\n",
            narrow[k].type, narrow[k].name, narrow[k].bytes * lanes, narrow[k].bytes);
    hn_strbuf_puts(out, "#define RL(c) ");
    for (uint32_t k = 0; k < lanes; k++) hn_strbuf_puts(out, k ? ",c" : "c");
    hn_strbuf_puts(out, "\n#define IOTA_I ((vi){");
    for (uint32_t k = 0; k < lanes; k++) hn_strbuf_printf(out, k ? ",%u" : "%u", k);
    hn_strbuf_puts(out, "})\n#define IOTA_L ((vl){");
    for (uint32_t k = 0; k < lanes; k++) hn_strbuf_printf(out, k ? ",%u" : "%u", k);
    hn_strbuf_puts(out, "})\n");
    hn_strbuf_puts(out, widths);
    pthread_once(&table.once, fill_table);
    uint8_t done[SLOTS] = {0};
    hn_prelude_put(text, &snippets, done, out);
}
