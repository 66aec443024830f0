/* plan_gpu_check.h: for tests of the planner for groups of threads: every layout that it offers for
 * a graph, run by the interpreter, against the graph's interpreter. */
#ifndef HN_TESTS_PLAN_GPU_CHECK_H
#define HN_TESTS_PLAN_GPU_CHECK_H

#include "base/compiler.h"
#include "kernel/plan_gpu.h"
#include "lower/lower.h"
#include "tests/support/form_run.h"
#include "tests/support/imaginary_gpu.h"
#include "tests/support/random_graph.h"
#include "unit/harness.h"

#include <inttypes.h>
#include <string.h>

/* Short rows are long for it: several blocks keep them. */
static const hn_gpu_facts gpu_of_clusters = HN_TEST_GPU(64, 8);

/* Takes plan number `number`, or the last one where there are fewer. */
typedef struct chooser {
    int64_t hint; /* of s0 while it plans; 0: as it is */
    uint32_t number;
    bool any;        /* a kernel has such a plan */
    bool has_slabs;  /* a kernel takes slabs of rows */
    bool clusters;   /* for gpu_of_clusters */
    bool has_blocks; /* a form has groups of several blocks */
    uint32_t reads;  /* MOVEs from arguments in the last form */
    uint32_t wide;   /* MOVEs of several elements from or to arguments */
    uint32_t in_order, resident;
    uint32_t staged;           /* plans with staged memory; */
    int64_t slabs;             /* the fewest groups that one of them has, if that is a number */
    bool any_wide;             /* some form has wide ones */
    bool is_online;            /* some form scales what a register has summed */
    int64_t shared;            /* bytes of it, if threads read no registers of others */
    int64_t kept;              /* elements of a thread's own memory, the most in any form */
    const hn_gpu_facts *facts; /* NULL: those of the tests */
} chooser;

static uint32_t count_reads(const hn_form *f) {
    uint32_t count = 0;
    for (hn_fid s = 1; s < f->stmts.count; s++)
        count += f->stmts.items[s].kind == HN_FORM_MOVE &&
                 f->memories.items[f->stmts.items[s].from].space == HN_SPACE_ARGUMENT;
    return count;
}

static uint32_t count_wide(const hn_form *f) {
    uint32_t count = 0;
    for (hn_fid s = 1; s < f->stmts.count; s++) {
        const hn_form_stmt *stmt = &f->stmts.items[s];
        count += stmt->kind == HN_FORM_MOVE && stmt->count > 1 &&
                 (f->memories.items[stmt->from].space == HN_SPACE_ARGUMENT ||
                  f->memories.items[stmt->memory].space == HN_SPACE_ARGUMENT);
    }
    return count;
}

/* Moves whose place in memory goes with one symbol through more than `elems` elements. */
static uint32_t count_in_order(const hn_form *f, int64_t elems) {
    uint32_t count = 0;
    for (hn_fid s = 1; s < f->stmts.count; s++) {
        const hn_form_stmt *stmt = &f->stmts.items[s];
        if (stmt->kind != HN_FORM_MOVE) continue;
        const bool writes = f->memories.items[stmt->memory].space == HN_SPACE_ARGUMENT;
        const hn_expr index = writes ? stmt->index : stmt->from_index;
        hn_expr symbols[4];
        int64_t low, high;
        hn_sym_range(f->sym, index, &low, &high);
        count += high >= elems && hn_sym_symbols(f->sym, index, symbols, 4) == 1;
    }
    return count;
}

static bool sets_sum(const hn_form *f) {
    for (hn_fid s = 1; s < f->stmts.count; s++)
        if (f->stmts.items[s].kind == HN_FORM_SET &&
            f->registers.items[f->stmts.items[s].reg].op == HN_OP_SUM)
            return true;
    return false;
}

static int64_t bytes_of(hn_dtype d) { return hn_dtype_facts(d)->size_bytes; }

/* What a form takes of the shared memory of a group, where threads read no registers of others. */
static int64_t shared_bytes(const hn_form *f) {
    int64_t all = 0, elems = 0;
    for (hn_fmem m = 1; m < f->memories.count; m++)
        if (f->memories.items[m].space == HN_SPACE_SHARED &&
            hn_sym_is_int(f->sym, f->memories.items[m].elems, &elems))
            all += elems * bytes_of(f->memories.items[m].dtype);
    for (hn_fid s = 1; s < f->stmts.count; s++) {
        const hn_form_stmt *stmt = &f->stmts.items[s];
        const hn_form_register *r = &f->registers.items[stmt->reg];
        if (stmt->kind != HN_FORM_ACROSS && stmt->kind != HN_FORM_BEFORE) continue;
        all += f->threads * (bytes_of(r->dtype) + (hn_op_keeps_position(r->op) ? 8 : 0));
    }
    return all;
}

