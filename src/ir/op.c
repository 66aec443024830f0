/* op.c: the op tables in memory. The rows of ops.def and aten.def become one array of facts; the
 * parameter text of a row is parsed when the row is first asked for, into one static pool; the
 * names go into one hash table. */
#include "ir/op.h"

#include "base/compiler.h"
#include "base/hash.h"

#include <assert.h>
#include <pthread.h>

/* The words of the column "traits". */
enum {
    FREE = HN_TRAIT_FREE,
    KEEP = HN_TRAIT_KEEP,
    TABLE = HN_TRAIT_TABLE,
    RECOMPUTE = HN_TRAIT_RECOMPUTE,
    COMMUTES = HN_TRAIT_COMMUTES,
    ROUNDS = HN_TRAIT_ROUNDS,
    IDENTITY = HN_TRAIT_IDENTITY,
    POSITION = HN_TRAIT_POSITION
};

static const hn_op_info op_facts[HN_ALL_OP_COUNT] = {
    [HN_OP_NONE] = {.name = "none", .params_text = "", .returns_text = "", .doc = ""},
#define HN_OP(op, text, class, on, results, pure, work, flags, params, meaning)                    \
    [HN_OP_##op] = {.name = text,                                                                  \
                    .op_class = HN_OPC_##class,                                                    \
                    .dtypes = HN_DTYPES_##on,                                                      \
                    .result_count = results,                                                       \
                    .purity = HN_PURITY_##pure,                                                    \
                    .cost = work,                                                                  \
                    .traits = flags,                                                               \
                    .params_text = params,                                                         \
                    .returns_text = "",                                                            \
                    .doc = meaning},
#include "ir/ops.def"
#undef HN_OP
#define HN_ATEN(op, text, decompose, params, returns)                                              \
    [HN_ATEN_##op] = {.name = text,                                                                \
                      .op_class = HN_OPC_ATEN,                                                     \
                      .params_text = params,                                                       \
                      .returns_text = returns,                                                     \
                      .doc = ""},
#include "ir/aten.def"
#undef HN_ATEN
};

/* A parameter takes two characters of a primitive's row ("x ") and six of a schema ("int a,"). */
#define OP_ROOM(text_bytes)   ((text_bytes) / 2 + 1)
#define ATEN_ROOM(text_bytes) ((text_bytes) / 6 + 1)

/* Room for the parameters of each row. */
static struct {
#define HN_OP(op, text, class, on, results, pure, work, flags, params, meaning)                    \
    hn_param op_##op[OP_ROOM(sizeof(params))];
#include "ir/ops.def"
#undef HN_OP
#define HN_ATEN(name, text, decompose, params, returns)                                            \
    hn_param aten_##name[ATEN_ROOM(sizeof(params))];
#include "ir/aten.def"
#undef HN_ATEN
} pool;

static hn_param *const first_params[HN_ALL_OP_COUNT] = {
#define HN_OP(op, ...) [HN_OP_##op] = pool.op_##op,
#include "ir/ops.def"
#undef HN_OP
#define HN_ATEN(name, text, decompose, params, returns) [HN_ATEN_##name] = pool.aten_##name,
#include "ir/aten.def"
#undef HN_ATEN
};

enum { NAME_SLOTS = 4096 };
_Static_assert(HN_ALL_OP_COUNT * 2 < NAME_SLOTS, "the name table would fill up");

/* What the text of a row says: written once, when the row is first asked for, constant
 * afterwards. */
typedef struct parsed_row {
    uint32_t count; /* parameters */
    int8_t result_count;
    bool pure;
    pthread_once_t once;
} parsed_row;
static parsed_row parsed_rows[HN_ALL_OP_COUNT];
_Static_assert(PTHREAD_ONCE_INIT == 0, "rows begin as zeros");

/* Written once under `names_once`, constant afterwards. */
static uint16_t names[NAME_SLOTS]; /* op, 0 empty */
static pthread_once_t names_once = PTHREAD_ONCE_INIT;

static hn_str trim(hn_str s) {
    while (s.len && s.ptr[0] == ' ') s.ptr++, s.len--;
    while (s.len && s.ptr[s.len - 1] == ' ') s.len--;
    return s;
}

/* Cuts the text before the first `stop` outside of brackets and quotes; *rest is what follows
 * it. */
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
        {"value", HN_PARAM_TENSOR}, {"values", HN_PARAM_TENSORS}, {"int", HN_PARAM_INT},
        {"expr", HN_PARAM_INT},     {"ints", HN_PARAM_INTS},      {"exprs", HN_PARAM_INTS},
        {"float", HN_PARAM_FLOAT},  {"bool", HN_PARAM_BOOL},      {"string", HN_PARAM_STRING},
        {"dtype", HN_PARAM_DTYPE},  {"scalar", HN_PARAM_SCALAR},  {"graph", HN_PARAM_GRAPH},
    };
    for (size_t i = 0; i < HN_COUNT_OF(kinds); i++)
        if (hn_str_eq(name, hn_str_of(kinds[i].name))) return kinds[i].kind;
    assert(false && "ops.def: unknown attribute kind");
    return HN_PARAM_TENSOR;
}

static uint32_t parse_primitive_row(hn_str text, hn_param *out) {
    uint32_t count = 0;
    while (text.len) {
        hn_str kind, rest, word = cut(text, ' ', &rest);
        text = rest;
        if (!word.len) continue;
        hn_param p = {.name = cut(word, ':', &kind)};
        p.kind = kind.len ? primitive_kind(kind) : HN_PARAM_TENSOR;
        if (p.name.ptr[p.name.len - 1] == '?') p.name.len--, p.optional = true;
        out[count++] = p;
    }
    return count;
}

/* --- aten.def: "Tensor(a!) self, *, Scalar alpha=1" --- */

