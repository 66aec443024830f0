/* test_form_run.c: programs through schedule, planner and interpreter of forms: with a planner that
 * has one thread for everything, so that a fault is not the planner's, and with that for GPUs. */
#include "base/compiler.h"
#include "kernel/plan_cpu.h"
#include "kernel/plan_gpu.h"
#include "kernel/segments.h"
#include "tests/support/form_run.h"
#include "tests/support/imaginary_gpu.h"
#include "tests/support/random_graph.h"
#include "unit/harness.h"

/* --- one thread --- */

typedef struct serial {
    const hn_program *p;
    const hn_kernel *k;
    hn_arena *scratch;
    hn_form *f;
    hn_fmem *locals;    /* per local buffer */
    hn_freg *registers; /* per slot */
    hn_fid *results;    /* per slot */
} serial;

static void open_loops(serial *s, const hn_expr *vars, uint32_t count) {
    hn_expr zero = hn_sym_int(s->p->sym, 0);
    for (uint32_t d = 0; d < count; d++)
        hn_form_for(s->f, vars[d], zero, hn_sym_symbol_extent(s->p->sym, vars[d]), 1);
}

static void close_loops(serial *s, uint32_t count) {
    while (count--) hn_form_close(s->f);
}

static hn_fmem memory_of(serial *s, hn_buf b, bool is_written) {
    for (uint32_t l = 0; l < s->k->locals.count; l++) {
        if (s->k->locals.items[l].buffer != b) continue;
        hn_form_memory *memory = &s->f->memories.items[s->locals[l]];
        *(is_written ? &memory->is_written : &memory->is_read) = true;
        return s->locals[l];
    }
    return hn_form_argument(s->f, b, 0, is_written);
}

static hn_fid emit_result(serial *s, const hn_sop *op, bool so_far) {
    hn_fid value = so_far ? hn_form_result(s->f, s->registers[op->imm.i], op->op == HN_OP_ARGMAX)
                          : s->results[op->imm.i];
    if (s->f->stmts.items[value].op.dtype == op->dtype) return value;
    return hn_form_value(s->f, (hn_sop){.kind = HN_SOP_CAST, .dtype = op->dtype, .args = {value}});
}

static hn_fid emit_op(serial *s, const hn_kernel_phase *phase, hn_sop op, const hn_fid *values) {
    if (op.kind == HN_SOP_RESULT) return emit_result(s, &op, phase->scan);
    for (uint32_t a = 0; a < 3; a++) op.args[a] = values[op.args[a]];
    if (op.kind == HN_SOP_LOAD) op.buffer = memory_of(s, op.buffer, false);
    return hn_form_value(s->f, op);
}

static void emit_step(serial *s, const hn_kernel_reduce *r, const hn_fid *values) {
    hn_sop index = {.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = r->position};
    hn_fid position = hn_op_keeps_position(r->op) ? hn_form_value(s->f, index) : 0;
    hn_form_step(s->f, s->registers[r->slot], values[r->value], position);
}

/* One element. A scan's results so far come behind its step. */
static hn_status emit_body(serial *s, const hn_kernel_phase *phase) {
    const hn_body *body = &phase->body;
    hn_fid *values;
    HN_NEW(s->scratch, values, body->count + 1);
    for (int late = 0; late <= phase->scan; late++) {
        for (hn_sid k = 1; k < body->count; k++)
            if ((phase->scan && body->items[k].kind == HN_SOP_RESULT) == late)
                values[k] = emit_op(s, phase, body->items[k], values);
        for (uint32_t k = 0; k < phase->reduces.count && !late; k++)
            emit_step(s, &phase->reduces.items[k], values);
    }
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        const hn_kernel_store *store = &phase->stores.items[k];
        hn_fmem m = memory_of(s, store->buffer, true);
        hn_form_store(s->f, m, store->index, values[store->value], store->mode);
    }
    return NULL;
}

/* Each phase has a block of its own, since phases may bind the same checked index. */
static hn_status emit_phase(serial *s, const hn_kernel_phase *phase) {
    hn_expr once = hn_form_symbol(s->f, hn_sym_int(s->p->sym, 1));
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        s->registers[r->slot] = hn_form_add_register(s->f, r->op, r->dtype);
        hn_form_init(s->f, s->registers[r->slot]);
    }
    open_loops(s, &once, 1);
    open_loops(s, phase->vars, phase->rank);
    HN_TRY(emit_body(s, phase));
    close_loops(s, phase->rank + 1);
    for (uint32_t k = 0; k < phase->reduces.count && !phase->scan; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        s->results[r->slot] =
            hn_form_result(s->f, s->registers[r->slot], hn_op_keeps_position(r->op));
    }
    return NULL;
}

