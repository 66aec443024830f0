/* Operator nodes that contradict themselves: the stored cases with one operand of another rank, or
 * one number out of all bounds. A decomposition may refuse them in any words, or even find a
 * meaning, but must not crash, overflow or hang. Nothing is executed. */
#include "ops/cases.h"
#include "unit/harness.h"

static const char *const FAMILIES[] = {"matmul",  "conv", "pool",     "norm",
                                       "softmax", "loss", "backward", "index",
                                       "scatter", "sort", "upsample", "random"};

typedef enum damage {
    DAMAGE_NO_DIMS,
    DAMAGE_FEWER_DIMS,
    DAMAGE_MORE_DIMS,
    DAMAGE_NUMBER,
    DAMAGE_COUNT
} damage;

static const int64_t NUMBERS[] = {-1, 0, 3, INT32_MAX, INT64_MAX, INT64_MIN};

static void damage_rank(hn_ref_tensor *t, damage kind) {
    if (kind == DAMAGE_NO_DIMS) t->rank = 0;
    if (kind == DAMAGE_FEWER_DIMS && t->rank) t->rank--;
    if (kind == DAMAGE_MORE_DIMS && t->rank < HN_MAX_RANK) t->sizes[t->rank++] = 2;
}

/* Puts `number` in place of the first numbers and list elements of argument `k`. */
static void damage_number(hn_graph *g, hn_arg *arg, int64_t number) {
    hn_expr *changed;
    if (arg->kind == HN_ARG_INT) arg->as.expr = hn_sym_int(g->sym, number);
    if (arg->kind == HN_ARG_FLOAT) arg->as.f = (double)number;
    if (arg->kind != HN_ARG_INTS || arg->count == 0) return;
    hn_status status = hn_arena_array(g->arena, arg->count, sizeof *changed, &changed);
    if (!status) {
        memcpy(changed, arg->as.exprs, arg->count * sizeof *changed);
        changed[0] = hn_sym_int(g->sym, number);
        arg->as.exprs = changed;
    }
    hn_status_free(status);
}

/* Decomposes the case of a line with damage `kind` to operand or argument `at`; false when there is
 * no such. */
static bool run_damaged(hn_arena *arena, hn_str line, damage kind, uint32_t at, int64_t number) {
    op_case *c = hn_arena_alloc(arena, sizeof *c);
    hn_graph *g = NULL;
    hn_status status = c ? case_read(arena, line, c) : NULL;
    bool exists = !status && (kind == DAMAGE_NUMBER || at < c->input_count);
    if (exists && kind != DAMAGE_NUMBER) damage_rank(&c->inputs[at].ref, kind);
    if (exists) status = case_graph(arena, c, &g);
    if (exists && !status && kind == DAMAGE_NUMBER) {
        hn_node_info *node = hn_graph_node(g, 1);
        exists = at < node->arg_count;
        if (exists) damage_number(g, &node->args[at], number);
    }
    if (exists && !status) status = case_decompose(arena, g);
    hn_status_free(status);
    if (g) hn_graph_deinit(g);
    hn_arena_reset(arena);
    return exists;
}

static uint32_t damage_line(hn_arena *arena, hn_str line) {
    uint32_t count = 0;
    for (damage kind = 0; kind < DAMAGE_NUMBER; kind++)
        for (uint32_t at = 0; run_damaged(arena, line, kind, at, 0); at++) count++;
    for (size_t k = 0; k < sizeof NUMBERS / sizeof *NUMBERS; k++)
        for (uint32_t at = 0; run_damaged(arena, line, DAMAGE_NUMBER, at, NUMBERS[k]); at++)
            count++;
    return count;
}

/* The first case of each operator in a file. */
static uint32_t damage_family(const char *family) {
    char path[256], last[96] = "";
    hn_strbuf text;
    hn_arena arena;
    uint32_t count = 0;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    snprintf(path, sizeof path, "tests/ops/cases/%s.txt", family);
    EXPECT_OK(hn_file_read(path, &text));
    const char *at = text.ptr, *end = text.ptr ? text.ptr + text.len : NULL;
    while (at && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        hn_str line = {at, (size_t)((stop ? stop : end) - at)};
        at = stop ? stop + 1 : end;
        const char *op_end = line.len ? memchr(line.ptr + 7, '"', line.len - 7) : NULL;
        size_t len = op_end ? (size_t)(op_end - line.ptr) : 0;
        if (len == 0 || len >= sizeof last || strncmp(last, line.ptr, len) == 0) continue;
        memcpy(last, line.ptr, len);
        last[len] = 0;
        count += damage_line(&arena, line);
    }
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
    return count;
}

TEST(no_damage_crashes) {
    uint32_t count = 0;
    for (size_t k = 0; k < sizeof FAMILIES / sizeof *FAMILIES; k++)
        count += damage_family(FAMILIES[k]);
    EXPECT(count > 2000);
}

TEST_MAIN