static int64_t kept_elems(const hn_form *f) {
    int64_t most = 0, elems;
    for (hn_fmem m = 1; m < f->memories.count; m++)
        if (f->memories.items[m].space == HN_SPACE_PRIVATE &&
            hn_sym_is_int(f->sym, f->memories.items[m].elems, &elems) && elems > most)
            most = elems;
    return most;
}

static const hn_gpu_facts *facts_of(const chooser *c) {
    return c->facts ? c->facts : c->clusters ? &gpu_of_clusters : &hn_test_gpu;
}

static bool is_staged(const hn_form *f) {
    for (hn_fmem m = 1; m < f->memories.count; m++)
        if (f->memories.items[m].space == HN_SPACE_STAGED) return true;
    return false;
}

static void note_staged(const hn_form *f, chooser *c) {
    int64_t groups;
    c->staged++;
    if (hn_sym_is_int(f->sym, f->grid, &groups) && (c->slabs == 0 || groups < c->slabs))
        c->slabs = groups;
}

static hn_status choose(void *context, const hn_program *p, const hn_kernel *k, hn_arena *arena,
                        hn_arena *scratch, hn_form **out) {
    chooser *c = context;
    hn_form *plans[HN_GPU_PLANS_MAX];
    uint32_t count = 0;
    if (c->hint)
        hn_sym_set_hint(p->sym, hn_sym_symbol(p->sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, 4096),
                        c->hint);
    HN_TRY(hn_form_plans_gpu(p, k, facts_of(c), HN_GPU_PLANS_MAX, arena, scratch, plans, &count));
    if (!count) return HN_ERROR(HN_INTERNAL, "the planner offers nothing");
    c->any |= c->number < count;
    c->has_slabs |= k->slabs > 0;
    *out = plans[c->number < count ? c->number : count - 1];
    c->has_blocks |= (*out)->blocks > 1;
    c->reads = count_reads(*out);
    c->wide = count_wide(*out);
    c->in_order = count_in_order(*out, 84);
    c->resident = (*out)->resident;
    c->any_wide |= c->wide > 0;
    c->is_online |= sets_sum(*out);
    c->shared = shared_bytes(*out);
    if (kept_elems(*out) > c->kept) c->kept = kept_elems(*out);
    if (is_staged(*out)) note_staged(*out, c);
    return NULL;
}

static hn_status check_graph(hn_arena *arena, hn_graph *graph, chooser *c) {
    const hn_gpu_facts *facts = facts_of(c);
    const hn_forms_check how = {
        .plan = choose,
        .context = c,
        .facts = facts,
        .schedule = {.threads = facts->multiprocessors, .limits = &facts->limits}};
    double tolerance[HN_RANDOM_MAX_TENSORS];
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    hn_forms_count count;
    for (int k = 0; k < HN_RANDOM_MAX_TENSORS; k++) tolerance[k] = 1e-3;
    HN_TRY(hn_random_inputs(5, arena, graph, 0, inputs));
    return hn_check_forms(graph, inputs, tolerance, &how, &count);
}

HN_UNUSED static hn_status check(const char *statements, chooser *c) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_arena_init(&arena);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", statements);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_parse(&arena, sym, hn_strbuf_str(&text), &graph);
    if (!status) status = check_graph(&arena, graph, c);
    if (graph) hn_graph_deinit(graph);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
    return status;
}

HN_UNUSED static void check_plans(const char *graph, int rows, int columns, chooser *c) {
    char text[2048];
    snprintf(text, sizeof text, graph, rows, columns);
    for (c->any = true; c->any; c->number++) {
        c->any = false;
        hn_status status = check(text, c);
        if (status)
            HN_TEST_FAIL("%d x %d, plan %u: %s\n%s", rows, columns, c->number,
                         hn_status_message(status), text);
        hn_status_free(status);
        if (c->number > HN_GPU_PLANS_MAX) break;
    }
}

/* A graph for rows x columns; %1$d and %2$d are the two. */
HN_UNUSED static void check_sizes(const char *graph, int rows, int columns) {
    chooser c = {0};
    check_plans(graph, rows, columns, &c);
}

/* The same where blocks share rows: some plan has such groups. */
HN_UNUSED static void check_clusters(const char *graph, int rows, int columns) {
    chooser c = {.clusters = true};
    check_plans(graph, rows, columns, &c);
    if (!c.has_blocks) HN_TEST_FAIL("%d x %d: no group is several blocks", rows, columns);
}

#endif
