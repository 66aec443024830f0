/* facts_print.c: what a program knows of its symbols, as `symbol` and `guard` statements. Grammar:
 * docs/ir.md. */
#include "ir/check.h"
#include "ir/facts.h"
#include "ir/text.h"

void hn_text_facts_init(hn_text_facts *c, hn_sym *sym, hn_arena *scratch) {
    *c = (hn_text_facts){.sym = sym, .scratch = scratch};
    hn_map_init(&c->seen_exprs, scratch);
    hn_map_init(&c->symbols, scratch);
}

hn_status hn_text_facts_collect(hn_text_facts *c, hn_expr e) {
    hn_expr few[16], *list = few;
    if (!e || hn_map_get(&c->seen_exprs, e)) return NULL;
    HN_TRY(hn_map_put(&c->seen_exprs, e, 1));
    uint32_t count = hn_sym_symbols(c->sym, e, few, 16);
    if (count > 16) {
        HN_TRY(hn_arena_array(c->scratch, count, sizeof *list, &list));
        hn_sym_symbols(c->sym, e, list, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        hn_expr extent = hn_sym_symbol_extent(c->sym, list[i]);
        HN_TRY(extent ? hn_text_facts_collect(c, extent) : hn_map_put(&c->symbols, list[i], 1));
    }
    return NULL;
}

hn_status hn_text_facts_collect_list(hn_text_facts *c, const hn_expr *list, uint32_t count) {
    for (uint32_t i = 0; list && i < count; i++) HN_TRY(hn_text_facts_collect(c, list[i]));
    return NULL;
}

static void put_bound(int64_t bound, hn_strbuf *out) {
    if (bound == HN_SYM_MIN || bound == HN_SYM_MAX)
        hn_strbuf_puts(out, bound == HN_SYM_MIN ? "-inf" : "inf");
    else hn_strbuf_i64(out, bound);
}

static void begin_line(int depth, const char *word, hn_strbuf *out) {
    for (int i = 0; i < depth; i++) hn_strbuf_puts(out, "  ");
    hn_strbuf_puts(out, word);
}

static void put_symbol(hn_sym *sym, hn_expr symbol, hn_strbuf *out) {
    int64_t lo, hi, divisor = hn_sym_divisor(sym, symbol);
    hn_sym_range(sym, symbol, &lo, &hi);
    hn_strbuf_puts(out, hn_sym_symbol_kind(sym, symbol) == HN_SYMBOL_DATA ? "data " : "size ");
    hn_text_print_expr(sym, symbol, out);
    hn_strbuf_puts(out, " in [");
    put_bound(lo, out);
    hn_strbuf_puts(out, ", ");
    put_bound(hi, out);
    hn_strbuf_puts(out, "]");
    if (divisor > 1) hn_strbuf_printf(out, " divisor %lld", (long long)divisor);
    /* a fallback would come back within the range */
    int64_t hint = hn_sym_hint(sym, symbol, INT64_MIN);
    if (hint == hn_sym_hint(sym, symbol, INT64_MAX))
        hn_strbuf_printf(out, " hint %lld", (long long)hint);
    hn_strbuf_putc(out, '\n');
}

static void put_guard(const hn_sym *sym, const hn_guard *guard, hn_strbuf *out) {
    static const char *const signs[] = {
        [HN_REL_EQ] = " == ", [HN_REL_NE] = " != ", [HN_REL_LT] = " < ", [HN_REL_LE] = " <= "};
    hn_text_print_expr(sym, guard->lhs, out);
    hn_strbuf_puts(out, signs[guard->relation]);
    hn_text_print_expr(sym, guard->rhs, out);
    hn_strbuf_putc(out, ' ');
    hn_text_print_string(hn_str_of(guard->reason), out);
    hn_strbuf_putc(out, '\n');
}

static bool is_bare(const hn_guard *guard, const hn_sym *sym) {
    hn_expr_kind lhs = hn_sym_kind(sym, guard->lhs), rhs = hn_sym_kind(sym, guard->rhs);
    return (lhs == HN_EXPR_SYMBOL || lhs == HN_EXPR_CONST) &&
           (rhs == HN_EXPR_SYMBOL || rhs == HN_EXPR_CONST);
}

/* A guard on anything but bare symbols that has come to follow from the ranges says nothing, and a
 * reader would drop it. */
static bool is_telling(const hn_guard *guard, const hn_sym *sym, const hn_graph *g) {
    return is_bare(guard, sym) || !hn_size_proved(g, guard->relation, guard->lhs, guard->rhs);
}

/* Insertion sort by name, as expressions sort: a program has few symbols. */
static hn_status sorted_symbols(const hn_text_facts *c, hn_expr **out) {
    hn_expr *list = NULL;
    HN_TRY(hn_arena_array(c->scratch, c->symbols.count, sizeof *list, &list));
    for (uint32_t i = 0; i < c->symbols.count; i++) {
        hn_expr symbol = (hn_expr)c->symbols.entries[i].key;
        hn_str name = hn_sym_symbol_name(c->sym, symbol);
        uint32_t at = i;
        for (; at; at--) {
            hn_str before = hn_sym_symbol_name(c->sym, list[at - 1]);
            if (before.len < name.len ||
                (before.len == name.len && memcmp(before.ptr, name.ptr, name.len) < 0))
                break;
            list[at] = list[at - 1];
        }
        list[at] = symbol;
    }
    *out = list;
    return NULL;
}

hn_status hn_text_facts_print(hn_text_facts *c, const hn_graph *g, int depth, hn_strbuf *out) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(c->sym, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_telling(&guards[i], c->sym, g)) continue;
        HN_TRY(hn_text_facts_collect(c, guards[i].lhs));
        HN_TRY(hn_text_facts_collect(c, guards[i].rhs));
    }
    hn_expr *symbols = NULL;
    HN_TRY(sorted_symbols(c, &symbols));
    for (uint32_t i = 0; i < c->symbols.count; i++) {
        begin_line(depth, "symbol ", out);
        put_symbol(c->sym, symbols[i], out);
    }
    /* The reader wants guards on bare symbols first: see hn_symbol_facts. */
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < count; i++) {
            if (is_bare(&guards[i], c->sym) != !pass || !is_telling(&guards[i], c->sym, g))
                continue;
            begin_line(depth, "guard ", out);
            put_guard(c->sym, &guards[i], out);
        }
    return NULL;
}