static hn_status plan_serial(void *context, const hn_program *p, const hn_kernel *k,
                             hn_arena *arena, hn_arena *scratch, hn_form **out) {
    serial s = {.p = p, .k = k, .scratch = scratch};
    (void)context;
    HN_TRY(hn_form_create(p, arena, 1, hn_sym_int(p->sym, 1), &s.f));
    HN_NEW(scratch, s.locals, k->locals.count + 1);
    HN_NEW(scratch, s.registers, k->slots + 1);
    HN_NEW(scratch, s.results, k->slots + 1);
    for (uint32_t l = 0; l < k->locals.count; l++)
        s.locals[l] = hn_form_add_memory(
            s.f, (hn_form_memory){.space = HN_SPACE_SCRATCH,
                                  .dtype = p->buffers.items[k->locals.items[l].buffer].dtype,
                                  .elems = k->locals.items[l].extent_elems});
    open_loops(&s, k->vars, k->rank);
    for (uint32_t f = 0; f < k->phases.count; f++) HN_TRY(emit_phase(&s, &k->phases.items[f]));
    close_loops(&s, k->rank);
    HN_TRY(hn_form_set_segments(s.f, k));
    *out = s.f;
    return hn_form_end(s.f);
}

static hn_status plan_gpu(void *context, const hn_program *p, const hn_kernel *k, hn_arena *arena,
                          hn_arena *scratch, hn_form **out) {
    (void)context;
    return hn_form_plan_gpu(p, k, &hn_test_gpu, arena, scratch, out);
}

/* --- graphs --- */

static hn_status check_graph(uint64_t seed, hn_arena *arena, hn_graph *graph,
                             const double *tolerance, hn_form_planner plan, uint32_t *kernels,
                             void *context) {
    hn_sched_limits limits = hn_test_gpu.limits;
    if (plan == plan_serial) limits.mixed_slabs = 0; /* it knows no kernels of slabs */
    const hn_forms_check how = {
        .plan = plan,
        .context = context,
        .facts = plan == plan_gpu ? &hn_test_gpu : NULL,
        .schedule = {.threads = hn_test_gpu.multiprocessors, .limits = &limits},
        .reads_all = plan == plan_serial};
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    hn_forms_count count = {0};
    HN_TRY(hn_random_inputs(seed, arena, graph, 0, inputs));
    hn_status status = hn_check_forms(graph, inputs, tolerance, &how, &count);
    *kernels = count.kernels;
    return status;
}

/* The graph of a seed, or of statements. */
static hn_status check(uint64_t seed, const char *statements, hn_form_planner plan,
                       uint32_t *kernels, void *context) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    double tolerance[HN_RANDOM_MAX_TENSORS] = {0};
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_arena_init(&arena);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", statements ? statements : "");
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status)
        status = statements ? hn_graph_parse(&arena, sym, hn_strbuf_str(&text), &graph)
                            : hn_random_graph(seed, &arena, sym, &graph, tolerance);
    if (!status) status = check_graph(seed, &arena, graph, tolerance, plan, kernels, context);
    if (graph) hn_graph_deinit(graph);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
    return status;
}

TEST(random_programs_on_one_thread) {
    uint32_t kernels = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        uint32_t of_seed = 0;
        hn_status status = check(seed, NULL, plan_serial, &of_seed, NULL);
        if (status)
            HN_TEST_FAIL("seed %llu: %s", (unsigned long long)seed, hn_status_message(status));
        hn_status_free(status);
        kernels += of_seed;
    }
    EXPECT(kernels > 800);
}

/* Sums of quarters are exact in any order. Each line is a graph, and how many kernels it has. */
TEST(kernels_of_a_gpu) {
    static const struct {
        uint32_t kernels;
        const char *statements;
    } cases[] = {
        {2, "input user %x : f32[131072] \"x\"\n" /* a long reduction is two */
            "%s = sum(%x, dims=[0], keepdim=false)\noutput user %s \"\""},
        {1, "input user %x : f32[3, 5000] \"x\"\n"
            "%i = argmax(%x, dims=[1], keepdim=false)\noutput user %i \"\""},
        {1, "input user %x : f32[33, 129] \"x\"\n"
            "%s = sum(%x, dims=[0], keepdim=false)\noutput user %s \"\""},
        {1, "input user %x : f32[17, 65] \"x\"\n"
            "%m = amax(%x, dims=[1], keepdim=true)\n%d = sub(%x, %m)\n%e = abs(%d)\n"
            "%s = sum(%e, dims=[1], keepdim=true)\n%y = add(%e, %s)\noutput user %y \"\""},
        {1, "input user %x : i64[7, 33] \"x\"\n"
            "%y, %i = cummax(%x, dim=1)\noutput user %y \"\"\noutput user %i \"\""},
    };
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        uint32_t kernels;
        EXPECT_OK(check(3, cases[k].statements, plan_gpu, &kernels, NULL));
        EXPECT_INT(kernels, cases[k].kernels);
        EXPECT_OK(check(3, cases[k].statements, plan_serial, &kernels, NULL));
    }
}

