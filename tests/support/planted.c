/* planted.c: faults in passes, rules, fusion, kernels, calls and memory, for tests of what finds
 * them. Linked into programs of tests in front of the library's own functions (--wrap of the
 * linker); HENRY_PLANT names the fault, and without it everything is as usual. */
#include "codegen/codegen.h"
#include "driver/multi.h"
#include "lower/lower.h"
#include "opt/decompose/decompose.h"
#include "opt/patterns/pattern.h"
#include "ops/cpu/ext.h"
#include "sched/internal.h"
#include "wrapper/carry.h"
#include "wrapper/wrapper.h"

#include "base/compiler.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool plants(const char *what) {
    const char *wanted = getenv("HENRY_PLANT");
    return wanted && strcmp(wanted, what) == 0;
}

/* Kernels of three loops and more that this compilation has printed. */
static uint32_t long_kernels;

/* A number beside 0 and 1 becomes another one. */
static bool change(hn_node_info *node) {
    for (uint32_t k = 0; k < node->arg_count; k++) {
        hn_arg *arg = &node->args[k];
        if (arg->kind != HN_ARG_FLOAT || arg->as.f == 0 || arg->as.f == 1) continue;
        arg->as.f *= 1.5;
        return true;
    }
    return false;
}

/* --- passes --- */

hn_status __real_hn_pass_functionalize(hn_graph *graph, hn_pass_context *context);
hn_status __wrap_hn_pass_functionalize(hn_graph *graph, hn_pass_context *context);
hn_status __wrap_hn_pass_functionalize(hn_graph *graph, hn_pass_context *context) {
    long_kernels = 0; /* a compilation begins */
    return __real_hn_pass_functionalize(graph, context);
}

hn_status __real_hn_pass_dce(hn_graph *graph, hn_pass_context *context);
hn_status __wrap_hn_pass_dce(hn_graph *graph, hn_pass_context *context);
hn_status __wrap_hn_pass_dce(hn_graph *graph, hn_pass_context *context) {
    HN_TRY(__real_hn_pass_dce(graph, context));
    for (hn_node n = 1; plants("pass") && n < graph->nodes.count; n++)
        if (graph->nodes.items[n].op == HN_OP_FULL && change(&graph->nodes.items[n])) return NULL;
    return NULL;
}

hn_status __real_hn_pass_weights(hn_graph *graph, hn_pass_context *context);
hn_status __wrap_hn_pass_weights(hn_graph *graph, hn_pass_context *context);
hn_status __wrap_hn_pass_weights(hn_graph *graph, hn_pass_context *context) {
    HN_TRY(__real_hn_pass_weights(graph, context));
    hn_graph *of_weights = graph->weights_program;
    for (hn_node n = 1; plants("weights") && of_weights && n < of_weights->nodes.count; n++)
        if (change(&of_weights->nodes.items[n])) return NULL;
    return NULL;
}

/* --- rules --- */

/* The second attention gets another scale: where it is found, or where its masks are. */
static void change_second(hn_patterns *p, hn_value v, hn_pattern pattern) {
    if (!v || !plants("pattern") || p->fired[pattern] != 2) return;
    hn_node_info *node = &p->g->nodes.items[p->g->values.items[v].producer];
    if (node->op == HN_OP_ATTENTION) change(node);
}

hn_status __real_hn_pattern_attention(hn_patterns *p, const hn_node_info *n, hn_value *out);
hn_status __wrap_hn_pattern_attention(hn_patterns *p, const hn_node_info *n, hn_value *out);
hn_status __wrap_hn_pattern_attention(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    HN_TRY(__real_hn_pattern_attention(p, n, out));
    change_second(p, *out, HN_PATTERN_ATTENTION);
    return NULL;
}

hn_status __real_hn_pattern_attention_mask(hn_patterns *p, const hn_node_info *n, hn_value *out);
hn_status __wrap_hn_pattern_attention_mask(hn_patterns *p, const hn_node_info *n, hn_value *out);
hn_status __wrap_hn_pattern_attention_mask(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    HN_TRY(__real_hn_pattern_attention_mask(p, n, out));
    change_second(p, *out, HN_PATTERN_ATTENTION_MASK);
    return NULL;
}

hn_value __real_hn_fold_index(hn_fold *f, const hn_node_info *node);
hn_value __wrap_hn_fold_index(hn_fold *f, const hn_node_info *node);
hn_value __wrap_hn_fold_index(hn_fold *f, const hn_node_info *node) {
    const hn_value v = __real_hn_fold_index(f, node);
    const bool fits = v && hn_dtype_is_float(hn_graph_value(f->g, v)->dtype);
    if (!fits || !plants("fold")) return v;
    return hn_b_binary(f->g, HN_OP_MUL, v, hn_b_scalar(f->g, 1.5, hn_graph_value(f->g, v)->dtype));
}

