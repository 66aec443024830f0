/* pickle.c: a stack machine for the part of pickle protocol 2 that torch.save uses.
 * Source: Python's pickletools (opcodes), reference tests/data of torch.save. */
#include "front/pt2/pickle.h"

#include "base/compiler.h"
#include "base/map.h"

enum { MAX_RANK = 64 };

typedef enum kind {
    K_MARK,
    K_NONE,
    K_BOOL,
    K_INT,
    K_TEXT,
    K_TUPLE,
    K_DICT,
    K_GLOBAL,
    K_STORAGE,
    K_TENSOR
} kind;

typedef struct object object;
typedef struct dict {
    struct {
        hn_str key;
        const object *value;
    } * items;
    uint32_t count, cap;
} dict;

/* What a storage class or a dtype name stands for. */
typedef struct type {
    const char *module, *name, *dtype_name;
    hn_dtype dtype;
} type;

typedef enum global_role { G_TENSOR2, G_TENSOR3, G_PARAMETER, G_DICT, G_TYPE } global_role;

struct object {
    kind kind;
    union {
        int64_t i;
        hn_str text;
        struct {
            const object *items;
            uint32_t count;
        } tuple;
        dict *dict; /* shared: the memo hands out the same one */
        struct {
            global_role role;
            const type *type;
        } global;
        struct {
            hn_str key;
            const type *type;
        } storage;
        const hn_pickle_tensor *tensor;
    } as;
};

typedef struct machine {
    hn_arena *arena;
    const uint8_t *begin, *at, *end;
    struct {
        object *items;
        uint32_t count, cap;
    } stack;
    struct {
        object *items;
        uint32_t count, cap;
    } memo_items;
    hn_map memo; /* number -> index into memo_items */
} machine;

/* Storage classes of the typed API, and dtypes for the untyped one. */
static const type types[] = {
    {"torch", "FloatStorage", "float32", HN_DTYPE_F32},
    {"torch", "DoubleStorage", "float64", HN_DTYPE_F64},
    {"torch", "HalfStorage", "float16", HN_DTYPE_F16},
    {"torch", "BFloat16Storage", "bfloat16", HN_DTYPE_BF16},
    {"torch", "LongStorage", "int64", HN_DTYPE_I64},
    {"torch", "IntStorage", "int32", HN_DTYPE_I32},
    {"torch", "ShortStorage", "int16", HN_DTYPE_I16},
    {"torch", "CharStorage", "int8", HN_DTYPE_I8},
    {"torch", "ByteStorage", "uint8", HN_DTYPE_U8},
    {"torch", "BoolStorage", "bool", HN_DTYPE_BOOL},
    {"torch", "ComplexFloatStorage", "complex64", HN_DTYPE_NONE},
    {"torch", "ComplexDoubleStorage", "complex128", HN_DTYPE_NONE},
    {"torch.storage", "UntypedStorage", "bytes", HN_DTYPE_U8},
    {"torch", "float8_e4m3fn", "float8_e4m3fn", HN_DTYPE_NONE},
    {"torch", "float8_e5m2", "float8_e5m2", HN_DTYPE_NONE},
    {"torch", "float8_e4m3fnuz", "float8_e4m3fnuz", HN_DTYPE_NONE},
    {"torch", "float8_e5m2fnuz", "float8_e5m2fnuz", HN_DTYPE_NONE},
    {"torch", "float8_e8m0fnu", "float8_e8m0fnu", HN_DTYPE_NONE},
    {"torch", "uint16", "uint16", HN_DTYPE_NONE},
    {"torch", "uint32", "uint32", HN_DTYPE_NONE},
    {"torch", "uint64", "uint64", HN_DTYPE_NONE},
};
static const struct {
    const char *module, *name;
    global_role role;
} functions[] = {
    {"torch._utils", "_rebuild_tensor_v2", G_TENSOR2},
    {"torch._utils", "_rebuild_tensor_v3", G_TENSOR3},
    {"torch._utils", "_rebuild_parameter", G_PARAMETER},
    {"collections", "OrderedDict", G_DICT},
};

static hn_status damaged(const machine *m, const char *problem) {
    return HN_ERROR(HN_CORRUPT, "bad pickle at byte %zu: %s", (size_t)(m->at - m->begin), problem);
}

/* --- input --- */

static hn_status take(machine *m, size_t len, const uint8_t **out) {
    if ((size_t)(m->end - m->at) < len) return damaged(m, "cut off");
    *out = m->at;
    m->at += len;
    return NULL;
}

static hn_status take_number(machine *m, size_t bytes, uint64_t *out) {
    const uint8_t *p = NULL;
    HN_TRY(take(m, bytes, &p));
    *out = 0;
    for (size_t k = 0; k < bytes; k++) *out |= (uint64_t)p[k] << (8 * k);
    return NULL;
}

