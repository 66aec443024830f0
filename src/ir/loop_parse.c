/* loop_parse.c: reads the text form of loop IR. One recursive-descent reader; each function stands
 * for a rule of the grammar in docs/ir.md. What the verifier asks is asked piece by piece, so that
 * its errors name a line. */
#include "ir/facts.h"
#include "ir/layout_text.h"
#include "ir/loop_text.h"
#include "ir/sop_text.h"
#include "ir/text.h"

#include "base/checked.h"

typedef struct parser {
    hn_lex lex;
    hn_arena *arena;
    hn_sym *sym;
    hn_graph *g; /* origins and guards */
    hn_program *p;
    hn_text_facts_reader facts;
    hn_loop_checker check;
    bool checking; /* items have begun: there are no more buffers */
} parser;

static hn_status fail(parser *ps, const char *what) {
    return hn_lex_fail(&ps->lex, ps->lex.p, what);
}

/* --- expressions --- */

/* Outside of loops: of sizes alone. */
static hn_status read_size(parser *ps, hn_expr *out) {
    return hn_text_read_size(&ps->lex, ps->sym, out);
}

/* --- words --- */

/* What the ops of a body may refer to; NULL: outside of bodies. */
static hn_sop_reader sops(parser *ps, const hn_body *body) {
    return (hn_sop_reader){.lex = &ps->lex,
                           .sym = ps->sym,
                           .letter = 'b',
                           .memory_name = "buffer",
                           .memory_count = ps->p->buffers.count,
                           .value_count = body ? body->count : 0};
}

static hn_status read_buffer_name(parser *ps, hn_buf *out) {
    const hn_sop_reader r = sops(ps, NULL);
    return hn_sop_read_memory(&r, out);
}

/* b3[e], with `e` of sizes alone */
static hn_status read_place(parser *ps, hn_buf *out_buffer, hn_expr *out_offset) {
    HN_TRY(read_buffer_name(ps, out_buffer));
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    HN_TRY(read_size(ps, out_offset));
    return hn_lex_expect(&ps->lex, ']');
}

/* at "node" "source" */
static hn_status read_origin(parser *ps, uint32_t *out) {
    hn_origin origin;
    *out = 0;
    if (!hn_lex_accept_word(&ps->lex, "at")) return NULL;
    HN_TRY(hn_lex_string(&ps->lex, &origin.node));
    HN_TRY(hn_lex_string(&ps->lex, &origin.source));
    *out = hn_graph_add_origin(ps->g, origin);
    return hn_graph_status(ps->g);
}

/* --- buffers --- */

/* b1 : input 0 f32[2, 3] | b2 : temp f32[2, 3] extent 6 */
static hn_status read_buffer(parser *ps) {
    hn_buffer buffer = {.extent = hn_sym_int(ps->sym, 0)};
    hn_buf b;
    const char *where = hn_lex_here(&ps->lex);
    HN_TRY(hn_text_read_numbered(&ps->lex, 'b', "expected a statement", &b));
    if (b != ps->p->buffers.count)
        return hn_lex_fail(&ps->lex, where, "buffers are numbered from b1 in order");
    if (ps->checking) return hn_lex_fail(&ps->lex, where, "buffers come before all items");
    HN_TRY(hn_lex_expect(&ps->lex, ':'));
    buffer.kind =
        (hn_buffer_kind)hn_text_accept_one_of(&ps->lex, hn_buffer_kind_names, HN_BUFFER_OUTPUT + 1);
    if (buffer.kind > HN_BUFFER_OUTPUT) return fail(ps, "expected 'input', 'temp' or 'output'");
    if (buffer.kind == HN_BUFFER_INPUT) HN_TRY(hn_lex_u32(&ps->lex, &buffer.input));
    HN_TRY(hn_text_read_dtype(&ps->lex, &buffer.dtype));
    HN_TRY(hn_text_read_layout(&ps->lex, ps->sym, &buffer.rank, &buffer.sizes, &buffer.strides));
    HN_TRY(hn_text_read_device(&ps->lex, &buffer.device));
    if (buffer.kind != HN_BUFFER_INPUT) {
        HN_TRY(hn_lex_expect_word(&ps->lex, "extent"));
        HN_TRY(read_size(ps, &buffer.extent));
    }
    return hn_program_add_buffer(ps->p, buffer, &b);
}

/* --- bodies --- */