/* The second layer norm of a graph: a wrong factor, or worse. */
void __real_hn_dec_layer_norm(struct hn_dec *d);
void __wrap_hn_dec_layer_norm(struct hn_dec *d);
void __wrap_hn_dec_layer_norm(struct hn_dec *d) {
    __real_hn_dec_layer_norm(d);
    const hn_value v = d->results[0];
    if (!hn_str_eq(d->g->origins.items[d->node->origin].node, HN_STR("layer_norm_1"))) return;
    if (plants("compile_crash")) raise(SIGSEGV);
    if (plants("error")) hn_graph_fail(d->g, HN_ERROR(HN_UNSUPPORTED, "no layer norm today"));
    if (!v || !plants("decompose")) return;
    d->results[0] =
        hn_b_binary(d->g, HN_OP_MUL, v, hn_b_scalar(d->g, 1.5, hn_graph_value(d->g, v)->dtype));
}

/* --- loops --- */

/* The first product of a loop becomes a sum, or the first sum a difference. */
static void change_loop(hn_loop *loop) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        hn_sop *op = &loop->body.items[k];
        if (op->kind != HN_SOP_ELEM || (op->op != HN_OP_MUL && op->op != HN_OP_ADD)) continue;
        op->op = op->op == HN_OP_MUL ? HN_OP_ADD : HN_OP_SUB;
        return;
    }
}

/* Of a program in which a concatenation is no memory. */
hn_status __real_hn_lower(hn_graph *graph, const hn_lower_options *options, hn_arena *arena,
                          hn_arena *scratch, hn_program **out);
hn_status __wrap_hn_lower(hn_graph *graph, const hn_lower_options *options, hn_arena *arena,
                          hn_arena *scratch, hn_program **out);
hn_status __wrap_hn_lower(hn_graph *graph, const hn_lower_options *options, hn_arena *arena,
                          hn_arena *scratch, hn_program **out) {
    HN_TRY(__real_hn_lower(graph, options, arena, scratch, out));
    for (hn_item i = 1; plants("cat") && (*out)->cats_cut && i < (*out)->items.count; i++)
        if ((*out)->items.items[i].kind == HN_ITEM_LOOP) change_loop((*out)->items.items[i].loop);
    return NULL;
}

static const char *inlines; /* the rule that is at work */

hn_status __real_loop_inline(sched *s, hn_loop *loop, const hn_loop *producer);
hn_status __wrap_loop_inline(sched *s, hn_loop *loop, const hn_loop *producer);
hn_status __wrap_loop_inline(sched *s, hn_loop *loop, const hn_loop *producer) {
    HN_TRY(__real_loop_inline(s, loop, producer));
    if (inlines && plants(inlines)) change_loop(loop);
    return NULL;
}

hn_status __real_sched_remade(sched *s);
hn_status __wrap_sched_remade(sched *s);
hn_status __wrap_sched_remade(sched *s) {
    inlines = "remade";
    hn_status status = __real_sched_remade(s);
    inlines = NULL;
    return status;
}

hn_status __real_sched_again(sched *s);
hn_status __wrap_sched_again(sched *s);
hn_status __wrap_sched_again(sched *s) {
    inlines = "again";
    hn_status status = __real_sched_again(s);
    inlines = NULL;
    return status;
}

hn_status __real_loop_inline_pieces(sched *s, hn_loop *loop, hn_buf b, const loop_pieces *from);
hn_status __wrap_loop_inline_pieces(sched *s, hn_loop *loop, hn_buf b, const loop_pieces *from);
hn_status __wrap_loop_inline_pieces(sched *s, hn_loop *loop, hn_buf b, const loop_pieces *from) {
    HN_TRY(__real_loop_inline_pieces(s, loop, b, from));
    if (plants("pieces")) change_loop(loop);
    return NULL;
}

/* The last segment reads what the first one of its size does. */
static void mix_segments(const sched *s, hn_kernel *kernel) {
    const uint32_t last = kernel->segments.count - 1;
    const hn_kernel_segment *own = &kernel->segments.items[last], *other = kernel->segments.items;
    while (other < own && other->length != own->length) other++;
    for (uint32_t k = 0; k < kernel->segment_buffer_count; k++)
        if (s->p->buffers.items[own->buffers[k]].kind != HN_BUFFER_OUTPUT &&
            s->p->buffers.items[own->buffers[k]].kind != HN_BUFFER_TEMP)
            ((hn_buf *)(uintptr_t)own->buffers)[k] = other->buffers[k];
}

