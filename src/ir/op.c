/* op.c: the op tables in memory. The rows of ops.def and aten.def become one array of facts; their parameter texts
 * are parsed once, on first use, into one static pool, and the names into one hash table. */
#include "ir/op.h"

#include "base/compiler.h"
#include "base/hash.h"

#include <assert.h>
#include <pthread.h>

static const hn_op_info op_facts[HN_ALL_OP_COUNT] = {
    [HN_OP_NONE] = {"none", HN_OPC_NONE, "", "", ""},
#define HN_OP(name, text, op_class, params, doc) [HN_OP_##name] = {text, HN_OPC_##op_class, params, "", doc},
#include "ir/ops.def"
#undef HN_OP
#define HN_ATEN(name, text, decompose, params, returns) [HN_ATEN_##name] = {text, HN_OPC_ATEN, params, returns, ""},
#include "ir/aten.def"
#undef HN_ATEN
};

/* The pool's bound: a parameter takes two characters of a primitive's row ("x ") and six of a schema ("int a,"). */
enum {
    PARAM_POOL = 0
#define HN_OP(name, text, op_class, params, doc) +(sizeof(params) / 2 + 1)
#include "ir/ops.def"
#undef HN_OP
#define HN_ATEN(name, text, decompose, params, returns) +(sizeof(params) / 6 + 1)
#include "ir/aten.def"
#undef HN_ATEN
};
enum { NAME_SLOTS = 4096 };
_Static_assert(HN_ALL_OP_COUNT * 2 < NAME_SLOTS, "the name table would fill up");

/* Written once under `once`, constant afterwards. */
static struct {
    hn_param pool[PARAM_POOL];
    uint32_t pool_count;
    struct {
        uint32_t first, count;
    } params[HN_ALL_OP_COUNT];
    int8_t result_counts[HN_ALL_OP_COUNT];
    bool pure[HN_ALL_OP_COUNT];
    uint16_t names[NAME_SLOTS]; /* op, 0 empty */
} tables;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static hn_str trim(hn_str s) {
    while (s.len && s.ptr[0] == ' ') s.ptr++, s.len--;
    while (s.len && s.ptr[s.len - 1] == ' ') s.len--;
    return s;
}

/* Cuts the text before the first `stop` outside of brackets and quotes; *rest is what follows it. */
static hn_str cut(hn_str text, char stop, hn_str *rest) {
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == stop && !depth && !quoted) {
            *rest = (hn_str){text.ptr + i + 1, text.len - i - 1};
            return trim((hn_str){text.ptr, i});
        }
        if (c == '"') quoted = !quoted;
        if (quoted) continue;
        if (c == '(' || c == '[') depth++;
        if (c == ')' || c == ']') depth--;
    }
    *rest = (hn_str){NULL, 0};
    return trim(text);
}

/* --- ops.def: "x dtype:dtype mask? xs:values" --- */

static hn_param_kind primitive_kind(hn_str name) {
    static const struct {
        const char *name;
        hn_param_kind kind;
    } kinds[] = {
        {"value", HN_PARAM_TENSOR}, {"values", HN_PARAM_TENSORS}, {"int", HN_PARAM_INT},       {"expr", HN_PARAM_INT},
        {"ints", HN_PARAM_INTS},    {"exprs", HN_PARAM_INTS},     {"float", HN_PARAM_FLOAT},   {"bool", HN_PARAM_BOOL},
        {"string", HN_PARAM_STRING}, {"dtype", HN_PARAM_DTYPE},   {"scalar", HN_PARAM_SCALAR}, {"graph", HN_PARAM_GRAPH},
    };
    for (size_t i = 0; i < HN_COUNT_OF(kinds); i++)
        if (hn_str_eq(name, hn_str_of(kinds[i].name))) return kinds[i].kind;
    assert(false && "ops.def: unknown attribute kind");
    return HN_PARAM_TENSOR;
}

static void parse_primitive_row(hn_str text) {
    while (text.len) {
        hn_str kind, rest, word = cut(text, ' ', &rest);
        text = rest;
        if (!word.len) continue;
        hn_param p = {.name = cut(word, ':', &kind)};
        p.kind = kind.len ? primitive_kind(kind) : HN_PARAM_TENSOR;
        if (p.name.ptr[p.name.len - 1] == '?') p.name.len--, p.optional = true;
        tables.pool[tables.pool_count++] = p;
    }
}

