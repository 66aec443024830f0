/* sym.c: the context: interning, errors, constants, symbols, and looking at expressions. */
#include "sym/internal.h"

#include "base/hash.h"

#include <stdarg.h>

enum { FIRST_NODES = 256, FIRST_SLOTS = 1024 };

/* --- errors --- */

hn_expr hn_sym_fail_at(hn_sym *sym, hn_code code, const char *file, int line, const char *fmt,
                       ...) {
    char *text = sym->trial ? sym->trial_text : sym->error_text;
    if (!sym->trial && sym->failed) return 0;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(sym->error_text), fmt, args);
    va_end(args);
    if (sym->trial) return 0;
    sym->failed = true;
    sym->error_code = code;
    sym->error_file = file;
    sym->error_line = line;
    return 0;
}

hn_expr hn_sym_fail_status(hn_sym *sym, hn_status status) {
    uint32_t trial = sym->trial;
    sym->trial = 0;
    hn_sym_fail(sym, hn_status_code(status), "%s", hn_status_message(status));
    sym->trial = trial;
    hn_status_free(status);
    return 0;
}

hn_status hn_sym_status(const hn_sym *sym) {
    if (!sym->failed) return NULL;
    return hn_status_make(sym->error_code, sym->error_file, sym->error_line, "%s", sym->error_text);
}

/* --- interning --- */

static uint64_t mix(uint64_t h, uint64_t value) {
    h = (h ^ value) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 32);
}

static uint32_t content_hash(hn_expr_kind kind, int64_t constant, const hn_expr *args,
                             const int64_t *coeffs, uint32_t count) {
    uint64_t h = mix((uint64_t)kind + 1, (uint64_t)constant);
    for (uint32_t k = 0; k < count; k++) {
        h = mix(h, args[k]);
        if (coeffs) h = mix(h, (uint64_t)coeffs[k]);
    }
    h = mix(h, count);
    return (uint32_t)(h ^ (h >> 29));
}

static bool content_equal(const hn_sym_node *node, hn_expr_kind kind, int64_t constant,
                          const hn_expr *args, const int64_t *coeffs, uint32_t count) {
    return node->kind == kind && node->constant == constant && node->count == count &&
           (count == 0 || memcmp(node->args, args, count * sizeof(*args)) == 0) &&
           (!coeffs || count == 0 || memcmp(node->coeffs, coeffs, count * sizeof(*coeffs)) == 0);
}

/* The slot where an equal node is, or the empty one where it belongs. */
static uint32_t slot_find(const hn_sym *sym, uint32_t hash, hn_expr_kind kind, int64_t constant,
                          const hn_expr *args, const int64_t *coeffs, uint32_t count) {
    uint32_t mask = sym->slot_count - 1;
    for (uint32_t slot = hash & mask;; slot = (slot + 1) & mask) {
        uint64_t entry = sym->slots[slot];
        if (!entry) return slot;
        if ((uint32_t)(entry >> 32) != hash) continue;
        if (content_equal(hn_sym_at(sym, (hn_expr)entry), kind, constant, args, coeffs, count))
            return slot;
    }
}

static hn_status slots_grow(hn_sym *sym) {
    uint32_t slot_count = sym->slot_count * 2, mask = slot_count - 1;
    uint64_t *slots;
    HN_NEW(sym->arena, slots, slot_count);
    for (uint32_t k = 0; k < sym->slot_count; k++) {
        if (!sym->slots[k]) continue;
        uint32_t slot = (uint32_t)(sym->slots[k] >> 32) & mask;
        while (slots[slot]) slot = (slot + 1) & mask;
        slots[slot] = sym->slots[k];
    }
    sym->slots = slots;
    sym->slot_count = slot_count;
    return NULL;
}

static hn_status node_room(hn_sym *sym) {
    if (sym->node_count >= 1u << 30)
        return HN_ERROR(HN_UNSUPPORTED, "too many symbolic expressions");
    if (sym->node_count == sym->node_cap)
        HN_TRY(hn_arena_grow(sym->arena, &sym->nodes, &sym->node_cap, sym->node_count,
                             sym->node_count + 1, sizeof(*sym->nodes)));
    if (sym->node_count >= sym->slot_count / 2) HN_TRY(slots_grow(sym));
    return NULL;
}