hn_status __real_sched_foreach(sched *s);
hn_status __wrap_sched_foreach(sched *s);
hn_status __wrap_sched_foreach(sched *s) {
    HN_TRY(__real_sched_foreach(s));
    for (uint32_t k = 0; plants("segments") && k < s->out->steps.count; k++) {
        hn_kernel *kernel = s->out->steps.items[k].kernel;
        if (kernel && kernel->segments.count) mix_segments(s, kernel);
    }
    return NULL;
}

/* The second form of a kernel that has several loses the sign of its first sum. */
hn_status __real_hn_multi_print(const hn_variants_of *of, const hn_multi *multi, hn_arena *arena,
                                hn_arena *scratch, hn_kernel_code *out);
hn_status __wrap_hn_multi_print(const hn_variants_of *of, const hn_multi *multi, hn_arena *arena,
                                hn_arena *scratch, hn_kernel_code *out);
hn_status __wrap_hn_multi_print(const hn_variants_of *of, const hn_multi *multi, hn_arena *arena,
                                hn_arena *scratch, hn_kernel_code *out) {
    HN_TRY(__real_hn_multi_print(of, multi, arena, scratch, out));
    if (!plants("variants") || !out->variant_count) return NULL;
    hn_kernel_code *variant = &out->variants[0];
    char *text = hn_arena_strndup(arena, variant->text.ptr, variant->text.len);
    char *at = text ? strstr(text, " + v") : NULL;
    if (!at) return NULL;
    at[1] = '-';
    hn_kernel_code_name(variant, (hn_str){text, variant->text.len});
    return NULL;
}

/* --- fusion --- */

/* Loops that get the variables of a group lose a half of their first constant. */
bool __real_loop_revar(sched *s, hn_loop *loop, const dims *to, uint32_t to_rank);
bool __wrap_loop_revar(sched *s, hn_loop *loop, const dims *to, uint32_t to_rank);
bool __wrap_loop_revar(sched *s, hn_loop *loop, const dims *to, uint32_t to_rank) {
    const bool done = __real_loop_revar(s, loop, to, to_rank);
    for (hn_sid k = 1; done && plants("fusion") && k < loop->body.count; k++) {
        hn_sop *op = &loop->body.items[k];
        if (op->kind != HN_SOP_CONST || !hn_dtype_is_float(op->dtype) || op->imm.f == 0) continue;
        op->imm.f *= 0.5;
        break;
    }
    return done;
}

/* --- kernels --- */

/* "sp_f(0x1.8p+9f)": the last digit in front of the end of the second one. */
static bool change_text(char *text) {
    char *at = text;
    for (int k = 0; k < 2 && at; k++) at = strstr(at + 1, "sp_f(0x1");
    char *end = at ? strstr(at, "f)") : NULL;
    if (!end || end[-1] < '0' || end[-1] > '9') return false;
    end[-1] = end[-1] == '0' ? '1' : (char)(end[-1] - 1);
    return true;
}

/* "0x1p-1f", a half, becomes a quarter. */
static bool halve_text(char *text) {
    char *at = strstr(text, "sp_f(0x1p-1f)");
    if (at) at[10] = '2';
    return at != NULL;
}

/* The third kernel of three loops and more; or each kernel that has a half in it. */
hn_status __real_hn_target_print(const hn_target *target, const hn_program *program,
                                 const hn_kernel *kernel, hn_arena *arena, hn_arena *scratch,
                                 hn_kernel_code *out);
hn_status __wrap_hn_target_print(const hn_target *target, const hn_program *program,
                                 const hn_kernel *kernel, hn_arena *arena, hn_arena *scratch,
                                 hn_kernel_code *out);
hn_status __wrap_hn_target_print(const hn_target *target, const hn_program *program,
                                 const hn_kernel *kernel, hn_arena *arena, hn_arena *scratch,
                                 hn_kernel_code *out) {
    HN_TRY(__real_hn_target_print(target, program, kernel, arena, scratch, out));
    const bool halves = plants("half");
    if (!halves && (!plants("kernel") || kernel->loop_count < 3 || ++long_kernels != 3))
        return NULL;
    char *text = hn_arena_strndup(arena, out->text.ptr, out->text.len);
    if (text && (halves ? halve_text(text) : change_text(text)))
        hn_kernel_code_name(out, (hn_str){text, out->text.len});
    return NULL;
}

/* --- calls --- */

static hn_ext_impl planted;
static const hn_ext_impl *wrong;

