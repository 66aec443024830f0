/* Products with regrouped and repeated batches, outer products and biases, against the
 * interpreter. */
#include "unit/opt/equivalence.h"

static const eq_options rounding = {.rtol = 1e-5, .atol = 1e-6, .finite = true};

/* Runs patterns alone; `op` is left `count` times, and `nodes` nodes in all. */
static void expect_left(const char *text, hn_op op, uint32_t count, uint32_t nodes) {
    eq_graph before, after;
    bool parsed = eq_parse(&before, text);
    if (eq_parse(&after, text) && parsed) {
        EXPECT_OK(eq_run_pass(&after, hn_pass_patterns, false));
        if (eq_count(after.g, op) != count || after.g->nodes.count - 1 != nodes)
            HN_TEST_FAIL("%s\nleaves %u nodes, %u of them '%s'; expected %u and %u", text,
                         after.g->nodes.count - 1, eq_count(after.g, op), hn_op_facts(op)->name,
                         nodes, count);
        eq_expect_same(&before, &after, text, &rounding);
    }
    eq_end(&before);
    eq_end(&after);
}

TEST(outer_products) {
    expect_left(
        "graph { input user %a : f32[5, 1] \"a\" input user %b : f32[1, 7] \"b\" input user %c : f32[7] \"c\""
        "%y = matmul(%a, %b, %c) output user %y \"\" }",
        HN_OP_MATMUL, 0, 2);
    expect_left(
        "graph { input user %a : i32[2, 5, 1] \"a\" input user %b : i32[2, 1, 7] \"b\" %y = matmul(%a, %b, none) output user %y \"\" }",
        HN_OP_MUL, 1, 1);
    expect_left(
        "graph { symbol size s0 in [1, 8] hint 1 input user %a : f32[5, s0] \"a\" input user %b : f32[s0, 7] \"b\""
        "%y = matmul(%a, %b, none) output user %y \"\" }",
        HN_OP_MATMUL, 1, 1);
}

TEST(repeated_right_sides) {
    expect_left(
        "graph { input user %x : f32[2, 3, 5, 4] \"x\" input user %w : f32[1, 1, 4, 7] \"w\" %e = expand(%w, sizes=[2, 3, 4, 7])"
        "%y = matmul(%x, %e, none) output user %y \"\" }",
        HN_OP_EXPAND, 0, 4);
    /* with a row as bias, and with one that differs from row to row */
    expect_left(
        "graph { input user %x : f32[2, 5, 4] \"x\" input user %w : f32[1, 4, 7] \"w\" input user %b : f32[1, 1, 7] \"b\" %e = expand(%w, sizes=[2, 4, 7])"
        "%y = matmul(%x, %e, %b) output user %y \"\" }",
        HN_OP_EXPAND, 0, 5);
    expect_left(
        "graph { input user %x : f32[2, 5, 4] \"x\" input user %w : f32[1, 4, 7] \"w\" input user %b : f32[5, 7] \"b\" %e = expand(%w, sizes=[2, 4, 7])"
        "%y = matmul(%x, %e, %b) output user %y \"\" }",
        HN_OP_EXPAND, 1, 2);
    /* repeated in part; the left side repeated; a left side that would be copied */
    expect_left(
        "graph { input user %x : f32[2, 3, 5, 4] \"x\" input user %w : f32[2, 1, 4, 7] \"w\" %e = expand(%w, sizes=[2, 3, 4, 7])"
        "%y = matmul(%x, %e, none) output user %y \"\" }",
        HN_OP_EXPAND, 1, 2);
    expect_left(
        "graph { input user %x : f32[1, 5, 4] \"x\" input user %w : f32[2, 4, 7] \"w\" %e = expand(%x, sizes=[2, 5, 4])"
        "%y = matmul(%e, %w, none) output user %y \"\" }",
        HN_OP_EXPAND, 1, 2);
    expect_left(
        "graph { input user %x : f32[5, 2, 4] \"x\" input user %w : f32[1, 4, 7] \"w\" %t = permute(%x, dims=[1, 0, 2]) %e = expand(%w, sizes=[2, 4, 7])"
        "%y = matmul(%t, %e, none) output user %y \"\" }",
        HN_OP_EXPAND, 1, 3);
}