/* %3 = add(%1, %2) : f32. Not hn_body_add: the numbers are those of the text. */
static hn_status read_sop(parser *ps, hn_loop *loop) {
    const char *where = hn_lex_here(&ps->lex);
    hn_body *body = &loop->body;
    const hn_sop_reader r = sops(ps, body);
    hn_sop op;
    uint32_t number;
    HN_TRY(hn_lex_expect(&ps->lex, '%'));
    HN_TRY(hn_lex_u32(&ps->lex, &number));
    if (number != body->count)
        return hn_lex_fail(&ps->lex, where, "ops are numbered from %1 in order");
    HN_TRY(hn_lex_expect(&ps->lex, '='));
    HN_TRY(hn_sop_read(&r, &op));
    HN_PUSH(ps->arena, body, op);
    return hn_lex_blame(&ps->lex, where,
                        hn_loop_check_sop(&ps->check, ps->p->items.count, loop, number));
}

/* --- loops --- */

/* i0 < 4, i1 < s0 */
static hn_status read_vars(parser *ps, hn_loop *loop, uint32_t *count) {
    uint32_t ordinal;
    hn_expr extent;
    if (!hn_text_peek_numbered(&ps->lex, 'i', &ordinal)) return NULL;
    do {
        if (loop->rank + loop->red_rank == HN_MAX_RANK) return fail(ps, "too many dimensions");
        HN_TRY(hn_text_read_numbered(&ps->lex, 'i', "expected a loop variable", &ordinal));
        HN_TRY(hn_lex_expect(&ps->lex, '<'));
        HN_TRY(read_size(ps, &extent));
        uint32_t at = loop->rank + loop->red_rank;
        loop->vars[at] = hn_sym_index(ps->sym, ordinal, extent);
        HN_TRY(hn_lex_blame(&ps->lex, ps->lex.p, hn_sym_status(ps->sym)));
        ++*count;
    } while (hn_lex_accept(&ps->lex, ','));
    return NULL;
}

/* b4[i0] += %3, then perhaps b5[i0] = position %3 */
static hn_status read_stores(parser *ps, hn_loop *loop) {
    const hn_sop_reader r = sops(ps, &loop->body);
    HN_TRY(hn_sop_read_store(&r, &loop->store));
    if (hn_lex_accept(&ps->lex, '}')) return NULL;
    HN_TRY(hn_sop_read_access(&r, &loop->indices.buffer, &loop->indices.index));
    HN_TRY(hn_lex_expect(&ps->lex, '='));
    HN_TRY(hn_lex_expect_word(&ps->lex, "position"));
    HN_TRY(hn_sop_read_value(&r, &loop->indices.value));
    return hn_lex_expect(&ps->lex, '}');
}

/* sum (i0 < 4; i1 < 8) at "node" "file" { ops stores }, behind the word for the kind */
static hn_status read_loop(parser *ps, hn_loop_kind kind, hn_loop *loop, uint32_t *out_origin) {
    *loop = (hn_loop){.kind = kind};
    HN_PUSH(ps->arena, &loop->body, (hn_sop){0});
    if (kind == HN_LOOP_REDUCE || kind == HN_LOOP_SCAN) {
        hn_str word;
        HN_TRY(hn_lex_word(&ps->lex, "expected what is combined by", &word));
        loop->reduce_op = hn_op_find(word);
        if (!loop->reduce_op) return hn_lex_fail(&ps->lex, word.ptr, "unknown op");
    }
    HN_TRY(hn_lex_expect(&ps->lex, '('));
    HN_TRY(read_vars(ps, loop, &loop->rank));
    HN_TRY(hn_lex_expect(&ps->lex, ';'));
    HN_TRY(read_vars(ps, loop, &loop->red_rank));
    HN_TRY(hn_lex_expect(&ps->lex, ')'));
    HN_TRY(read_origin(ps, out_origin));
    HN_TRY(hn_lex_expect(&ps->lex, '{'));
    while (hn_lex_peek(&ps->lex) == '%') HN_TRY(read_sop(ps, loop));
    return read_stores(ps, loop);
}

static hn_status read_loop_item(parser *ps, hn_loop_kind kind) {
    hn_loop loop;
    hn_item item;
    uint32_t origin;
    HN_TRY(read_loop(ps, kind, &loop, &origin));
    return hn_program_add_loop(ps->p, &loop, origin, &item);
}

/* --- other items --- */

static hn_status read_operand(parser *ps, hn_extern *ext) {
    if (ext->operand_count == sizeof ext->operands / sizeof *ext->operands)
        return fail(ps, "too many operands");
    struct hn_extern_operand *operand = &ext->operands[ext->operand_count++];
    if (hn_lex_accept_word(&ps->lex, "none")) return NULL;
    operand->written = hn_lex_accept_word(&ps->lex, "out");
    return read_place(ps, &operand->buffer, &operand->offset_elems);
}

