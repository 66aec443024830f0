/* The op tables: both grammars of parameters, the name table, and the facts of the rows: complete,
 * consistent, and true where the interpreter can tell. */
#include "base/compiler.h"
#include "ir/build.h"
#include "ir/interp.h"
#include "ir/op.h"
#include "unit/harness.h"

#include <pthread.h>

/* A row's parameters as text: "x:tensor mask:tensor? dim:int=0". */
static const char *describe(hn_op op) {
    static const char *const kinds[] = {"tensor", "tensors", "int",   "ints",   "float", "floats",
                                        "bool",   "string",  "dtype", "scalar", "graph"};
    static char text[2048];
    uint32_t count;
    const hn_param *params = hn_op_params(op, &count);
    size_t len = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const hn_param *p = &params[i];
        len += (size_t)snprintf(text + len, sizeof text - len, "%s" HN_STR_FMT ":%s%s%s%s",
                                i ? " " : "", HN_STR_ARG(p->name), kinds[p->kind],
                                p->optional_elems ? "(?)" : "", p->optional ? "?" : "",
                                p->mutated ? "!" : "");
        if (p->list_size)
            len += (size_t)snprintf(text + len, sizeof text - len, "[%d]", p->list_size);
        if (p->alias) len += (size_t)snprintf(text + len, sizeof text - len, "@%c", p->alias);
        if (p->has_default)
            len += (size_t)snprintf(text + len, sizeof text - len, "=" HN_STR_FMT,
                                    HN_STR_ARG(p->default_text));
    }
    return text;
}

TEST(primitive_rows) {
    EXPECT_STR(describe(HN_OP_NEG), "x:tensor");
    EXPECT_STR(describe(HN_OP_WHERE), "cond:tensor x:tensor y:tensor");
    EXPECT_STR(describe(HN_OP_CAST), "x:tensor dtype:dtype");
    EXPECT_STR(describe(HN_OP_RANDOM), "kind:string sizes:ints dtype:dtype seed:tensor stream:int");
    EXPECT_STR(describe(HN_OP_CAT), "xs:tensors dim:int");
    EXPECT_STR(describe(HN_OP_MATMUL), "a:tensor b:tensor bias:tensor?");
    EXPECT_STR(describe(HN_OP_NMS), "boxes:tensor threshold:float");
    EXPECT_STR(describe(HN_OP_ATTENTION),
               "q:tensor k:tensor v:tensor mask:tensor? scale:float causal:bool");
    EXPECT_STR(describe(HN_OP_COND), "pred:tensor then:graph otherwise:graph operands:tensors");
    EXPECT_STR(describe(HN_OP_LOOP),
               "rounds:int? test:graph? body:graph carried:tensors others:tensors");
    EXPECT_STR(describe(HN_OP_NONE), "");
}

TEST(aten_rows) {
    EXPECT_STR(describe(HN_ATEN_add_Tensor), "self:tensor other:tensor alpha:scalar=1");
    EXPECT_STR(describe(HN_ATEN_add__Tensor), "self:tensor!@a other:tensor alpha:scalar=1");
    EXPECT_STR(describe(HN_ATEN__unsafe_index_Tensor), "self:tensor indices:tensors(?)");
    EXPECT_STR(describe(HN_ATEN_chunk_default), "self:tensor@a chunks:int dim:int=0");
    EXPECT_STR(
        describe(HN_ATEN_conv2d_padding),
        "input:tensor weight:tensor bias:tensor?=None stride:ints[2]=[1, 1] padding:string=\"valid\" "
        "dilation:ints[2]=[1, 1] groups:int=1");
    EXPECT_STR(describe(HN_ATEN_all_dims), "self:tensor dim:ints?=None keepdim:bool=False");
    EXPECT_STR(describe(HN_ATEN_amax_default), "self:tensor dim:ints[1]=[] keepdim:bool=False");
    EXPECT_STR(describe(HN_ATEN_var_correction),
               "self:tensor dim:ints?[1]=None correction:scalar?=None keepdim:bool=False");
    EXPECT_STR(
        describe(HN_ATEN_zeros_default),
        "size:ints dtype:dtype?=None layout:string?=None device:string?=None pin_memory:bool?=None");
    EXPECT_STR(describe(HN_ATEN_bernoulli_p), "self:tensor p:float generator:string?=None");
    EXPECT_STR(describe(HN_ATEN_upsample_nearest3d_vec),
               "input:tensor output_size:ints? scale_factors:floats?");
}