static uint8_t term_flags(const hn_sym *sym, hn_expr_kind kind, const hn_expr *args,
                          uint32_t count) {
    uint8_t flags = 0;
    if (kind == HN_EXPR_FLOORDIV) return HN_NODE_HAS_DIV;
    if (kind == HN_EXPR_MOD) return HN_NODE_HAS_MOD;
    if (kind != HN_EXPR_MUL) return 0;
    for (uint32_t k = 0; k < count; k++) {
        const hn_sym_node *factor = hn_sym_at(sym, args[k]);
        flags |= factor->flags;
        if (factor->kind == HN_EXPR_ADD) flags |= HN_NODE_HAS_SUM;
    }
    return flags;
}

/* Coefficients first, terms behind them: one block. */
static hn_status args_copy(hn_sym *sym, hn_sym_node *node, const hn_expr *args,
                           const int64_t *coeffs) {
    size_t coeff_bytes = coeffs ? node->count * sizeof(*coeffs) : 0;
    unsigned char *block = hn_arena_alloc(sym->arena, coeff_bytes + node->count * sizeof(*args));
    if (!block)
        return HN_ERROR(HN_OUT_OF_MEMORY, "cannot keep an expression of %u terms", node->count);
    if (coeffs) memcpy(block, coeffs, coeff_bytes);
    memcpy(block + coeff_bytes, args, node->count * sizeof(*args));
    node->coeffs = coeffs ? (const int64_t *)(const void *)block : NULL;
    node->args = (const hn_expr *)(const void *)(block + coeff_bytes);
    return NULL;
}

/* False when the expression would be beyond the limits. */
static bool node_measure(const hn_sym *sym, hn_sym_node *node, const hn_expr *args) {
    uint32_t depth = 0, size = 1;
    for (uint32_t k = 0; k < node->count; k++) {
        const hn_sym_node *arg = hn_sym_at(sym, args[k]);
        if (arg->depth > depth) depth = arg->depth;
        size += arg->size; /* at most 2^12 * 2^16 */
        node->mask |= arg->mask;
    }
    node->depth = (uint16_t)(depth + 1);
    node->size = size;
    return depth < HN_SYM_DEPTH_MAX && size <= HN_SYM_SIZE_MAX && node->count <= HN_SYM_TERMS_MAX &&
           (node->kind != HN_EXPR_MUL || node->count <= HN_SYM_FACTORS_MAX);
}

/* The order of arguments, which is that of their ids, does not count for commutative operations. */
static uint64_t node_digest(const hn_sym *sym, const hn_sym_node *node, const hn_expr *args,
                            const int64_t *coeffs) {
    if (node->kind == HN_EXPR_SYMBOL) {
        hn_str name = sym->symbols[node->constant].name;
        return mix(node->kind, hn_hash64(name.ptr, name.len, 0));
    }
    bool is_ordered = node->kind == HN_EXPR_FLOORDIV || node->kind == HN_EXPR_MOD;
    uint64_t all = 0;
    for (uint32_t k = 0; k < node->count; k++) {
        uint64_t arg = mix(hn_sym_at(sym, args[k])->digest, coeffs ? (uint64_t)coeffs[k] : 1);
        all = is_ordered ? mix(all, arg) : all + arg;
    }
    return mix(mix(node->kind, (uint64_t)node->constant), all);
}

static hn_expr node_refresh(hn_sym *sym, hn_expr id) {
    if (sym->nodes[id].epoch != sym->epoch) hn_sym_facts_compute(sym, &sym->nodes[id]);
    return id;
}

hn_expr hn_sym_intern(hn_sym *sym, hn_expr_kind kind, int64_t constant, const hn_expr *args,
                      const int64_t *coeffs, uint32_t count) {
    if (sym->failed) return 0;
    uint32_t hash = content_hash(kind, constant, args, coeffs, count);
    uint32_t slot = slot_find(sym, hash, kind, constant, args, coeffs, count);
    if (sym->slots[slot]) return node_refresh(sym, (hn_expr)sym->slots[slot]);

    hn_sym_node node = {.kind = (uint8_t)kind, .count = count, .constant = constant};
    if (!node_measure(sym, &node, args))
        return hn_sym_fail(sym, HN_UNSUPPORTED,
                           "cannot build a symbolic expression this large (%u terms, %u nodes)",
                           count, node.size);
    if (count > 0) {
        hn_status status = args_copy(sym, &node, args, coeffs);
        if (status) return hn_sym_fail_status(sym, status);
    }
    uint32_t slot_count = sym->slot_count;
    hn_status status = node_room(sym);
    if (status) return hn_sym_fail_status(sym, status);
    node.flags = term_flags(sym, kind, args, count);
    node.digest = node_digest(sym, &node, args, coeffs);
    node.lo = HN_SYM_MIN;
    node.hi = HN_SYM_MAX;
    node.divisor = 1;
    node.self = sym->node_count;
    hn_sym_facts_compute(sym, &node);
    if (kind == HN_EXPR_SYMBOL) node.mask = UINT64_C(1) << (constant & 63);
    sym->nodes[sym->node_count++] = node;
    if (slot_count != sym->slot_count)
        slot = slot_find(sym, hash, kind, constant, args, coeffs, count);
    sym->slots[slot] = (uint64_t)hash << 32 | node.self;
    return node.self;
}