/* as { reduce sum (...) { ... } pointwise (...) { ... } } */
static hn_status read_loops_of_call(parser *ps, hn_extern *ext) {
    struct {
        hn_loop *items;
        uint32_t count, cap;
    } loops = {0};
    hn_loop loop;
    uint32_t origin;
    if (!hn_lex_accept_word(&ps->lex, "as")) return NULL;
    HN_TRY(hn_lex_expect(&ps->lex, '{'));
    do {
        const char *where = hn_lex_here(&ps->lex);
        uint32_t kind = hn_text_accept_one_of(&ps->lex, hn_loop_kind_names, HN_LOOP_SCATTER + 1);
        if (kind > HN_LOOP_SCATTER) return fail(ps, "expected a loop");
        HN_TRY(read_loop(ps, (hn_loop_kind)kind, &loop, &origin));
        HN_PUSH(ps->arena, &loops, loop);
        ext->loops = loops.items;
        ext->loop_count = loops.count;
        HN_TRY(hn_lex_blame(
            &ps->lex, where,
            hn_loop_check_of_call(&ps->check, ps->p->items.count, ext, loops.count - 1)));
    } while (!hn_lex_accept(&ps->lex, '}'));
    return NULL;
}

/* matmul(out b3[0], b1[0], none) params [1, 2] */
static hn_status read_extern(parser *ps, hn_extern_kind kind) {
    hn_extern *ext;
    hn_item item;
    uint32_t origin;
    HN_NEW(ps->arena, ext, 1);
    ext->kind = kind;
    HN_TRY(hn_lex_expect(&ps->lex, '('));
    do HN_TRY(read_operand(ps, ext));
    while (hn_lex_accept(&ps->lex, ','));
    HN_TRY(hn_lex_expect(&ps->lex, ')'));
    HN_TRY(hn_lex_expect_word(&ps->lex, "params"));
    HN_TRY(hn_text_read_sizes(&ps->lex, ps->sym, ext->params,
                              sizeof ext->params / sizeof *ext->params, &ext->param_count));
    HN_TRY(read_origin(ps, &origin));
    HN_TRY(read_loops_of_call(ps, ext));
    return hn_program_add_extern(ps->p, ext, origin, &item);
}

static hn_status read_define(parser *ps, hn_item_info *item) {
    HN_TRY(read_size(ps, &item->symbol));
    hn_expr_kind kind = hn_sym_kind(ps->sym, item->symbol);
    if (kind != HN_EXPR_SYMBOL || hn_sym_symbol_kind(ps->sym, item->symbol) != HN_SYMBOL_DATA)
        return fail(ps, "only a data symbol can be defined");
    return NULL;
}

/* Rounds, or a star where a `while` tells. */
static hn_status read_rounds(parser *ps, hn_expr *out) {
    if (hn_lex_accept(&ps->lex, '*')) return NULL;
    return read_size(ps, out);
}

static bool names_buffer(hn_item_kind kind) {
    return kind != HN_ITEM_BRANCH_ELSE && kind != HN_ITEM_BRANCH_END && kind != HN_ITEM_REPEAT &&
           kind != HN_ITEM_AGAIN;
}

/* assert b1 "message" | then b1 | else | end | define u0 = b1 | repeat s0 | repeat * | while b1 |
 * again | copy b2 = b1 */
static hn_status read_control(parser *ps, hn_item_kind kind) {
    hn_item_info item = {.kind = kind, .message = HN_STR("")};
    if (kind == HN_ITEM_DEFINE) {
        HN_TRY(read_define(ps, &item));
        HN_TRY(hn_lex_expect(&ps->lex, '='));
    }
    if (kind == HN_ITEM_COPY) {
        HN_TRY(read_buffer_name(ps, &item.to));
        HN_TRY(hn_lex_expect(&ps->lex, '='));
    }
    if (kind == HN_ITEM_REPEAT) HN_TRY(read_rounds(ps, &item.rounds));
    if (names_buffer(kind)) HN_TRY(read_buffer_name(ps, &item.cond));
    if (kind == HN_ITEM_ASSERT) HN_TRY(hn_lex_string(&ps->lex, &item.message));
    HN_TRY(read_origin(ps, &item.origin));
    return hn_program_add_item(ps->p, item);
}

