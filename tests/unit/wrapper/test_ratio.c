/* test_ratio.c: the bytes of a plan against its lower bound, the most bytes that are alive at one line:
 * 1,000 random programs, of kinds that models have. Prints the median and the worst of each kind. */
#include "unit/wrapper/plan_fixture.h"
#include "wrapper/order.h"

#include <stdlib.h>

enum { PROGRAMS = 1000, LAYERS_MAX = 12, SAVED_MAX = 3 };

/* A size as layers have them: rows of a batch times a width, times the symbol, if there is one. */
static hn_expr layer_bytes(fixture *f, hn_expr rows) {
    static const int64_t widths[] = {1, 64, 96, 256, 768, 1000, 3072};
    return hn_sym_mul(f->sym, rows, hn_sym_int(f->sym, 4 * widths[draw(f, 7)]));
}

/* The forward pass leaves tensors behind that the backward pass reads in reverse order; each layer's
 * gradient is an output. */
static void training_step(fixture *f, hn_expr rows) {
    static hn_woutput outputs[LAYERS_MAX];
    const uint32_t layers = 2 + draw(f, LAYERS_MAX - 1);
    hn_wbuf saved[LAYERS_MAX][SAVED_MAX] = {{0}}, x = 0;
    for (uint32_t l = 0; l < layers; l++)
        for (uint32_t k = 0, count = 1 + draw(f, SAVED_MAX); k < count; k++) {
            const hn_wbuf inner = add_temp(f, layer_bytes(f, rows));
            add_call(f, x, 0, inner);
            add_call(f, inner, x, saved[l][k] = add_temp(f, layer_bytes(f, rows)));
            x = saved[l][k];
        }
    hn_wbuf gradient = add_temp(f, layer_bytes(f, rows));
    add_call(f, x, 0, gradient);
    for (uint32_t l = layers; l-- > 0;) {
        for (uint32_t k = SAVED_MAX; k-- > 0;) {
            if (!saved[l][k]) continue;
            const hn_wbuf next = add_temp(f, layer_bytes(f, rows));
            add_call(f, gradient, saved[l][k], next);
            gradient = next;
        }
        const hn_wbuf of_weights = add_temp(f, layer_bytes(f, hn_sym_int(f->sym, 768)));
        f->w->buffers.items[of_weights].kind = HN_WBUF_OUTPUT;
        add_call(f, gradient, saved[l][0], of_weights);
        outputs[l] = (hn_woutput){.name = HN_STR("g"), .buffer = of_weights, .dtype = HN_DTYPE_U8};
    }
    f->w->outputs.items = outputs;
    f->w->outputs.count = f->w->outputs.cap = layers;
}

/* What kinds of programs there are, and what is asked of each. Workspaces, which live for one line
 * each, are among the buffers of the third. */
typedef struct kind {
    const char *name;
    double median, worst;
    uint32_t count;
    double ratios[PROGRAMS];
} kind;

static kind kinds[] = {{.name = "few buffers", .median = 1.03, .worst = 1.10},
                       {.name = "many buffers, conditionals", .median = 1.03, .worst = 1.15},
                       {.name = "with workspaces", .median = 1.03, .worst = 1.15},
                       {.name = "training steps", .median = 1.03, .worst = 1.15},
                       {.name = "training steps, combined", .median = 1.03, .worst = 1.15},
                       {.name = "training steps, batch a symbol", .median = 1.03, .worst = 1.15}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Each line behind the first gets scratch memory now and then. */
static void add_workspaces(fixture *f) {
    for (uint32_t i = 0; i < f->w->lines.count; i++) {
        hn_line *line = &f->w->lines.items[i];
        hn_woperand *operands;
        hn_wbuf b;
        void *list;
        if (line->kind != HN_LINE_KERNEL || draw(f, 3)) continue;
        b = add_temp(f, random_bytes(f, NULL, 0));
        f->w->buffers.items[b].kind = HN_WBUF_WORKSPACE;
        f->w->buffers.items[b].zeroed = (hn_wzeroed)(draw(f, 8) ? 0 : draw(f, HN_WZEROED_COUNT));
        EXPECT_OK(hn_arena_array(&f->arena, line->operand_count + 1u, sizeof *operands, &list));
        operands = list;
        memcpy(operands, line->operands, line->operand_count * sizeof *operands);
        operands[line->operand_count++] =
            (hn_woperand){.buffer = b, .dtype = HN_DTYPE_U8, .written = true};
        line->operands = operands;
    }
}

static void make(fixture *f, uint32_t k) {
    hn_expr rows = hn_sym_int(f->sym, 1 + draw(f, 512));
    if (k == 5) rows = hn_sym_symbol(f->sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, 4096);
    if (k == 5) hn_sym_set_hint(f->sym, rows, 256);
    if (k >= 3) training_step(f, rows);
    else random_program(f, k ? 20 + draw(f, 200) : 3 + draw(f, 9), NULL, 0, k == 1);
    if (k == 2) add_workspaces(f);
}

static double ratio_of(uint64_t seed, uint32_t k) {
    const hn_plan_options options = {k == 4 ? HN_POOL_COMBINED : HN_POOL_INTERMEDIATES};
    fixture f;
    hn_memory_plan plan;
    setup(&f, seed);
    make(&f, k);
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_order(f.w, &options));
    EXPECT_OK(hn_wrapper_reuse(f.w));
    EXPECT_OK(hn_wrapper_plan_with(f.w, &options, &plan));
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
    const double ratio =
        (double)hn_memory_plan_bytes(f.w, &plan) / (double)as_int(&f, plan.live_bound_bytes);
    teardown(&f);
    return ratio;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

TEST(pool_against_the_lower_bound) {
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        kind *of = &kinds[seed % KINDS];
        of->ratios[of->count++] = ratio_of(seed, (uint32_t)(seed % KINDS));
    }
    for (kind *k = kinds; k < kinds + KINDS; k++) {
        qsort(k->ratios, k->count, sizeof *k->ratios, by_size);
        const double median = k->ratios[k->count / 2], worst = k->ratios[k->count - 1];
        printf("ratio: %u programs, %s: median %.4f, worst %.4f\n", k->count, k->name, median,
               worst);
        EXPECT(k->ratios[0] >= 1 && median <= k->median && worst <= k->worst);
    }
}

TEST_MAIN