static hn_status plan_cpu(void *context, const hn_program *p, const hn_kernel *k, hn_arena *arena,
                          hn_arena *scratch, hn_form **out) {
    *(uint32_t *)context += k->slabs > 0;
    return hn_form_plan_cpu(p, k, 32, &hn_cpu_facts_common, arena, scratch, out);
}

/* Reductions down the columns of rows that are reduced as well: the forms of a CPU, in slabs. The
 * numbers are exact in any order. */
TEST(columns_of_rows_on_a_cpu) {
    static const char *const cases[] = {
        /* RMS norm, and layer norm with a bias */
        "input user %d : f32[37, 65] \"d\"\ninput user %x : f32[37, 65] \"x\"\n"
        "%p = mul(%d, %x)\n%s = sum(%p, dims=[1], keepdim=true)\n%y = sub(%d, %s)\n"
        "%w = sum(%p, dims=[0], keepdim=false)\noutput user %y \"\"\noutput user %w \"\"",
        "input user %d : f32[40, 24] \"d\"\ninput user %x : f32[40, 24] \"x\"\n"
        "%p = mul(%d, %x)\n%s = sum(%p, dims=[1], keepdim=true)\n"
        "%t = sum(%d, dims=[1], keepdim=true)\n%a = sub(%d, %s)\n%y = sub(%a, %t)\n"
        "%w = sum(%p, dims=[0], keepdim=false)\n%b = sum(%d, dims=[0], keepdim=false)\n"
        "output user %y \"\"\noutput user %w \"\"\noutput user %b \"\"",
        /* 16-bit inputs and results, three dimensions */
        "input user %d0 : bf16[5, 7, 33] \"d\"\ninput user %x : f32[5, 7, 33] \"x\"\n"
        "%d = cast(%d0, dtype=f32)\n%p = mul(%d, %x)\n%s = sum(%p, dims=[2], keepdim=true)\n"
        "%y = sub(%d, %s)\n%w = sum(%p, dims=[0, 1], keepdim=false)\n%v = cast(%w, dtype=f16)\n"
        "output user %y \"\"\noutput user %v \"\"",
        /* other reductions, and fewer rows than slabs */
        "input user %x : f32[50, 19] \"x\"\n%s = sum(%x, dims=[1], keepdim=true)\n"
        "%y = sub(%x, %s)\n%m = amax(%x, dims=[0], keepdim=false)\n"
        "output user %y \"\"\noutput user %m \"\"",
        "input user %x : i64[2, 70] \"x\"\n%s = sum(%x, dims=[1], keepdim=true)\n"
        "%y = sub(%x, %s)\n%m = sum(%x, dims=[0], keepdim=false)\n"
        "output user %y \"\"\noutput user %m \"\"",
    };
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        uint32_t kernels, slabs = 0;
        EXPECT_OK(check(3, cases[k], plan_cpu, &kernels, &slabs));
        EXPECT_INT(slabs, 1);
    }
}

/* A plan that leaves something out is found. */
static hn_status plan_wrong(void *context, const hn_program *p, const hn_kernel *k, hn_arena *arena,
                            hn_arena *scratch, hn_form **out) {
    HN_TRY(plan_gpu(context, p, k, arena, scratch, out));
    for (hn_fid s = 1; s < (*out)->stmts.count; s++)
        if ((*out)->stmts.items[s].kind == HN_FORM_STEP) (*out)->stmts.items[s].kind = HN_FORM_INIT;
    return NULL;
}

TEST(wrong_values_are_found) {
    uint32_t kernels;
    EXPECT_ERROR(check(3,
                       "input user %x : f32[9] \"x\"\n"
                       "%s = sum(%x, dims=[0], keepdim=false)\noutput user %s \"\"",
                       plan_wrong, &kernels, NULL),
                 HN_INTERNAL, "output 0 differs");
}

TEST_MAIN