/* --- aten.def: "Tensor(a!) self, *, Scalar alpha=1" --- */

static hn_param_kind aten_kind(hn_str type, bool list) {
    static const struct {
        const char *name;
        hn_param_kind one, many;
    } kinds[] = {
        {"Tensor", HN_PARAM_TENSOR, HN_PARAM_TENSORS},   {"int", HN_PARAM_INT, HN_PARAM_INTS},
        {"SymInt", HN_PARAM_INT, HN_PARAM_INTS},         {"float", HN_PARAM_FLOAT, HN_PARAM_FLOATS},
        {"bool", HN_PARAM_BOOL, HN_PARAM_INTS},          {"str", HN_PARAM_STRING, HN_PARAM_STRING},
        {"Scalar", HN_PARAM_SCALAR, HN_PARAM_FLOATS},    {"ScalarType", HN_PARAM_DTYPE, HN_PARAM_DTYPE},
        {"Layout", HN_PARAM_STRING, HN_PARAM_STRING},    {"Device", HN_PARAM_STRING, HN_PARAM_STRING},
        {"MemoryFormat", HN_PARAM_STRING, HN_PARAM_STRING}, {"Generator", HN_PARAM_STRING, HN_PARAM_STRING},
    };
    for (size_t i = 0; i < HN_COUNT_OF(kinds); i++)
        if (hn_str_eq(type, hn_str_of(kinds[i].name))) return list ? kinds[i].many : kinds[i].one;
    assert(false && "aten.def: unknown type in a schema");
    return HN_PARAM_TENSOR;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* "Tensor(a!)?[2]?" into kind and marks. */
static void parse_aten_type(hn_str type, hn_param *p) {
    size_t i = 0;
    while (i < type.len && is_letter(type.ptr[i])) i++;
    hn_str base = {type.ptr, i};
    bool list = false;
    for (; i < type.len; i++) {
        char c = type.ptr[i];
        if (c == '(') p->alias = type.ptr[i + 1];
        if (c == '!') p->mutated = true;
        if (c == '[') {
            list = true;
            p->optional_elems = p->optional;
            p->optional = false;
        }
        if (list && c >= '0' && c <= '9') p->list_size = (uint8_t)(p->list_size * 10 + (c - '0'));
        if (c == '?') p->optional = true;
    }
    p->kind = aten_kind(base, list);
}

static void parse_aten_row(hn_str text) {
    while (text.len) {
        hn_str rest, part = cut(text, ',', &rest);
        text = rest;
        if (!part.len || hn_str_eq(part, HN_STR("*"))) continue;
        hn_param p = {0};
        hn_str declaration = cut(part, '=', &p.default_text);
        p.has_default = p.default_text.len > 0;
        size_t space = declaration.len;
        while (space && declaration.ptr[space - 1] != ' ') space--;
        assert(space > 1 && space < declaration.len);
        p.name = (hn_str){declaration.ptr + space, declaration.len - space};
        parse_aten_type(trim((hn_str){declaration.ptr, space}), &p);
        tables.pool[tables.pool_count++] = p;
    }
}

/* "()" "Tensor" "(Tensor values, Tensor indices)" "Tensor(a)[]" */
static int8_t aten_result_count(hn_str text) {
    if (text.len && text.ptr[text.len - 1] == ']') return -1;
    if (text.len < 2 || text.ptr[0] != '(') return 1;
    text = trim((hn_str){text.ptr + 1, text.len - 2});
    int8_t count = 0;
    while (text.len) {
        hn_str rest;
        (void)cut(text, ',', &rest);
        text = rest;
        count++;
    }
    return count;
}

static int8_t primitive_result_count(hn_op op) {
    switch (op) {
    case HN_OP_CUMMAX:
    case HN_OP_CUMMIN:
    case HN_OP_SORT:
    case HN_OP_TOPK: return 2;
    case HN_OP_ASSERT: return 0;
    case HN_OP_COND: return -1;
    default: return 1;
    }
}

/* Schemas say nothing of randomness, and not all random ops take a generator. */
static bool aten_has_state(hn_str name) {
    static const char *const prefixes[] = {
        "aten.rand",        "aten.bernoulli", "aten.dropout",     "aten.native_dropout.", "aten.alpha_dropout",
        "aten.feature_dropout", "aten.normal", "aten.multinomial", "aten.uniform",       "aten.item",
        "aten._local_scalar_dense", "aten.is_nonzero", "aten.nonzero", "aten.masked_select", "aten.unique",
        "aten._assert",     "aten.sym_constrain", "aten.repeat_interleave.Tensor", "aten.scaled_dot_product_attention",
        "aten._scaled_dot_product", "aten.where.default", "torchvision.nms",
    };
    for (size_t i = 0; i < HN_COUNT_OF(prefixes); i++)
        if (hn_str_starts_with(name, hn_str_of(prefixes[i]))) return true;
    return false;
}

static bool find_pure(hn_op op) {
    const hn_op_info *facts = &op_facts[op];
    if (facts->op_class == HN_OPC_NONE || facts->op_class == HN_OPC_DYNAMIC || facts->op_class == HN_OPC_CONTROL)
        return false;
    if (facts->op_class != HN_OPC_ATEN) return true;
    for (uint32_t i = 0; i < tables.params[op].count; i++) {
        const hn_param *p = &tables.pool[tables.params[op].first + i];
        if (p->mutated || hn_str_eq(p->name, HN_STR("generator"))) return false;
    }
    return tables.result_counts[op] != 0 && !aten_has_state(hn_str_of(facts->name));
}

static void add_name(hn_op op) {
    hn_str name = hn_str_of(op_facts[op].name);
    size_t slot = hn_hash64(name.ptr, name.len, 0) % NAME_SLOTS;
    while (tables.names[slot]) slot = (slot + 1) % NAME_SLOTS;
    tables.names[slot] = (uint16_t)op;
}

static void build_tables(void) {
    for (uint32_t op = HN_OP_NONE + 1; op < HN_ALL_OP_COUNT; op++) {
        if (!op_facts[op].name) continue; /* HN_ATEN_FIRST is a mark, no row */
        hn_str text = hn_str_of(op_facts[op].params_text);
        tables.params[op].first = tables.pool_count;
        if (op_facts[op].op_class == HN_OPC_ATEN) {
            parse_aten_row(text);
            tables.result_counts[op] = aten_result_count(hn_str_of(op_facts[op].returns_text));
        } else {
            parse_primitive_row(text);
            tables.result_counts[op] = primitive_result_count((hn_op)op);
        }
        assert(tables.pool_count <= PARAM_POOL);
        tables.params[op].count = tables.pool_count - tables.params[op].first;
        tables.pure[op] = find_pure((hn_op)op);
        add_name((hn_op)op);
    }
}

static void ensure_tables(void) { (void)pthread_once(&once, build_tables); }

const hn_op_info *hn_op_facts(hn_op op) {
    return &op_facts[(uint32_t)op < HN_ALL_OP_COUNT && op_facts[op].name ? op : HN_OP_NONE];
}

const hn_param *hn_op_params(hn_op op, uint32_t *out_count) {
    ensure_tables();
    if ((uint32_t)op >= HN_ALL_OP_COUNT) op = HN_OP_NONE;
    *out_count = tables.params[op].count;
    return &tables.pool[tables.params[op].first];
}

hn_op hn_op_find(hn_str name) {
    ensure_tables();
    size_t slot = hn_hash64(name.ptr, name.len, 0) % NAME_SLOTS;
    for (; tables.names[slot]; slot = (slot + 1) % NAME_SLOTS)
        if (hn_str_eq(name, hn_str_of(op_facts[tables.names[slot]].name))) return (hn_op)tables.names[slot];
    return HN_OP_NONE;
}

bool hn_op_is_pure(hn_op op) {
    ensure_tables();
    return (uint32_t)op < HN_ALL_OP_COUNT && tables.pure[op];
}

int hn_op_result_count(hn_op op) {
    ensure_tables();
    return (uint32_t)op < HN_ALL_OP_COUNT ? tables.result_counts[op] : 0;
}