/* result 0 = b3[0] [2, 3] strides [3, 1] */
static hn_status read_result(parser *ps) {
    hn_result result = {0};
    HN_TRY(hn_lex_u32(&ps->lex, &result.output));
    HN_TRY(hn_lex_expect(&ps->lex, '='));
    HN_TRY(read_place(ps, &result.buffer, &result.offset));
    HN_TRY(hn_text_read_layout(&ps->lex, ps->sym, &result.rank, &result.sizes, &result.strides));
    HN_PUSH(ps->arena, &ps->p->results, result);
    return NULL;
}

static hn_status read_item(parser *ps, bool *out_found) {
    static const struct {
        const char *word;
        hn_item_kind kind;
    } controls[] = {
        {"assert", HN_ITEM_ASSERT},  {"then", HN_ITEM_BRANCH_THEN}, {"else", HN_ITEM_BRANCH_ELSE},
        {"end", HN_ITEM_BRANCH_END}, {"define", HN_ITEM_DEFINE},    {"repeat", HN_ITEM_REPEAT},
        {"while", HN_ITEM_WHILE},    {"again", HN_ITEM_AGAIN},      {"copy", HN_ITEM_COPY},
    };
    *out_found = true;
    uint32_t kind = hn_text_accept_one_of(&ps->lex, hn_loop_kind_names, HN_LOOP_SCATTER + 1);
    if (kind <= HN_LOOP_SCATTER) return read_loop_item(ps, (hn_loop_kind)kind);
    for (size_t k = 0; k < sizeof controls / sizeof *controls; k++)
        if (hn_lex_accept_word(&ps->lex, controls[k].word))
            return read_control(ps, controls[k].kind);
    kind = hn_text_accept_one_of(&ps->lex, hn_extern_kind_names, HN_EXTERN_KIND_COUNT);
    if (kind < HN_EXTERN_KIND_COUNT) return read_extern(ps, (hn_extern_kind)kind);
    *out_found = false;
    return NULL;
}

/* --- programs --- */

static hn_status begin_items(parser *ps) {
    if (ps->checking) return NULL;
    ps->checking = true;
    return hn_loop_checker_init(&ps->check, ps->p);
}

static hn_status read_statement(parser *ps) {
    const char *where = hn_lex_here(&ps->lex);
    uint32_t number;
    bool found;
    HN_TRY(hn_text_facts_read(&ps->facts, &found));
    if (found) return NULL;
    HN_TRY(hn_text_facts_apply(&ps->facts));
    if (hn_text_peek_numbered(&ps->lex, 'b', &number)) return read_buffer(ps);
    HN_TRY(begin_items(ps));
    if (hn_lex_accept_word(&ps->lex, "result")) return read_result(ps);
    HN_TRY(read_item(ps, &found));
    if (!found) return fail(ps, "expected a statement");
    return hn_lex_blame(&ps->lex, where, hn_loop_check_item(&ps->check, ps->p->items.count - 1));
}

/* program { statement... } */
static hn_status read_program(parser *ps) {
    HN_TRY(hn_lex_expect_word(&ps->lex, "program"));
    HN_TRY(hn_lex_expect(&ps->lex, '{'));
    while (!hn_lex_accept(&ps->lex, '}')) {
        if (!hn_lex_peek(&ps->lex)) return fail(ps, "expected '}'");
        HN_TRY(read_statement(ps));
    }
    HN_TRY(hn_text_facts_apply(&ps->facts));
    HN_TRY(begin_items(ps));
    HN_TRY(hn_lex_blame(&ps->lex, ps->lex.p - 1, hn_loop_check_end(&ps->check)));
    return hn_lex_here(&ps->lex) < ps->lex.end ? fail(ps, "expected the end of the text") : NULL;
}

bool hn_program_is_text(hn_str text) {
    const char *start = text.ptr ? text.ptr : "";
    hn_lex lex = {.start = start, .p = start, .end = start + text.len};
    return hn_str_eq(hn_lex_peek_word(&lex), HN_STR("program"));
}

hn_status hn_program_parse(hn_arena *arena, hn_sym *sym, hn_str text, hn_program **out) {
    const char *start = text.ptr ? text.ptr : "";
    parser ps = {.lex = {.arena = arena, .start = start, .p = start, .end = start + text.len},
                 .arena = arena,
                 .sym = sym};
    HN_TRY(hn_graph_create(arena, sym, &ps.g));
    ps.facts = (hn_text_facts_reader){.lex = &ps.lex, .g = ps.g};
    hn_status status = hn_program_create(ps.g, arena, &ps.p);
    if (!status) status = read_program(&ps);
    hn_loop_checker_deinit(&ps.check);
    if (status) hn_graph_deinit(ps.g);
    else *out = ps.p;
    return status;
}
