/* The stored operator cases once more with symbolic sizes: every input dim of 2 or more becomes a
 * symbol, one for each distinct size, so that decompositions cannot lean on known numbers. The
 * answers must stay the same; what an operator cannot do without known sizes it must refuse in
 * words. */
#include "ops/cases.h"
#include "unit/harness.h"

typedef struct replay {
    hn_sym *sym;
    uint32_t passed, refused;
    hn_strbuf failures; /* lines */
    uint32_t failed;
} replay;

/* The symbol that stands for `size` everywhere. 0 and 1 stay numbers, as in exported programs. */
static hn_expr symbol_for(hn_sym *sym, int64_t size) {
    char name[32];
    if (size < 2) return hn_sym_int(sym, size);
    snprintf(name, sizeof name, "s%lld", (long long)size);
    hn_expr symbol = hn_sym_symbol(sym, hn_str_of(name), HN_SYMBOL_SIZE, 2, 1 << 20);
    hn_sym_set_hint(sym, symbol, size);
    return symbol;
}

static bool is_input_size(const op_case *c, int64_t size) {
    for (uint32_t k = 0; k < c->input_count; k++)
        for (uint32_t j = 0; j < c->inputs[k].ref.rank; j++)
            if (c->inputs[k].ref.sizes[j] == size) return true;
    return false;
}

/* Results have the symbols where an input has the size, as PyTorch would have recorded most of
 * them. */
static hn_value add_tensor(hn_graph *g, const op_case *c, const case_tensor *t, hn_str name) {
    hn_expr sizes[HN_MAX_RANK];
    for (uint32_t k = 0; k < t->ref.rank; k++)
        sizes[k] = is_input_size(c, t->ref.sizes[k]) ? symbol_for(g->sym, t->ref.sizes[k])
                                                     : hn_sym_int(g->sym, t->ref.sizes[k]);
    return hn_graph_add_tensor(g, t->ref.dtype, t->ref.rank, sizes, NULL, name);
}

static hn_status build(hn_arena *arena, op_case *c, hn_graph **out) {
    hn_sym *sym;
    HN_TRY(hn_sym_create(arena, &sym));
    HN_TRY(hn_graph_create(arena, sym, out));
    case_builder b = {.g = *out, .arena = arena, .input_count = c->input_count};
    for (uint32_t k = 0; k < c->input_count; k++) {
        hn_str name = hn_str_of(hn_arena_printf(arena, "x%u", k));
        b.inputs[k] = add_tensor(b.g, c, &c->inputs[k], name);
        HN_TRY(hn_graph_add_input(
            b.g, (hn_input){.kind = HN_INPUT_USER, .value = b.inputs[k], .name = name}));
    }
    hn_arg args[24];
    hn_value results[CASE_MAX_TENSORS];
    uint32_t arg_count = 0;
    HN_TRY(case_args(&b, c, args, &arg_count));
    for (uint32_t k = 0; k < c->output_count; k++)
        results[k] = add_tensor(b.g, c, &c->outputs[k], HN_STR("y"));
    hn_graph_add_node(b.g, c->op, args, arg_count, results, c->output_count);
    for (uint32_t k = 0; k < c->output_count; k++)
        HN_TRY(hn_graph_add_output(b.g, (hn_output){.kind = HN_OUTPUT_USER, .value = results[k]}));
    return hn_graph_status(b.g);
}

static hn_status run_line(hn_arena *arena, hn_str line) {
    op_case *c;
    hn_graph *g = NULL;
    HN_NEW(arena, c, 1);
    HN_TRY(case_read(arena, line, c));
    hn_ref_tensor inputs[CASE_MAX_TENSORS], outputs[CASE_MAX_TENSORS] = {{0}};
    for (uint32_t k = 0; k < c->input_count; k++) {
        if (c->inputs[k].has_strides) return NULL; /* these are about strides */
        inputs[k] = c->inputs[k].ref;
    }
    hn_status status = build(arena, c, &g);
    if (!status) status = case_decompose(arena, g);
    if (!status) status = hn_interpret(arena, g, inputs, c->input_count, outputs);
    if (!status) status = case_check(c, outputs);
    if (g) hn_graph_deinit(g);
    return hn_status_annotate(status, HN_STR_FMT, HN_STR_ARG(c->op_name));
}

static void note(replay *r, const char *family, uint32_t number, hn_status status) {
    if (!status) {
        r->passed++;
    } else if (hn_status_code(status) == HN_UNSUPPORTED) {
        r->refused++;
    } else {
        r->failed++;
        hn_strbuf_printf(&r->failures, "%s.txt:%u: %s\n", family, number,
                         hn_status_message(status));
    }
    hn_status_free(status);
}

static void replay_family(const char *family, uint32_t expect_refused) {
    char path[256];
    hn_strbuf text;
    hn_arena arena;
    replay r = {0};
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    hn_strbuf_init(&r.failures);
    snprintf(path, sizeof path, "tests/ops/cases/%s.txt", family);
    EXPECT_OK(hn_file_read(path, &text));
    const char *at = text.ptr, *end = text.ptr ? text.ptr + text.len : NULL;
    for (uint32_t number = 1; at && at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        hn_str line = {at, (size_t)((stop ? stop : end) - at)};
        at = stop ? stop + 1 : end;
        if (line.len) note(&r, family, number, run_line(&arena, line));
        hn_arena_reset(&arena);
    }
    if (r.failed)
        HN_TEST_FAIL("%u cases of '%s' fail with symbolic sizes:\n%s", r.failed, family,
                     r.failures.ptr);
    EXPECT_INT(r.refused, expect_refused);
    EXPECT(r.passed > 0);
    hn_strbuf_deinit(&r.failures);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

TEST(matmul_replays) { replay_family("matmul", 0); }
TEST(conv_replays) { replay_family("conv", 10); } /* "same" needs the kernel's size */
TEST(pool_replays) { replay_family("pool", 0); }
TEST(norm_replays) { replay_family("norm", 0); }
/* the default scale of attention needs the head size */
TEST(softmax_replays) { replay_family("softmax", 23); }
TEST(loss_replays) { replay_family("loss", 0); }
TEST(backward_replays) { replay_family("backward", 0); }
TEST(index_replays) { replay_family("index", 0); }
TEST(scatter_replays) { replay_family("scatter", 0); }
TEST(sort_replays) { replay_family("sort", 0); }
TEST(upsample_replays) { replay_family("upsample", 0); }
TEST(attention_replays) { replay_family("attention", 7); } /* likewise */
TEST(random_replays) { replay_family("random", 5); }       /* likewise */

TEST_MAIN