hn_expr hn_sym_intern2(hn_sym *sym, hn_expr_kind kind, hn_expr a, hn_expr b) {
    return hn_sym_intern(sym, kind, 0, (hn_expr[]){a, b}, NULL, 2);
}

/* --- memo --- */

static hn_sym_memo *memo_slot(const hn_sym *sym, uint32_t tag, hn_expr a, hn_expr b) {
    uint64_t h = mix(mix(tag, a), b);
    return &sym->memo[(h ^ (h >> 17)) & (HN_MEMO_SLOTS - 1)];
}

uint32_t hn_sym_memo_get(const hn_sym *sym, hn_memo_op op, hn_expr a, hn_expr b) {
    uint32_t tag = (uint32_t)op + HN_MEMO_OP_COUNT * sym->epoch;
    const hn_sym_memo *memo = memo_slot(sym, tag, a, b);
    return memo->tag == tag && memo->a == a && memo->b == b ? memo->result : 0;
}

void hn_sym_memo_put(hn_sym *sym, hn_memo_op op, hn_expr a, hn_expr b, uint32_t result,
                     uint32_t cuts) {
    if (!result || sym->cuts != cuts) return;
    uint32_t tag = (uint32_t)op + HN_MEMO_OP_COUNT * sym->epoch;
    *memo_slot(sym, tag, a, b) = (hn_sym_memo){.a = a, .b = b, .tag = tag, .result = result};
}

/* --- creation, constants --- */

hn_status hn_sym_create(hn_arena *arena, hn_sym **out) {
    hn_sym *sym;
    HN_NEW(arena, sym, 1);
    sym->arena = arena;
    HN_NEW(arena, sym->memo, HN_MEMO_SLOTS);
    HN_NEW(arena, sym->marks, 1);
    sym->slot_count = FIRST_SLOTS;
    HN_NEW(arena, sym->slots, sym->slot_count);
    HN_TRY(hn_arena_grow(arena, &sym->nodes, &sym->node_cap, 0, FIRST_NODES, sizeof(*sym->nodes)));
    sym->nodes[0] = (hn_sym_node){.kind = HN_EXPR_INVALID, .divisor = 1};
    sym->node_count = 1;
    hn_strmap_init(&sym->names, arena);
    hn_map_init(&sym->indices, arena);
    hn_map_init(&sym->latest, arena);
    hn_map_init(&sym->guard_keys, arena);
    *out = sym;
    return NULL;
}

hn_expr hn_sym_int(hn_sym *sym, int64_t value) {
    bool is_small = value >= HN_SMALL_MIN && value <= HN_SMALL_MAX;
    if (is_small && !sym->failed && sym->small[value - HN_SMALL_MIN])
        return sym->small[value - HN_SMALL_MIN];
    hn_expr e = hn_sym_intern(sym, HN_EXPR_CONST, value, NULL, NULL, 0);
    if (is_small) sym->small[value - HN_SMALL_MIN] = e;
    return e;
}

/* --- symbols --- */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool name_is_identifier(hn_str name) {
    if (name.len == 0 || name.len > 255 || !is_letter(name.ptr[0])) return false;
    for (size_t k = 1; k < name.len; k++)
        if (!is_letter(name.ptr[k]) && !is_digit(name.ptr[k])) return false;
    return true;
}

/* i<N> and t<N> are how loop variables print; the function names belong to the parser. */
static bool name_is_reserved(hn_str name, hn_symbol_kind kind) {
    static const char *const functions[] = {"Min", "Max", "Mod", "FloorDiv"};
    for (size_t k = 0; k < HN_COUNT_OF(functions); k++)
        if (hn_str_eq(name, hn_str_of(functions[k]))) return true;
    bool loop_letter = name.ptr[0] == 'i' || name.ptr[0] == 't';
    if (!loop_letter || name.len < 2 || kind == HN_SYMBOL_INDEX || kind == HN_SYMBOL_INDIRECT)
        return false;
    for (size_t k = 1; k < name.len; k++)
        if (!is_digit(name.ptr[k])) return false;
    return true;
}