TEST(every_row_parses) {
    for (uint32_t op = 1; op < HN_ALL_OP_COUNT; op++) {
        const hn_op_info *facts = hn_op_facts((hn_op)op);
        if (facts->op_class == HN_OPC_NONE) continue;
        uint32_t count, commas = 0;
        const hn_param *params = hn_op_params((hn_op)op, &count);
        if (op >= HN_ATEN_FIRST && facts->params_text[0]) {
            int depth = 0;
            commas = 1;
            for (const char *c = facts->params_text; *c; c++) {
                depth += (*c == '[' || *c == '(') - (*c == ']' || *c == ')');
                commas += *c == ',' && !depth;
                commas -= *c == '*' && (c == facts->params_text || c[-2] == ',');
            }
            if (commas != count)
                HN_TEST_FAIL("%s has %u parameters, expected %u", facts->name, count, commas);
        }
        for (uint32_t i = 0; i < count; i++) {
            EXPECT(params[i].name.len > 0);
            for (uint32_t k = 0; k < i; k++)
                if (hn_str_eq(params[i].name, params[k].name))
                    HN_TEST_FAIL("%s repeats a parameter", facts->name);
        }
    }
}

TEST(names_are_found) {
    for (uint32_t op = 1; op < HN_ALL_OP_COUNT; op++)
        if (hn_op_facts((hn_op)op)->op_class != HN_OPC_NONE)
            if (hn_op_find(hn_str_of(hn_op_facts((hn_op)op)->name)) != (hn_op)op)
                HN_TEST_FAIL("'%s' is not found, or twice in the tables",
                             hn_op_facts((hn_op)op)->name);
    EXPECT_INT(hn_op_find(HN_STR("aten.add.Tensor")), HN_ATEN_add_Tensor);
    EXPECT_INT(hn_op_find(HN_STR("add")), HN_OP_ADD);
    EXPECT_INT(hn_op_find(HN_STR("aten.add")), HN_OP_NONE);
    EXPECT_INT(hn_op_find(HN_STR("")), HN_OP_NONE);
    EXPECT_INT(hn_op_find(HN_STR("none")), HN_OP_NONE);
}

TEST(numbers_outside_the_tables) {
    uint32_t count = 7;
    EXPECT_INT(hn_op_facts(HN_ALL_OP_COUNT)->op_class, HN_OPC_NONE);
    EXPECT_INT(hn_op_facts((hn_op)-1)->op_class, HN_OPC_NONE);
    EXPECT_INT(hn_op_facts(HN_ATEN_FIRST)->op_class, HN_OPC_NONE);
    (void)hn_op_params(HN_ALL_OP_COUNT, &count);
    EXPECT_INT(count, 0);
    EXPECT(!hn_op_is_pure(HN_ALL_OP_COUNT) && !hn_op_is_pure(HN_OP_NONE));
}

TEST(purity) {
    EXPECT(hn_op_is_pure(HN_OP_ADD) && hn_op_is_pure(HN_OP_RANDOM) && hn_op_is_pure(HN_OP_SCATTER));
    EXPECT(!hn_op_is_pure(HN_OP_ASSERT) && !hn_op_is_pure(HN_OP_ITEM) &&
           !hn_op_is_pure(HN_OP_NONZERO));
    EXPECT(hn_op_is_pure(HN_ATEN_add_Tensor) && !hn_op_is_pure(HN_ATEN_add__Tensor));
    EXPECT(!hn_op_is_pure(HN_ATEN_bernoulli_p) && !hn_op_is_pure(HN_ATEN_dropout_default));
    EXPECT(!hn_op_is_pure(HN_ATEN__assert_scalar_default) &&
           !hn_op_is_pure(HN_ATEN_nonzero_default));
    EXPECT(hn_op_is_pure(HN_ATEN_view_default) &&
           hn_op_is_pure(HN_ATEN_native_dropout_backward_default));
}