static hn_status take_line(machine *m, hn_str *out) {
    const uint8_t *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!end) return damaged(m, "name without an end");
    *out = (hn_str){(const char *)m->at, (size_t)(end - m->at)};
    m->at = end + 1;
    return NULL;
}

/* --- the stack --- */

static hn_status push(machine *m, object value) {
    HN_PUSH(m->arena, &m->stack, value);
    return NULL;
}
static hn_status push_kind(machine *m, kind k) { return push(m, (object){.kind = k}); }
static hn_status push_int(machine *m, int64_t value) {
    return push(m, (object){.kind = K_INT, .as.i = value});
}
static hn_status push_bool(machine *m, bool value) {
    return push(m, (object){.kind = K_BOOL, .as.i = value});
}

static hn_status pop(machine *m, object *out) {
    if (!m->stack.count || m->stack.items[m->stack.count - 1].kind == K_MARK)
        return damaged(m, "stack is empty");
    *out = m->stack.items[--m->stack.count];
    return NULL;
}

/* The index behind the topmost mark. */
static hn_status mark_find(const machine *m, uint32_t *out) {
    for (uint32_t k = m->stack.count; k-- > 0;) {
        if (m->stack.items[k].kind != K_MARK) continue;
        *out = k + 1;
        return NULL;
    }
    return damaged(m, "no mark on the stack");
}

/* Replaces the objects from `first` on by one tuple; `drop` more below it go, too (the mark). */
static hn_status tuple_make(machine *m, uint32_t first, uint32_t drop) {
    uint32_t count = m->stack.count - first;
    object *items = NULL;
    HN_TRY(hn_arena_array(m->arena, count, sizeof *items, &items));
    if (count) memcpy(items, m->stack.items + first, count * sizeof *items);
    for (uint32_t k = 0; k < count; k++)
        if (items[k].kind == K_MARK) return damaged(m, "mark inside a tuple");
    m->stack.count = first - drop;
    return push(m, (object){.kind = K_TUPLE, .as.tuple = {items, count}});
}

static hn_status short_tuple(machine *m, uint32_t count) {
    if (m->stack.count < count) return damaged(m, "stack is empty");
    return tuple_make(m, m->stack.count - count, 0);
}

static hn_status marked_tuple(machine *m) {
    uint32_t first = 0;
    HN_TRY(mark_find(m, &first));
    return tuple_make(m, first, 1);
}

/* --- memo --- */

static hn_status memo_put(machine *m, uint64_t number) {
    if (!m->stack.count || m->stack.items[m->stack.count - 1].kind == K_MARK)
        return damaged(m, "stack is empty");
    HN_TRY(hn_map_put(&m->memo, number, m->memo_items.count));
    HN_PUSH(m->arena, &m->memo_items, m->stack.items[m->stack.count - 1]);
    return NULL;
}

static hn_status memo_get(machine *m, uint64_t number) {
    const uint64_t *index = hn_map_get(&m->memo, number);
    if (!index) return damaged(m, "unknown memo");
    return push(m, m->memo_items.items[*index]);
}

/* --- dicts --- */

static hn_status dict_push(machine *m) {
    dict *made = NULL;
    HN_NEW(m->arena, made, 1);
    return push(m, (object){.kind = K_DICT, .as.dict = made});
}

static hn_status dict_set(machine *m, dict *to, const object *key, const object *value) {
    object *copy = NULL;
    if (key->kind == K_MARK || value->kind == K_MARK) return damaged(m, "mark inside a dict");
    if (key->kind != K_TEXT)
        return HN_ERROR(HN_UNSUPPORTED, "state dict with keys that are no strings");
    HN_NEW(m->arena, copy, 1);
    *copy = *value;
    if (to->count == to->cap)
        HN_TRY(hn_arena_grow(m->arena, &to->items, &to->cap, to->count, to->count + 1,
                             sizeof *to->items));
    to->items[to->count].key = key->as.text;
    to->items[to->count++].value = copy;
    return NULL;
}

/* Pairs from `first` to the top go into the dict below them (and below the mark, if any). */
static hn_status dict_set_from(machine *m, uint32_t first, uint32_t below) {
    if (first < below + 1 || m->stack.items[first - below - 1].kind != K_DICT)
        return damaged(m, "no dict to fill");
    if ((m->stack.count - first) % 2) return damaged(m, "key without a value");
    dict *to = m->stack.items[first - below - 1].as.dict;
    for (uint32_t k = first; k < m->stack.count; k += 2)
        HN_TRY(dict_set(m, to, &m->stack.items[k], &m->stack.items[k + 1]));
    m->stack.count = first - below;
    return NULL;
}