/* Takes all the memory that there is. */
static hn_status hog(void) {
    enum { PIECE_BYTES = 16 << 20 };
    for (;;) {
        volatile char *piece = malloc(PIECE_BYTES);
        if (!piece) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory is left");
        piece[0] = 1;
    }
}

static hn_status run_wrong(const hn_ext_call *call, void *scratch) {
    HN_TRY(wrong->run(call, scratch));
    if (plants("crash")) raise(SIGSEGV);
    if (plants("hog")) return hog();
    while (plants("hang")) pause();
    ((float *)call->operands[0])[1] += plants("nan") ? (float)NAN : 1;
    return NULL;
}

static bool plants_call(void) {
    return plants("call") || plants("crash") || plants("hang") || plants("nan") || plants("hog");
}

/* The fourth product that is prepared. */
hn_status __real_hn_ext_prepare(hn_ext_call *call);
hn_status __wrap_hn_ext_prepare(hn_ext_call *call);
hn_status __wrap_hn_ext_prepare(hn_ext_call *call) {
    static int count;
    HN_TRY(__real_hn_ext_prepare(call));
    if (!plants_call() || call->kind != HN_EXTERN_MATMUL || ++count % 4) return NULL;
    wrong = call->impl;
    planted = *wrong;
    planted.run = run_wrong;
    call->impl = &planted;
    return NULL;
}

/* --- lines --- */

/* A loop ends a round too early. */
static void cut_rounds(hn_wrapper *w) {
    for (uint32_t k = 0; k < w->lines.count; k++) {
        hn_line *line = &w->lines.items[k];
        if (line->kind != HN_LINE_LOOP || !line->rounds) continue;
        line->rounds = hn_sym_sub(w->sym, line->rounds, hn_sym_int(w->sym, 1));
        return;
    }
}

/* A kernel, the first one behind line `from`, does nothing. */
static void stop_kernel(hn_wrapper *w, uint32_t from) {
    while (from < w->lines.count && w->lines.items[from].kind != HN_LINE_KERNEL) from++;
    if (from < w->lines.count) w->lines.items[from].extent = hn_sym_int(w->sym, 0);
}

static uint32_t count_lines(const hn_wrapper *w, hn_line_kind kind) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < w->lines.count; k++) count += w->lines.items[k].kind == kind;
    return count;
}

hn_status __real_hn_wrapper_carry(hn_wrapper *w);
hn_status __wrap_hn_wrapper_carry(hn_wrapper *w);
hn_status __wrap_hn_wrapper_carry(hn_wrapper *w) {
    const uint32_t before = w->lines.count;
    HN_TRY(__real_hn_wrapper_carry(w));
    if (plants("carry") && w->lines.count < before) cut_rounds(w);
    return NULL;
}

hn_status __real_hn_wrapper_swap(hn_wrapper *w);
hn_status __wrap_hn_wrapper_swap(hn_wrapper *w);
hn_status __wrap_hn_wrapper_swap(hn_wrapper *w) {
    const uint32_t before = w->lines.count;
    HN_TRY(__real_hn_wrapper_swap(w));
    if (plants("swap") && w->lines.count > before) cut_rounds(w);
    return NULL;
}

hn_status __real_hn_wrapper_reuse(hn_wrapper *w);
hn_status __wrap_hn_wrapper_reuse(hn_wrapper *w);
hn_status __wrap_hn_wrapper_reuse(hn_wrapper *w) {
    HN_TRY(__real_hn_wrapper_reuse(w));
    if (!plants("reuse") || !count_lines(w, HN_LINE_REUSE)) return NULL;
    uint32_t k = 0;
    while (w->lines.items[k].kind != HN_LINE_REUSE) k++;
    stop_kernel(w, k);
    return NULL;
}

/* --- memory --- */

/* A temporary lies where the one before it of as many bytes does. */
hn_status __real_hn_wrapper_plan_with(hn_wrapper *w, const hn_plan_options *options,
                                      hn_memory_plan *out);
hn_status __wrap_hn_wrapper_plan_with(hn_wrapper *w, const hn_plan_options *options,
                                      hn_memory_plan *out);
hn_status __wrap_hn_wrapper_plan_with(hn_wrapper *w, const hn_plan_options *options,
                                      hn_memory_plan *out) {
    hn_wbuf before = 0;
    HN_TRY(__real_hn_wrapper_plan_with(w, options, out));
    for (hn_wbuf k = 1; plants("memory") && k < w->buffers.count; k++) {
        if (!out->offsets[k] || out->slots[k]) continue;
        if (before && w->buffers.items[k].bytes == w->buffers.items[before].bytes)
            out->offsets[k] = out->offsets[before];
        before = k;
    }
    return NULL;
}