static hn_expr symbol_make(hn_sym *sym, const hn_sym_symbol_info *info, int64_t lo, int64_t hi) {
    if (sym->failed) return 0;
    if (sym->symbol_count == sym->symbol_cap) {
        hn_status status =
            hn_arena_grow(sym->arena, &sym->symbols, &sym->symbol_cap, sym->symbol_count,
                          sym->symbol_count + 1, sizeof(*sym->symbols));
        if (status) return hn_sym_fail_status(sym, status);
    }
    sym->symbols[sym->symbol_count] = *info;
    hn_expr e = hn_sym_intern(sym, HN_EXPR_SYMBOL, sym->symbol_count++, NULL, NULL, 0);
    if (!e) return 0;
    sym->nodes[e].lo = lo;
    sym->nodes[e].hi = hi;
    return e;
}

static hn_expr symbol_make_named(hn_sym *sym, const hn_sym_symbol_info *info, int64_t lo,
                                 int64_t hi) {
    hn_sym_symbol_info copy = *info;
    copy.name.ptr = hn_arena_strndup(sym->arena, info->name.ptr, info->name.len);
    if (!copy.name.ptr)
        return hn_sym_fail_status(sym,
                                  HN_ERROR(HN_OUT_OF_MEMORY, "cannot keep the name of a symbol"));
    hn_expr e = symbol_make(sym, &copy, lo, hi);
    if (!e) return 0;
    hn_status status = hn_strmap_put(&sym->names, copy.name, e);
    return status ? hn_sym_fail_status(sym, status) : e;
}

hn_expr hn_sym_symbol(hn_sym *sym, hn_str name, hn_symbol_kind kind, int64_t lo, int64_t hi) {
    if (sym->failed) return 0;
    if (!name_is_identifier(name) || name_is_reserved(name, kind))
        return hn_sym_fail(sym, HN_INVALID_ARGUMENT, "cannot name a symbol '%.*s': %s",
                           (int)(name.len < 64 ? name.len : 64), name.ptr ? name.ptr : "",
                           name_is_identifier(name) ? "the name is reserved"
                                                    : "it is not an identifier");
    uint64_t *known = hn_strmap_get(&sym->names, name);
    if (known) return (hn_expr)*known;
    if (lo > hi)
        return hn_sym_fail(sym, HN_INVALID_ARGUMENT, "symbol '%.*s' has the empty range %lld..%lld",
                           (int)(name.len < 64 ? name.len : 64), name.ptr, (long long)lo,
                           (long long)hi);
    return symbol_make_named(sym, &(hn_sym_symbol_info){.name = name, .kind = kind}, lo, hi);
}

hn_expr hn_sym_fresh(hn_sym *sym, const char *stem, hn_symbol_kind kind, int64_t lo, int64_t hi) {
    for (uint32_t number = 0;; number++) {
        char *name = hn_arena_printf(sym->arena, "%s%u", stem, number);
        if (!name)
            return hn_sym_fail_status(
                sym, HN_ERROR(HN_OUT_OF_MEMORY, "cannot keep the name of a symbol"));
        if (!hn_strmap_get(&sym->names, hn_str_of(name)))
            return hn_sym_symbol(sym, hn_str_of(name), kind, lo, hi);
    }
}

/* The last value of a variable below `extent`. Where the extent may be 0 the variable has no value
 * then. */
static int64_t last_index(const hn_sym *sym, hn_expr extent) {
    int64_t hi = hn_sym_at(sym, extent)->hi;
    if (hi == HN_SYM_MAX) return HN_SYM_MAX;
    return hi < 1 ? 0 : hi - 1;
}

/* Not in the table of names: loops of different extents share the name. */
static hn_expr index_make(hn_sym *sym, uint32_t ordinal, hn_expr extent) {
    char *text = hn_arena_printf(sym->arena, "i%u", ordinal);
    if (!text)
        return hn_sym_fail_status(
            sym, HN_ERROR(HN_OUT_OF_MEMORY, "cannot keep the name of a loop variable"));
    hn_sym_symbol_info info = {
        .name = hn_str_of(text), .kind = HN_SYMBOL_INDEX, .ordinal = ordinal, .extent = extent};
    return symbol_make(sym, &info, 0, last_index(sym, extent));
}