static hn_status set_items(machine *m) {
    uint32_t first = 0;
    HN_TRY(mark_find(m, &first));
    return dict_set_from(m, first, 1);
}

static hn_status set_item(machine *m) {
    if (m->stack.count < 3) return damaged(m, "stack is empty");
    return dict_set_from(m, m->stack.count - 2, 0);
}

/* --- names and what they build --- */

static hn_status global_push(machine *m) {
    hn_str module = {0}, name = {0};
    HN_TRY(take_line(m, &module));
    HN_TRY(take_line(m, &name));
    for (size_t k = 0; k < HN_COUNT_OF(functions); k++)
        if (hn_str_eq(module, hn_str_of(functions[k].module)) &&
            hn_str_eq(name, hn_str_of(functions[k].name)))
            return push(m, (object){.kind = K_GLOBAL, .as.global.role = functions[k].role});
    for (size_t k = 0; k < HN_COUNT_OF(types); k++)
        if (hn_str_eq(module, hn_str_of(types[k].module)) &&
            hn_str_eq(name, hn_str_of(types[k].name)))
            return push(m, (object){.kind = K_GLOBAL, .as.global = {G_TYPE, &types[k]}});
    return HN_ERROR(HN_UNSUPPORTED,
                    "weights are pickled with '" HN_STR_FMT "." HN_STR_FMT
                    "', which is no plain tensor",
                    HN_STR_ARG(module), HN_STR_ARG(name));
}

/* ('storage', class, key, location, element count) */
static hn_status storage_push(machine *m) {
    object id = {0};
    HN_TRY(pop(m, &id));
    if (id.kind != K_TUPLE || id.as.tuple.count < 3) return damaged(m, "malformed storage");
    const object *items = id.as.tuple.items;
    if (items[0].kind != K_TEXT || !hn_str_eq(items[0].as.text, HN_STR("storage")) ||
        items[1].kind != K_GLOBAL || items[1].as.global.role != G_TYPE || items[2].kind != K_TEXT)
        return damaged(m, "malformed storage");
    return push(
        m, (object){.kind = K_STORAGE, .as.storage = {items[2].as.text, items[1].as.global.type}});
}

static hn_status ints_copy(machine *m, const object *tuple, const int64_t **out) {
    int64_t *ints = NULL;
    HN_NEW(m->arena, ints, tuple->as.tuple.count);
    for (uint32_t k = 0; k < tuple->as.tuple.count; k++) {
        if (tuple->as.tuple.items[k].kind != K_INT)
            return damaged(m, "a size or stride is no integer");
        ints[k] = tuple->as.tuple.items[k].as.i;
    }
    *out = ints;
    return NULL;
}

/* (storage, offset, size, stride, requires_grad, hooks[, dtype]) */
static hn_status tensor_push(machine *m, const object *args, uint32_t count, bool with_dtype) {
    hn_pickle_tensor *tensor = NULL;
    if (count < (with_dtype ? 7u : 4u) || args[0].kind != K_STORAGE || args[1].kind != K_INT ||
        args[2].kind != K_TUPLE || args[3].kind != K_TUPLE ||
        args[2].as.tuple.count != args[3].as.tuple.count || args[2].as.tuple.count > MAX_RANK)
        return damaged(m, "malformed tensor");
    const type *of = args[0].as.storage.type;
    if (with_dtype) {
        const object *last = &args[count - 1];
        if (last->kind != K_GLOBAL || last->as.global.role != G_TYPE)
            return damaged(m, "malformed tensor");
        of = last->as.global.type;
    }
    HN_NEW(m->arena, tensor, 1);
    *tensor = (hn_pickle_tensor){.storage = args[0].as.storage.key,
                                 .dtype = of->dtype,
                                 .dtype_name = of->dtype_name,
                                 .offset_elems = args[1].as.i,
                                 .rank = args[2].as.tuple.count};
    HN_TRY(ints_copy(m, &args[2], &tensor->sizes));
    HN_TRY(ints_copy(m, &args[3], &tensor->strides));
    return push(m, (object){.kind = K_TENSOR, .as.tensor = tensor});
}

static hn_status reduce(machine *m) {
    object args = {0}, function = {0};
    HN_TRY(pop(m, &args));
    HN_TRY(pop(m, &function));
    if (args.kind != K_TUPLE || function.kind != K_GLOBAL) return damaged(m, "malformed call");
    const object *items = args.as.tuple.items;
    uint32_t count = args.as.tuple.count;
    switch (function.as.global.role) {
    case G_TENSOR2: return tensor_push(m, items, count, false);
    case G_TENSOR3: return tensor_push(m, items, count, true);
    case G_PARAMETER:
        return count && items[0].kind == K_TENSOR ? push(m, items[0])
                                                  : damaged(m, "malformed parameter");
    case G_DICT: return count == 0 ? dict_push(m) : damaged(m, "dict made from a list");
    case G_TYPE: break;
    }
    return damaged(m, "a type is called");
}