TEST(classes_and_results) {
    EXPECT(hn_op_is_elementwise(HN_OP_NEG) && hn_op_is_elementwise(HN_OP_CAST) &&
           hn_op_is_elementwise(HN_OP_EQ));
    EXPECT(!hn_op_is_elementwise(HN_OP_FULL) && !hn_op_is_elementwise(HN_OP_NONE) &&
           !hn_op_is_elementwise(HN_ATEN_add_Tensor));
    EXPECT(hn_op_is_aten(HN_ATEN_add_Tensor) && !hn_op_is_aten(HN_OP_ASSERT));
    EXPECT_INT(hn_op_result_count(HN_OP_SORT), 2);
    EXPECT_INT(hn_op_result_count(HN_OP_CUMSUM), 1);
    EXPECT_INT(hn_op_result_count(HN_OP_COND), -1);
    EXPECT_INT(hn_op_result_count(HN_OP_ASSERT), 0);
    EXPECT_INT(hn_op_result_count(HN_ATEN_add_Tensor), 1);
    EXPECT_INT(hn_op_result_count(HN_ATEN_aminmax_default), 2);
    EXPECT_INT(hn_op_result_count(HN_ATEN__assert_async_msg), 0);
    EXPECT_INT(hn_op_result_count(HN_ATEN_chunk_default), -1);
    EXPECT_INT(hn_op_result_count(HN_ATEN__batch_norm_with_update_functional_default), 6);
}

/* --- the facts of primitives --- */

/* Ops of these classes alone may have the trait. */
static void expect_classes(hn_op op, hn_op_trait trait, unsigned classes) {
    const hn_op_info *facts = hn_op_facts(op);
    if (hn_op_has(op, trait) && !(classes >> facts->op_class & 1))
        HN_TEST_FAIL("'%s' has the trait %#x, which its class has not", facts->name,
                     (unsigned)trait);
}

TEST(rows_are_complete) {
    for (hn_op op = HN_OP_NONE + 1; op < HN_OP_COUNT; op++) {
        const hn_op_info *facts = hn_op_facts(op);
        bool control = facts->op_class == HN_OPC_CONTROL,
             dynamic = facts->op_class == HN_OPC_DYNAMIC;
        EXPECT(facts->op_class != HN_OPC_NONE && facts->op_class != HN_OPC_ATEN);
        EXPECT(facts->dtypes && !(facts->dtypes & ~HN_DTYPES_ANY));
        EXPECT((facts->result_count >= 1 && facts->result_count <= HN_RESULTS_MAX) || control);
        EXPECT_INT(facts->purity == HN_PURITY_EFFECT, control || dynamic);
        EXPECT_INT(hn_op_is_pure(op), !control && !dynamic);
        /* A bit cast leaves the bits where they are. */
        bool works =
            (hn_op_is_elementwise(op) && op != HN_OP_BITCAST) || facts->purity == HN_PURITY_SEEDED;
        if (works != (facts->cost > 0)) HN_TEST_FAIL("'%s' costs %u", facts->name, facts->cost);
    }
}

TEST(traits_fit_their_rows) {
    const unsigned reductions = 1u << HN_OPC_REDUCE,
                   binary = 1u << HN_OPC_BINARY | 1u << HN_OPC_COMPARE;
    for (hn_op op = HN_OP_NONE + 1; op < HN_OP_COUNT; op++) {
        expect_classes(op, HN_TRAIT_COMMUTES, binary);
        expect_classes(op, HN_TRAIT_ROUNDS, 1u << HN_OPC_UNARY);
        expect_classes(op, HN_TRAIT_IDENTITY, reductions);
        expect_classes(op, HN_TRAIT_POSITION, reductions);
        if (hn_op_has(op, HN_TRAIT_RECOMPUTE)) EXPECT(hn_op_is_elementwise(op));
        if (hn_op_has(op, HN_TRAIT_TABLE)) EXPECT(hn_op_has(op, HN_TRAIT_KEEP));
        if (hn_op_has(op, HN_TRAIT_FREE)) EXPECT(!hn_op_has(op, HN_TRAIT_KEEP));
    }
}

static const double numbers[] = {0,   1,   -1,   2,     3,        7,         100, -0.5,
                                 0.5, 1.5, 2.25, -3.75, INFINITY, -INFINITY, NAN};