hn_expr hn_sym_index(hn_sym *sym, uint32_t ordinal, hn_expr extent) {
    if (!extent || sym->failed) return 0;
    uint64_t key = (uint64_t)ordinal << 32 | extent;
    uint64_t *known = hn_map_get(&sym->indices, key);
    hn_expr e = known ? (hn_expr)*known : 0;
    if (e) {
        int64_t last = last_index(sym, extent);
        if (last < sym->nodes[e].hi) sym->nodes[e].hi = last;
    } else {
        e = index_make(sym, ordinal, extent);
        if (!e) return 0;
        hn_status status = hn_map_put(&sym->indices, key, e);
        if (status) return hn_sym_fail_status(sym, status);
    }
    hn_status status = hn_map_put(&sym->latest, ordinal, e);
    return status ? hn_sym_fail_status(sym, status) : e;
}

hn_expr hn_sym_indirect(hn_sym *sym, hn_expr extent) {
    if (!extent || sym->failed) return 0;
    char text[16];
    hn_str name;
    do {
        name = (hn_str){text, (size_t)snprintf(text, sizeof(text), "t%u", sym->indirect_count++)};
    } while (hn_strmap_get(&sym->names, name));
    return symbol_make_named(
        sym, &(hn_sym_symbol_info){.name = name, .kind = HN_SYMBOL_INDIRECT, .extent = extent}, 0,
        last_index(sym, extent));
}

hn_expr hn_sym_indirect_named(hn_sym *sym, uint32_t number, hn_expr extent) {
    if (!extent || sym->failed) return 0;
    char text[16];
    hn_str name = {text, (size_t)snprintf(text, sizeof(text), "t%u", number)};
    uint64_t *known = hn_strmap_get(&sym->names, name);
    if (known) return hn_sym_symbol_extent(sym, (hn_expr)*known) == extent ? (hn_expr)*known : 0;
    return symbol_make_named(
        sym, &(hn_sym_symbol_info){.name = name, .kind = HN_SYMBOL_INDIRECT, .extent = extent}, 0,
        last_index(sym, extent));
}

/* --- looking at expressions --- */

hn_expr_kind hn_sym_kind(const hn_sym *sym, hn_expr e) {
    return (hn_expr_kind)hn_sym_at(sym, e)->kind;
}

bool hn_sym_is_int(const hn_sym *sym, hn_expr e, int64_t *out_value) {
    if (!hn_sym_is_const(sym, e)) return false;
    if (out_value) *out_value = hn_sym_const(sym, e);
    return true;
}

bool hn_sym_is_value(const hn_sym *sym, hn_expr e, int64_t value) {
    return hn_sym_is_const(sym, e) && hn_sym_const(sym, e) == value;
}

static const hn_sym_symbol_info *symbol_info(const hn_sym *sym, hn_expr symbol) {
    static const hn_sym_symbol_info none = {.kind = HN_SYMBOL_SIZE};
    return hn_sym_kind(sym, symbol) == HN_EXPR_SYMBOL ? &sym->symbols[hn_sym_const(sym, symbol)]
                                                      : &none;
}

hn_symbol_kind hn_sym_symbol_kind(const hn_sym *sym, hn_expr symbol) {
    return symbol_info(sym, symbol)->kind;
}
hn_expr hn_sym_symbol_extent(const hn_sym *sym, hn_expr symbol) {
    return symbol_info(sym, symbol)->extent;
}
uint32_t hn_sym_index_ordinal(const hn_sym *sym, hn_expr symbol) {
    return symbol_info(sym, symbol)->ordinal;
}

hn_str hn_sym_symbol_name(const hn_sym *sym, hn_expr symbol) {
    const hn_sym_symbol_info *info = symbol_info(sym, symbol);
    return info->name.ptr ? info->name : HN_STR("");
}

const hn_expr *hn_sym_args(const hn_sym *sym, hn_expr e, uint32_t *out_count) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    bool has_args = node->kind >= HN_EXPR_MUL;
    *out_count = has_args ? node->count : 0;
    return has_args ? node->args : NULL;
}

hn_sum hn_sym_sum(const hn_sym *sym, hn_expr e) {
    static const int64_t one = 1;
    const hn_sym_node *node = hn_sym_at(sym, e);
    switch (node->kind) {
    case HN_EXPR_INVALID: return (hn_sum){0};
    case HN_EXPR_CONST: return (hn_sum){.constant = node->constant};
    case HN_EXPR_ADD: return (hn_sum){node->constant, node->count, node->args, node->coeffs};
    default: return (hn_sum){.count = 1, .terms = &node->self, .coeffs = &one};
    }
}