/* --- opcodes --- */

static hn_status unicode_push(machine *m) {
    uint64_t len = 0;
    const uint8_t *text = NULL;
    HN_TRY(take_number(m, 4, &len));
    HN_TRY(take(m, len, &text));
    return push(m, (object){.kind = K_TEXT, .as.text = {(const char *)text, len}});
}

/* LONG1: little-endian two's complement of so many bytes. */
static hn_status long_push(machine *m) {
    uint64_t len = 0, bits = 0;
    HN_TRY(take_number(m, 1, &len));
    if (len > 8) return damaged(m, "integer does not fit 64 bits");
    HN_TRY(take_number(m, len, &bits));
    if (len && len < 8 && bits >> (8 * len - 1)) bits |= ~(uint64_t)0 << (8 * len);
    return push_int(m, (int64_t)bits);
}

static hn_status number_then(machine *m, size_t bytes, hn_status (*then)(machine *, uint64_t)) {
    uint64_t number = 0;
    HN_TRY(take_number(m, bytes, &number));
    return then(m, number);
}
static hn_status push_unsigned(machine *m, uint64_t number) { return push_int(m, (int64_t)number); }
static hn_status push_signed32(machine *m, uint64_t number) {
    return push_int(m, (int32_t)(uint32_t)number);
}
static hn_status check_protocol(machine *m, uint64_t number) {
    return number <= 2 ? NULL
                       : HN_ERROR(HN_UNSUPPORTED, "pickle protocol %llu at byte %zu",
                                  (unsigned long long)number, (size_t)(m->at - m->begin));
}

/* BUILD sets attributes (a state dict's _metadata), which mean nothing here. */
static hn_status drop_state(machine *m) {
    object ignored;
    return pop(m, &ignored);
}

/* One opcode; the letters are pickle's own. */
static hn_status step(machine *m, uint8_t opcode) {
    switch (opcode) {
    case 0x80: return number_then(m, 1, check_protocol); /* PROTO */
    case '}': return dict_push(m);
    case ')': return tuple_make(m, m->stack.count, 0);
    case '(': return push_kind(m, K_MARK);
    case 'X': return unicode_push(m);
    case 'K': return number_then(m, 1, push_unsigned);
    case 'M': return number_then(m, 2, push_unsigned);
    case 'J': return number_then(m, 4, push_signed32);
    case 0x8a: return long_push(m);
    case 'q': return number_then(m, 1, memo_put);
    case 'r': return number_then(m, 4, memo_put);
    case 'h': return number_then(m, 1, memo_get);
    case 'j': return number_then(m, 4, memo_get);
    case 'c': return global_push(m);
    case 't': return marked_tuple(m);
    case 0x85: return short_tuple(m, 1);
    case 0x86: return short_tuple(m, 2);
    case 0x87: return short_tuple(m, 3);
    case 'R': return reduce(m);
    case 'Q': return storage_push(m);
    case 0x88: return push_bool(m, true);
    case 0x89: return push_bool(m, false);
    case 'N': return push_kind(m, K_NONE);
    case 's': return set_item(m);
    case 'u': return set_items(m);
    case 'b': return drop_state(m);
    default:
        return HN_ERROR(HN_UNSUPPORTED, "pickle opcode 0x%02x at byte %zu", opcode,
                        (size_t)(m->at - m->begin - 1));
    }
}

static hn_status run(machine *m, object *out) {
    for (;;) {
        const uint8_t *opcode = NULL;
        HN_TRY(take(m, 1, &opcode));
        if (*opcode == '.') return pop(m, out);
        HN_TRY(step(m, *opcode));
    }
}

hn_status hn_pickle_read(hn_arena *arena, hn_str bytes, hn_pickle_tensors *out) {
    machine m = {.arena = arena, .begin = (const uint8_t *)bytes.ptr};
    object result = {0};
    m.at = m.begin;
    m.end = m.begin + bytes.len;
    hn_map_init(&m.memo, arena);
    HN_TRY(run(&m, &result));
    if (result.kind != K_DICT) return HN_ERROR(HN_UNSUPPORTED, "weights are no dict of tensors");
    for (uint32_t k = 0; k < result.as.dict->count; k++) {
        if (result.as.dict->items[k].value->kind != K_TENSOR) continue;
        hn_pickle_tensor tensor = *result.as.dict->items[k].value->as.tensor;
        tensor.name = result.as.dict->items[k].key;
        HN_PUSH(arena, out, tensor);
    }
    return NULL;
}