static hn_param_kind aten_kind(hn_str type, bool list) {
    static const struct {
        const char *name;
        hn_param_kind one, many;
    } kinds[] = {
        {"Tensor", HN_PARAM_TENSOR, HN_PARAM_TENSORS},
        {"State", HN_PARAM_TENSOR, HN_PARAM_TENSORS},
        {"int", HN_PARAM_INT, HN_PARAM_INTS},
        {"SymInt", HN_PARAM_INT, HN_PARAM_INTS},
        {"float", HN_PARAM_FLOAT, HN_PARAM_FLOATS},
        {"bool", HN_PARAM_BOOL, HN_PARAM_INTS},
        {"str", HN_PARAM_STRING, HN_PARAM_STRING},
        {"Scalar", HN_PARAM_SCALAR, HN_PARAM_FLOATS},
        {"ScalarType", HN_PARAM_DTYPE, HN_PARAM_DTYPE},
        {"Layout", HN_PARAM_STRING, HN_PARAM_STRING},
        {"Device", HN_PARAM_STRING, HN_PARAM_STRING},
        {"MemoryFormat", HN_PARAM_STRING, HN_PARAM_STRING},
        {"Generator", HN_PARAM_STRING, HN_PARAM_STRING},
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
    p->is_unread = hn_str_eq(base, HN_STR("State"));
    p->optional |= p->is_unread;
}

static uint32_t parse_aten_row(hn_str text, hn_param *out) {
    uint32_t count = 0;
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
        out[count++] = p;
    }
    return count;
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

/* Schemas say nothing of randomness, and not all random ops take a generator. */
static bool aten_has_state(hn_str name) {
    static const char *const prefixes[] = {
        "aten.rand",
        "aten.bernoulli",
        "aten.dropout",
        "aten.native_dropout.",
        "aten.alpha_dropout",
        "aten.feature_dropout",
        "aten.normal",
        "aten.multinomial",
        "aten.uniform",
        "aten.item",
        "aten._local_scalar_dense",
        "aten.is_nonzero",
        "aten.nonzero",
        "aten.masked_select",
        "aten.unique",
        "aten._assert",
        "aten.sym_constrain",
        "aten.repeat_interleave.Tensor",
        "aten.scaled_dot_product_attention",
        "aten._scaled_dot_product",
        "aten.where.default",
        "torchvision.nms",
    };
    for (size_t i = 0; i < HN_COUNT_OF(prefixes); i++)
        if (hn_str_starts_with(name, hn_str_of(prefixes[i]))) return true;
    return false;
}

static bool find_pure(hn_op op) {
    const hn_op_info *facts = &op_facts[op];
    if (facts->op_class != HN_OPC_ATEN) return facts->purity != HN_PURITY_EFFECT;
    for (uint32_t i = 0; i < parsed_rows[op].count; i++) {
        const hn_param *p = &first_params[op][i];
        if (p->mutated || hn_str_eq(p->name, HN_STR("generator"))) return false;
    }
    return parsed_rows[op].result_count != 0 && !aten_has_state(hn_str_of(facts->name));
}

static _Thread_local hn_op asked_for; /* what pthread_once cannot hand over */

static void parse_row(void) {
    hn_op op = asked_for;
    parsed_row *row = &parsed_rows[op];
    if (!op_facts[op].name || op == HN_OP_NONE) return; /* HN_ATEN_FIRST is a mark, no row */
    hn_str text = hn_str_of(op_facts[op].params_text);
    if (op_facts[op].op_class == HN_OPC_ATEN) {
        row->count = parse_aten_row(text, first_params[op]);
        assert(row->count <= ATEN_ROOM(text.len + 1));
        row->result_count = aten_result_count(hn_str_of(op_facts[op].returns_text));
    } else {
        row->count = parse_primitive_row(text, first_params[op]);
        assert(row->count <= OP_ROOM(text.len + 1));
        row->result_count = op_facts[op].result_count;
    }
    row->pure = find_pure(op);
}

/* Of what is no op: no parameters, no results, not pure. */
static const parsed_row *row_of(hn_op op) {
    asked_for = (uint32_t)op < HN_ALL_OP_COUNT ? op : HN_OP_NONE;
    (void)pthread_once(&parsed_rows[asked_for].once, parse_row);
    return &parsed_rows[asked_for];
}

static void build_names(void) {
    for (uint32_t op = HN_OP_NONE + 1; op < HN_ALL_OP_COUNT; op++) {
        if (!op_facts[op].name) continue;
        hn_str name = hn_str_of(op_facts[op].name);
        size_t slot = hn_hash64(name.ptr, name.len, 0) % NAME_SLOTS;
        while (names[slot]) slot = (slot + 1) % NAME_SLOTS;
        names[slot] = (uint16_t)op;
    }
}

const hn_op_info *hn_op_facts(hn_op op) {
    return &op_facts[(uint32_t)op < HN_ALL_OP_COUNT && op_facts[op].name ? op : HN_OP_NONE];
}

const hn_param *hn_op_params(hn_op op, uint32_t *out_count) {
    const parsed_row *row = row_of(op);
    *out_count = row->count;
    return first_params[row - parsed_rows];
}

hn_op hn_op_find(hn_str name) {
    (void)pthread_once(&names_once, build_names);
    size_t slot = hn_hash64(name.ptr, name.len, 0) % NAME_SLOTS;
    for (; names[slot]; slot = (slot + 1) % NAME_SLOTS)
        if (hn_str_eq(name, hn_str_of(op_facts[names[slot]].name))) return (hn_op)names[slot];
    return HN_OP_NONE;
}

bool hn_op_is_pure(hn_op op) { return row_of(op)->pure; }
int hn_op_result_count(hn_op op) { return row_of(op)->result_count; }