/* False: the dtype has no such number. */
static bool elem_of(hn_dtype dtype, double number, hn_ref_elem *out) {
    *out = hn_dtype_is_float(dtype) ? (hn_ref_elem){.f = number}
                                    : (hn_ref_elem){.i = isfinite(number) ? (int64_t)number : 0};
    if (hn_dtype_is_float(dtype)) return true;
    if (!isfinite(number) || number != trunc(number) || (dtype == HN_DTYPE_U8 && number < 0))
        return false;
    return dtype != HN_DTYPE_BOOL || number == 0 || number == 1;
}

static bool same_elem(hn_dtype dtype, hn_ref_elem a, hn_ref_elem b) {
    return hn_dtype_is_float(dtype) ? a.f == b.f || (isnan(a.f) && isnan(b.f)) : a.i == b.i;
}

static void expect_commutes(hn_op op, hn_dtype dtype) {
    hn_dtype result = hn_op_facts(op)->op_class == HN_OPC_COMPARE ? HN_DTYPE_BOOL : dtype;
    for (size_t i = 0; i < HN_COUNT_OF(numbers); i++)
        for (size_t k = 0; k < HN_COUNT_OF(numbers); k++) {
            hn_ref_elem x, y, ab, ba;
            if (!elem_of(dtype, numbers[i], &x) || !elem_of(dtype, numbers[k], &y)) continue;
            EXPECT(hn_ref_apply(op, dtype, result, (hn_ref_elem[]){x, y}, &ab));
            EXPECT(hn_ref_apply(op, dtype, result, (hn_ref_elem[]){y, x}, &ba));
            if (!same_elem(result, ab, ba))
                HN_TEST_FAIL("'%s' of %g and %g does not commute on %s", hn_op_facts(op)->name,
                             numbers[i], numbers[k], hn_dtype_facts(dtype)->name);
        }
}

static void expect_rounds(hn_op op, hn_dtype dtype) {
    for (size_t i = 0; i < HN_COUNT_OF(numbers); i++) {
        hn_ref_elem x, once, twice;
        if (!elem_of(dtype, numbers[i], &x)) continue;
        EXPECT(hn_ref_apply(op, dtype, dtype, &x, &once));
        EXPECT(!hn_dtype_is_float(dtype) || isnan(once.f) || once.f == trunc(once.f));
        for (hn_op other = HN_OP_NONE + 1; other < HN_OP_COUNT; other++) {
            if (!hn_op_has(other, HN_TRAIT_ROUNDS)) continue;
            EXPECT(hn_ref_apply(other, dtype, dtype, &once, &twice) &&
                   same_elem(dtype, once, twice));
        }
    }
}

TEST(traits_are_true) {
    for (hn_op op = HN_OP_NONE + 1; op < HN_OP_COUNT; op++)
        for (hn_dtype dtype = HN_DTYPE_NONE + 1; dtype < HN_DTYPE_COUNT; dtype++) {
            if (!hn_op_takes(op, dtype)) continue;
            if (hn_op_has(op, HN_TRAIT_COMMUTES)) expect_commutes(op, dtype);
            if (hn_op_has(op, HN_TRAIT_ROUNDS)) expect_rounds(op, dtype);
        }
}

TEST(interpreter_takes_the_dtypes_of_the_rows) {
    for (hn_op op = HN_OP_NONE + 1; op < HN_OP_COUNT; op++)
        for (hn_dtype dtype = HN_DTYPE_NONE + 1; dtype < HN_DTYPE_COUNT; dtype++) {
            hn_ref_elem args[3] = {{0}, {0}, {0}}, out;
            if (!hn_op_is_elementwise(op) || !hn_op_takes(op, dtype)) continue;
            if (!hn_ref_apply(op, dtype, dtype, args, &out))
                HN_TEST_FAIL("no function computes '%s' on %s", hn_op_facts(op)->name,
                             hn_dtype_facts(dtype)->name);
        }
}

/* --- threads --- */

static void *find_all(void *arg) {
    (void)arg;
    for (int i = 0; i < 100; i++)
        if (hn_op_find(HN_STR("aten.mul.Tensor")) != HN_ATEN_mul_Tensor) return (void *)1;
    return NULL;
}

TEST(threads_share_the_tables) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) EXPECT_INT(pthread_create(&threads[i], NULL, find_all, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        EXPECT(result == NULL);
    }
}

TEST_MAIN
