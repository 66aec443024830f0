/* names.c: words of the text forms, and the symbols that a wrapper uses. */
#include "wrapper/names.h"

#include "base/map.h"
#include "wrapper/exprs.h"

const char *const hn_wbuf_kind_names[HN_WBUF_KIND_COUNT] = {
    [HN_WBUF_INPUT] = "input", [HN_WBUF_CONSTANT] = "constant",
    [HN_WBUF_TEMP] = "temp",   [HN_WBUF_OUTPUT] = "output",
    [HN_WBUF_VIEW] = "view",   [HN_WBUF_WORKSPACE] = "workspace"};
const char *const hn_wzeroed_names[HN_WZEROED_COUNT] = {
    [HN_WZEROED_NEVER] = "never", [HN_WZEROED_ONCE] = "once", [HN_WZEROED_EACH] = "each"};
const char *hn_wline_kind_name(hn_line_kind kind) {
    static const char *const names[] = {
        [HN_LINE_COMMENT] = "comment", [HN_LINE_ALLOCATE] = "allocate", [HN_LINE_REUSE] = "reuse",
        [HN_LINE_FREE] = "free",       [HN_LINE_VIEW] = "view",         [HN_LINE_KERNEL] = "kernel",
        [HN_LINE_EXTERN] = "extern",   [HN_LINE_COPY] = "copy",         [HN_LINE_WAIT] = "wait",
        [HN_LINE_ASSERT] = "assert",   [HN_LINE_DEFINE] = "define",     [HN_LINE_COND] = "cond",
        [HN_LINE_LOOP] = "loop",       [HN_LINE_ZERO] = "zero"};
    return (uint32_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}
#define NAME(kind, name, operands, needed, written, params) [kind] = name,
const char *const hn_wextern_names[HN_EXTERN_KIND_COUNT] = {[HN_EXTERN_NONE] = "none",
                                                            HN_EXTERN_KINDS(NAME)};
#undef NAME
const char *const hn_wrelation_names[4] = {
    [HN_REL_EQ] = "==", [HN_REL_NE] = "!=", [HN_REL_LT] = "<", [HN_REL_LE] = "<="};

typedef struct collector {
    hn_sym *sym;
    hn_arena *arena;
    hn_map seen, symbols;
} collector;

static hn_status collect(void *context, hn_expr e) {
    collector *c = context;
    if (hn_map_get(&c->seen, e)) return NULL;
    HN_TRY(hn_map_put(&c->seen, e, 1));
    uint32_t count = hn_sym_symbols(c->sym, e, NULL, 0);
    hn_expr *list;
    HN_NEW(c->arena, list, count);
    (void)hn_sym_symbols(c->sym, e, list, count);
    for (uint32_t i = 0; i < count; i++) HN_TRY(hn_map_put(&c->symbols, list[i], 1));
    return NULL;
}

static hn_status collect_all(collector *c, const hn_wrapper *w) {
    uint32_t guard_count;
    const hn_guard *guards = hn_sym_guards(w->sym, &guard_count);
    for (uint32_t i = 0; i < guard_count; i++) {
        HN_TRY(collect(c, guards[i].lhs));
        HN_TRY(collect(c, guards[i].rhs));
    }
    for (uint32_t i = 0; i < w->lines.count; i++)
        if (w->lines.items[i].symbol) HN_TRY(collect(c, w->lines.items[i].symbol));
    return hn_wrapper_each_expr(w, NULL, NULL, collect, c);
}

/* Shorter first, so that s2 comes before s10. */
static bool name_less(hn_str a, hn_str b) {
    if (a.len != b.len) return a.len < b.len;
    return memcmp(a.ptr, b.ptr, a.len) < 0;
}

hn_status hn_wrapper_symbols(const hn_wrapper *w, hn_arena *arena, hn_expr **out,
                             uint32_t *out_count) {
    collector c = {.sym = w->sym, .arena = arena};
    hn_map_init(&c.seen, arena);
    hn_map_init(&c.symbols, arena);
    HN_TRY(collect_all(&c, w));
    hn_expr *list;
    HN_NEW(arena, list, c.symbols.count);
    for (uint32_t i = 0; i < c.symbols.count; i++) {
        hn_expr symbol = (hn_expr)c.symbols.entries[i].key;
        uint32_t at = i;
        for (; at > 0 && name_less(hn_sym_symbol_name(w->sym, symbol),
                                   hn_sym_symbol_name(w->sym, list[at - 1]));
             at--)
            list[at] = list[at - 1];
        list[at] = symbol;
    }
    *out = list;
    *out_count = c.symbols.count;
    return NULL;
}
