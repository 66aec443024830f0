/* planted.c: faults in passes, rules, fusion, kernels, calls and memory, for tests of what finds
 * them. Linked into programs of tests in front of the library's own functions (--wrap of the
 * linker); HENRY_PLANT names the fault, and without it everything is as usual. */
#include "codegen/codegen.h"
#include "opt/decompose/decompose.h"
#include "opt/patterns/pattern.h"
#include "ops/cpu/ext.h"
#include "sched/internal.h"
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
