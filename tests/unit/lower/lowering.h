/* lowering.h: graph text, lowered, and with what operations of the CPU take of the loops around
 * them, as a line that says what each item of the program is; and the compiled program against the
 * interpreter on the same text, so that a decision is pinned together with its value. */
#ifndef HN_TESTS_LOWERING_H
#define HN_TESTS_LOWERING_H

#include "base/compiler.h"
#include "kernel/facts.h"
#include "lower/lower.h"
#include "support/random_graph.h"
#include "unit/harness.h"

typedef struct lowering {
    hn_arena arena, scratch;
    hn_graph *graph;
    hn_program *program;
    hn_strbuf text;
} lowering;

static bool lowering_parse(lowering *t, const char *statements) {
    hn_sym *sym;
    hn_strbuf whole;
    *t = (lowering){0};
    hn_arena_init(&t->arena);
    hn_arena_init(&t->scratch);
    hn_strbuf_init(&t->text);
    hn_strbuf_init(&whole);
    hn_strbuf_printf(&whole, "graph {\n%s\n}\n", statements);
    EXPECT_OK(hn_sym_create(&t->arena, &sym));
    EXPECT_OK(hn_graph_parse(&t->arena, sym, hn_strbuf_str(&whole), &t->graph));
    if (t->graph) EXPECT_OK(hn_graph_verify(t->graph, HN_LEGAL_PRIMITIVE));
    hn_strbuf_deinit(&whole);
    return t->graph != NULL;
}

static void lowering_end(lowering *t) {
    if (t->graph) hn_graph_deinit(t->graph);
    hn_strbuf_deinit(&t->text);
    hn_arena_deinit(&t->scratch);
    hn_arena_deinit(&t->arena);
}

/* "in2", "out", "temp", "-" */
static void lowering_print_operand(lowering *t, hn_buf b) {
    const hn_buffer *buffer = &t->program->buffers.items[b];
    if (!b) hn_strbuf_puts(&t->text, "-");
    else if (buffer->kind == HN_BUFFER_INPUT) hn_strbuf_printf(&t->text, "in%u", buffer->input);
    else hn_strbuf_puts(&t->text, buffer->kind == HN_BUFFER_OUTPUT ? "out" : "temp");
}

static void lowering_print_strides(lowering *t, const char *what, const hn_expr *strides,
                                   uint32_t count) {
    hn_strbuf_printf(&t->text, " %s ", what);
    for (uint32_t k = 0; k < count; k++) {
        hn_strbuf_puts(&t->text, k ? "," : "");
        hn_sym_print(t->program->sym, strides[k], &t->text);
    }
}

/* "conv(out, in0, in1, -, in2, -) relu residual 36,9,0,3,1" */
static void lowering_print_extern(lowering *t, const hn_extern *e) {
    static const char *const epilogues[] = {"",           " relu", " gelu_erf",
                                            " gelu_tanh", " silu", " hardswish",
                                            " sigmoid",   " tanh", " hardsigmoid"};
    bool is_conv = e->kind == HN_EXTERN_CONV;
    int64_t epilogue = 0;
    hn_strbuf_puts(&t->text, is_conv                       ? "conv("
                             : e->kind == HN_EXTERN_MATMUL ? "matmul("
                                                           : "other(");
    for (uint32_t k = 0; k < e->operand_count; k++) {
        hn_strbuf_puts(&t->text, k ? ", " : "");
        lowering_print_operand(t, e->operands[k].buffer);
    }
    hn_strbuf_putc(&t->text, ')');
    if (!is_conv && e->kind != HN_EXTERN_MATMUL) return;
    EXPECT(hn_sym_is_int(t->program->sym,
                         e->params[is_conv ? HN_CONV_EPILOGUE : HN_MATMUL_EPILOGUE], &epilogue));
    if (epilogue >= 0 && epilogue < (int64_t)HN_COUNT_OF(epilogues))
        hn_strbuf_puts(&t->text, epilogues[epilogue]);
    if (e->operands[4].buffer && is_conv)
        lowering_print_strides(t, "residual", &e->params[HN_CONV_RESIDUAL], 5);
    if (e->operands[4].buffer && !is_conv)
        lowering_print_strides(t, "residual", &e->params[HN_MATMUL_RESIDUAL], 6);
    if (!is_conv || !e->operands[5].buffer) return;
    if (hn_sym_is_value(t->program->sym, e->params[HN_CONV_SCALE_OUT], 1))
        hn_strbuf_puts(&t->text, " factors");
    lowering_print_strides(t, "scale", &e->params[HN_CONV_SCALE], 2);
}

static const char *lowering_describe_with(lowering *t, const hn_operations *operations) {
    hn_schedule ignored;
    hn_sched_limits limits = hn_cpu_facts_common.limits;
    limits.operations = operations;
    EXPECT_OK(hn_lower(t->graph, &(hn_lower_options){.operations = operations}, &t->arena,
                       &t->scratch, &t->program));
    hn_sched_options options = {.threads = 1, .limits = &limits};
    if (t->program)
        EXPECT_OK(hn_schedule_program(t->program, &options, &t->arena, &t->scratch, &ignored));
    for (hn_item k = 1; t->program && k < t->program->items.count; k++) {
        const hn_item_info *item = &t->program->items.items[k];
        hn_strbuf_puts(&t->text, k > 1 ? "; " : "");
        if (item->kind == HN_ITEM_EXTERN) lowering_print_extern(t, item->ext);
        else hn_strbuf_puts(&t->text, item->kind == HN_ITEM_LOOP ? "loop" : "other");
    }
    return hn_strbuf_str(&t->text).ptr;
}

static const char *lowering_describe(lowering *t) {
    return lowering_describe_with(t, &hn_operations_all);
}

/* Inputs are quarters of at most 4, so the few products and sums here are exact in any order: no
 * tolerance. `tolerance` is for activations that are not. */
static void lowering_check_values(const char *statements, double tolerance) {
    lowering t;
    hn_service *service = NULL;
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    double each[HN_RANDOM_MAX_TENSORS];
    for (size_t k = 0; k < HN_COUNT_OF(each); k++) each[k] = tolerance;
    if (lowering_parse(&t, statements)) {
        EXPECT_OK(hn_random_inputs(5, &t.arena, t.graph, 0, inputs));
        EXPECT_OK(
            hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &service));
        if (service)
            EXPECT_OK(hn_check_against_interpreter(t.graph, service, inputs, each, NULL, false));
        hn_service_destroy(service);
    }
    lowering_end(&t);
}

static void lowering_check_near(const char *statements, const char *expected, double tolerance) {
    lowering t;
    if (lowering_parse(&t, statements)) EXPECT_STR(lowering_describe(&t), expected);
    lowering_end(&t);
    lowering_check_values(statements, tolerance);
}

HN_UNUSED static void lowering_check(const char *statements, const char *expected) {
    lowering_check_near(statements, expected, 0);
}

/* The part of a convolution's text that is the same everywhere. */
#define CONV_PLAIN                                                                                 \
    "stride=[1, 1], padding=[0, 0], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=1)\n"

#endif