TEST(merged_batches) {
    expect_left(
        "graph { symbol size s0 in [2, 8] hint 2 input user %x : f32[s0, 5, 3, 4] \"x\" input user %z : f32[s0, 6, 3, 4] \"z\""
        "%xp = permute(%x, dims=[0, 2, 1, 3]) %zp = permute(%z, dims=[0, 2, 3, 1]) %a = reshape(%xp, sizes=[3*s0, 5, 4]) %b = reshape(%zp, sizes=[3*s0, 4, 6])"
        "%y = matmul(%a, %b, none) %r = reshape(%y, sizes=[s0, 3, 5, 6]) output user %r \"\" }",
        HN_OP_RESHAPE, 0, 3);
    /* a batch that is one block of memory is fine as it is */
    expect_left(
        "graph { input user %x : f32[2, 3, 5, 4] \"x\" input user %w : f32[6, 4, 7] \"w\" %a = reshape(%x, sizes=[6, 5, 4])"
        "%y = matmul(%a, %w, none) output user %y \"\" }",
        HN_OP_RESHAPE, 1, 2);
    /* rows merged into the batch are no regrouping */
    expect_left(
        "graph { input user %x : f32[4, 5, 6] \"x\" input user %w : f32[30, 4, 7] \"w\" %p = permute(%x, dims=[2, 1, 0]) %a = reshape(%p, sizes=[30, 1, 4])"
        "%y = matmul(%a, %w, none) output user %y \"\" }",
        HN_OP_RESHAPE, 1, 3);
}

TEST(biases) {
#define PRODUCT                                                                                    \
    "graph { input user %x : f32[6, 4] \"x\" input user %w : f32[4, 7] \"w\" input user %b : f32[7] \"b\" input user %c : f32[1, 7] \"c\" %y = matmul(%x, %w, none) "
    expect_left(PRODUCT "%z = add(%y, %b) output user %z \"\" }", HN_OP_ADD, 0, 1);
    expect_left(PRODUCT "%z = add(%c, %y) output user %z \"\" }", HN_OP_ADD, 0, 2);
    expect_left(PRODUCT "%r = reshape(%y, sizes=[2, 3, 7]) %z = add(%r, %b) output user %z \"\" }",
                HN_OP_ADD, 0, 2);
    /* the result grows; the columns change; a second bias; a number; subtracted */
    expect_left(
        PRODUCT
        "%r = reshape(%y, sizes=[1, 6, 7]) %s = reshape(%b, sizes=[1, 1, 7]) %e = expand(%s, sizes=[2, 1, 7]) %z = add(%r, %e) output user %z \"\" }",
        HN_OP_ADD, 1, 5);
    expect_left(
        PRODUCT
        "%r = reshape(%y, sizes=[3, 14]) %d = cat([%b, %b], dim=0) %z = add(%r, %d) output user %z \"\" }",
        HN_OP_ADD, 1, 4);
    expect_left(PRODUCT "%z = add(%y, %b) %t = add(%z, %b) output user %t \"\" }", HN_OP_ADD, 1, 2);
    expect_left(PRODUCT
                "%k = full(value=2.0, sizes=[7], dtype=f32) %z = add(%y, %k) output user %z \"\" }",
                HN_OP_ADD, 1, 3);
    expect_left(PRODUCT "%z = sub(%y, %b) output user %z \"\" }", HN_OP_SUB, 1, 2);
    /* the product is read elsewhere */
    expect_left(PRODUCT "%z = add(%y, %b) output user %z \"\" output user %y \"\" }", HN_OP_ADD, 1,
                2);
    expect_left(
        PRODUCT
        "%r = reshape(%y, sizes=[2, 3, 7]) %z = add(%r, %b) %e = exp(%r) output user %z \"\" output user %e \"\" }",
        HN_OP_ADD, 1, 4);
    expect_left(PRODUCT "%z = add(%y, %y) output user %z \"\" }", HN_OP_ADD, 1, 2);
}

TEST(subgraphs) {
    static const char text[] =
        "graph { input user %p : bool[] \"p\" input user %x : f32[6, 4] \"x\" input user %w : f32[4, 7] \"w\" input user %b : f32[7] \"b\""
        "%y = cond(%p, then=graph { input user %a : f32[6, 4] \"\" input user %c : f32[4, 7] \"\" input user %d : f32[7] \"\""
        "%m = matmul(%a, %c, none) %n = add(%m, %d) output user %n \"\" }, otherwise=graph { input user %a : f32[6, 4] \"\" input user %c : f32[4, 7] \"\""
        "input user %d : f32[7] \"\" %m = matmul(%a, %c, %d) output user %m \"\" }, operands=[%x, %w, %b]) : f32[6, 7] output user %y \"\" }";
    expect_left(text, HN_OP_COND, 1, 1);
    eq_graph e;
    if (eq_parse(&e, text)) {
        EXPECT_OK(eq_run_pass(&e, hn_pass_patterns, false));
        const hn_node_info *cond = eq_find(e.g, HN_OP_COND);
        EXPECT(cond && eq_count(cond->args[1].as.graph, HN_OP_ADD) == 0);
    }
    eq_end(&e);
}

TEST_MAIN
