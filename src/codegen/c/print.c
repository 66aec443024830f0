/* print.c: a kernel as one C function: arguments, rows, phases, loops over lanes. */
#include "codegen/c/internal.h"

#include "codegen/c/mathlib.h"

#include <stdarg.h>
#include <string.h>

void c_put_begin(printer *pr) {
    for (uint32_t k = 0; k < pr->indent; k++) hn_strbuf_puts(&pr->out, "  ");
}

void c_put_line(printer *pr, const char *fmt, ...) {
    c_put_begin(pr);
    va_list args;
    va_start(args, fmt);
    hn_strbuf_vprintf(&pr->out, fmt, args);
    va_end(args);
    hn_strbuf_putc(&pr->out, '\n');
}

void c_open_block(printer *pr, const char *text) {
    c_put_line(pr, "%s{", text);
    pr->indent++;
}

void c_close_block(printer *pr) {
    pr->indent--;
    c_put_line(pr, "}");
}

/* --- bodies --- */

/* The ops of one loop level; `first`: from which level on. */
void c_put_level_range(printer *pr, uint32_t first, uint32_t last) {
    const hn_kernel_phase *phase = pr->at->phase;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        if (!pr->at->ops[s].live || pr->at->ops[s].level < first || pr->at->ops[s].level > last) continue;
        if (phase->scan && phase->body.items[s].kind == HN_SOP_RESULT) continue;
        c_put_sop(pr, s);
    }
}

void c_put_phase_effects(printer *pr) {
    const hn_kernel_phase *phase = pr->at->phase;
    for (uint32_t k = 0; k < phase->reduces.count; k++) c_put_reduce_step(pr, &phase->reduces.items[k]);
    for (hn_sid s = 1; s < phase->body.count && phase->scan; s++)
        if (pr->at->ops[s].live && phase->body.items[s].kind == HN_SOP_RESULT) c_put_sop(pr, s);
    for (uint32_t k = 0; k < phase->stores.count; k++) c_put_store(pr, k);
}

/* One vector of the innermost loop, in a block of its own. */
void c_put_vector(printer *pr, const char *head, uint32_t first_level, uint32_t copy, bool tail) {
    pr->copy = copy;
    pr->tail = tail;
    c_open_block(pr, "");
    c_put_line(pr, "%s", head);
    if (tail && pr->at->phase->reduces.count && !pr->plan->lanes_are_rows) c_put_line(pr, "const vi live = lanes_below(n);");
    c_put_level_range(pr, first_level, pr->at->phase->rank);
    c_put_phase_effects(pr);
    if (!tail) c_put_prefetches(pr);
    c_close_block(pr);
    pr->tail = false;
    pr->copy = 0;
}

/* for (var...) loops of the inner dims [from, to); ops of each level go in as soon as their variables are known. */
void c_open_loops(printer *pr, uint32_t from, uint32_t to, bool with_levels) {
    for (uint32_t d = from; d < to; d++) {
        uint32_t ordinal = hn_sym_index_ordinal(pr->sym, pr->at->phase->vars[d]);
        c_put_begin(pr);
        hn_strbuf_printf(&pr->out, "for (ll i%u = 0, e = ", ordinal);
        c_put_index(pr, extent_of(pr, pr->at->phase->vars[d]));
        hn_strbuf_printf(&pr->out, "; i%u < e; i%u++) {\n", ordinal, ordinal);
        pr->indent++;
        if (with_levels) c_put_level_range(pr, d + 1, d + 1);
    }
}

/* Vectors u = 0... of a step, and those of the phase that follows. */
static void put_unrolled(printer *pr, uint32_t unroll, uint32_t first_level) {
    char head[48];
    for (uint32_t u = 0; u < unroll; u++) {
        snprintf(head, sizeof head, "const ll j = at + %u; (void)j;", u * pr->lanes);
        c_put_vector(pr, head, first_level, u, false);
    }
    for (uint32_t u = 0; u < unroll && pr->follower; u++) {
        snprintf(head, sizeof head, "const ll j = at + %u; (void)j;", u * pr->lanes);
        c_put_follower(pr, head, false);
    }
}

static void put_single(printer *pr, const char *head, uint32_t first_level, bool tail) {
    c_put_vector(pr, head, first_level, 0, tail);
    if (pr->follower) c_put_follower(pr, head, tail);
}

/* The elements that fill no vector. */
static void put_rest(printer *pr, uint32_t first_level) {
    switch (pr->at->loop.rest) {
    case HN_CPU_REST_NONE: return;
    case HN_CPU_REST_OVERLAPPING:
        c_open_block(pr, "for (; at < hi; at += VF) ");
        c_put_vector(pr, "const ll j = imin(at, hi - VF); (void)j;", first_level, 0, false);
        break;
    case HN_CPU_REST_MASKED:
        c_open_block(pr, "if (at < hi) ");
        put_single(pr, "const ll j = at, n = hi - at; (void)j; (void)n;", first_level, true);
        break;
    }
    c_close_block(pr);
}

/* The loop over lanes in [lo, hi): unrolled; of single vectors; then the rest. `lo` and `hi` are C expressions. */
static void put_lane_loop(printer *pr, const char *lo, uint32_t first_level) {
    const hn_cpu_lane_loop *loop = &pr->at->loop;
    uint32_t step = pr->lanes * loop->unroll;
    c_put_line(pr, "ll at = %s;", lo);
    if (loop->has_unrolled) {
        c_put_line(pr, "for (; at + %u <= hi; at += %u) {", step, step);
        pr->indent++;
        put_unrolled(pr, loop->unroll, first_level);
        c_close_block(pr);
    }
    if (loop->has_single) {
        c_open_block(pr, "for (; at + VF <= hi; at += VF) ");
        put_single(pr, "const ll j = at; (void)j;", first_level, false);
        c_close_block(pr);
    }
    put_rest(pr, first_level);
}

/* Around what was hoisted out of loops that may have no iteration. Returns whether a block was opened. */
static bool open_if_any(printer *pr) {
    bool any = false;
    for (uint32_t d = 0; d < pr->at->phase->rank; d++) {
        if (!(pr->at->maybe_empty >> d & 1)) continue;
        if (!any) c_put_begin(pr);
        hn_strbuf_puts(&pr->out, any ? " && " : "if (");
        c_put_index(pr, extent_of(pr, pr->at->phase->vars[d]));
        hn_strbuf_puts(&pr->out, " > 0");
        any = true;
    }
    if (!any) return false;
    hn_strbuf_puts(&pr->out, ") {\n");
    pr->indent++;
    return true;
}

/* The loops of a phase with a lane. */
static void put_loops(printer *pr) {
    const hn_kernel_phase *phase = pr->at->phase;
    for (uint32_t k = 0; k < phase->reduces.count; k++)
        for (uint32_t u = 0; u < pr->at->loop.unroll; u++) c_put_reduce_init(pr, &phase->reduces.items[k], u);
    bool guarded = open_if_any(pr);
    c_put_level_range(pr, 0, 0);
    c_put_indices_ahead(pr);
    c_open_loops(pr, 0, phase->rank - 1, true);
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll hi = ");
    c_put_index(pr, extent_of(pr, pr->at->lane));
    hn_strbuf_puts(&pr->out, ";\n");
    put_lane_loop(pr, "0", phase->rank);
    for (uint32_t d = 0; d + 1 < phase->rank; d++) c_close_block(pr);
    if (guarded) c_close_block(pr);
}

/* A phase whose lanes run along its last inner dim (or that has none). */
void c_put_phase_inner(printer *pr, const hn_cpu_phase *ph) {
    const hn_kernel_phase *phase = ph->phase;
    pr->at = ph;
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        c_put_line(pr, "%s r%u;", c_result_type(r), r->slot);
    }
    c_open_block(pr, "");
    if (ph->lane) {
        put_loops(pr);
    } else {
        c_put_level_range(pr, 0, 0);
        c_put_phase_effects(pr);
    }
    for (uint32_t k = 0; k < phase->reduces.count; k++) c_put_reduce_finish(pr, &phase->reduces.items[k], ph->lane ? ph->loop.unroll : 1);
    c_close_block(pr);
}

/* The only phase of a flat kernel: the lane loop covers this call's part of the range. Blocks are whole steps, so that the last
 * block's rest is the whole's. */
static void put_phase_flat(printer *pr) {
    c_put_level_range(pr, 0, 0);
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll hi = imin(");
    c_put_index(pr, extent_of(pr, pr->at->lane));
    hn_strbuf_printf(&pr->out, ", end * %u);\n", pr->plan->facts->flat_block_elems);
    char lo[48];
    snprintf(lo, sizeof lo, "begin * %u", pr->plan->facts->flat_block_elems);
    put_lane_loop(pr, lo, 1);
}

/* --- the function --- */

/* Outer variables from the row number; the last `skip` are handled by the caller. */
void c_put_rows(printer *pr, const char *row, uint32_t count) {
    if (count == 0) return;
    if (count > 1) c_put_line(pr, "ll o = %s;", row);
    for (uint32_t d = count; d-- > 0;) {
        uint32_t ordinal = hn_sym_index_ordinal(pr->sym, pr->k->vars[d]);
        if (d == 0) {
            c_put_line(pr, "const ll i%u = %s;", ordinal, count > 1 ? "o" : row);
            break;
        }
        c_put_begin(pr);
        hn_strbuf_printf(&pr->out, "const ll i%u = o %% ", ordinal);
        c_put_index(pr, extent_of(pr, pr->k->vars[d]));
        hn_strbuf_puts(&pr->out, "; o /= ");
        c_put_index(pr, extent_of(pr, pr->k->vars[d]));
        hn_strbuf_puts(&pr->out, ";\n");
    }
}

static void put_row_kernel(printer *pr) {
    hn_cpu_form form = pr->plan->form;
    if (form == HN_CPU_ROWS_PIPELINED) c_put_pipelined_rows(pr);
    if (form == HN_CPU_ROWS_SPLIT) c_put_split_rows(pr);
    c_open_block(pr, "for (ll row = begin; row < end; row++) ");
    if (pr->k->rank == 0) c_put_line(pr, "(void)row;");
    c_put_rows(pr, "row", pr->k->rank);
    for (uint32_t f = 0; f < pr->k->phases.count; f++) c_put_phase_inner(pr, &pr->plan->phases[f]);
    c_close_block(pr);
    if (form == HN_CPU_ROWS_PIPELINED) c_close_block(pr);
}

static void put_body(printer *pr) {
    switch (pr->plan->form) {
    case HN_CPU_FLAT: put_phase_flat(pr); break;
    case HN_CPU_COLUMNS_NARROW: case HN_CPU_COLUMNS_WIDE: c_put_column_kernel(pr); break;
    case HN_CPU_TILES: case HN_CPU_TILES_WIDE: c_put_tile_kernel(pr); break;
    case HN_CPU_ROWS: case HN_CPU_ROWS_PIPELINED: case HN_CPU_ROWS_SPLIT: put_row_kernel(pr); break;
    }
}

/* Local buffers in the scratch memory: l0, l1..., or m0, m1... that are double. */
static void put_locals(printer *pr) {
    char letter = pr->plan->form == HN_CPU_ROWS_PIPELINED ? 'm' : 'l';
    for (uint32_t k = 0; k < pr->k->locals.count; k++) {
        const char *type = hn_dtype_facts(pr->p->buffers.items[pr->k->locals.items[k].buffer].dtype)->c_type;
        c_put_line(pr, "%s *%c%u = (%s *)((char *)scratch + %lld);", type, letter, k, type, (long long)pr->plan->locals[k].offset_bytes);
    }
}

static void put_arguments(printer *pr) {
    for (uint32_t k = 0; k < pr->buffers.count; k++) {
        hn_buf b = pr->buffers.items[k];
        hn_dtype d = pr->p->buffers.items[b].dtype;
        const char *type = d == HN_DTYPE_I64 ? "ll" : hn_dtype_facts(d)->c_type;
        c_put_line(pr, "%s%s *b%u = B[%u];", hn_cpu_writes(pr->plan, b) ? "" : "const ", type, k, k);
    }
    for (uint32_t k = 0; k < pr->sizes.count; k++) c_put_line(pr, "const ll n%u = S[%u];", k, k);
}

/* The head comes after the body, which tells the order of the arguments. */
static hn_status print_function(printer *pr) {
    hn_strbuf body;
    hn_strbuf_init(&pr->out);
    pr->indent = 1;
    put_body(pr);
    body = pr->out;
    hn_strbuf_init(&pr->out);
    hn_status status = pr->failed;
    if (!status) status = hn_strbuf_status(&body);
    if (!status) {
        hn_strbuf_puts(&pr->out, "int KERNEL(void *const *B, const ll *S, ll begin, ll end, void *scratch) {\n  int err = 0;\n");
        put_arguments(pr);
        c_put_line(pr, "(void)S; (void)scratch;");
        if (pr->plan->checks_narrow) c_put_line(pr, "vi outside = sp_i(0);");
        put_locals(pr);
        hn_strbuf_append(&pr->out, body.ptr, body.len);
        if (pr->plan->has_fence) c_put_line(pr, "nt_fence();");
        if (pr->plan->checks_narrow) c_put_line(pr, "LANES err |= outside[k] != 0;");
        hn_strbuf_puts(&pr->out, "  return err;\n}\n");
        status = hn_strbuf_status(&pr->out);
    }
    hn_strbuf_deinit(&body);
    return status;
}

static hn_status list_arguments(printer *pr, hn_kernel_code *out) {
    bool *written;
    uint64_t *over;
    HN_NEW(pr->arena, written, pr->buffers.count);
    HN_NEW(pr->arena, over, pr->buffers.count);
    for (uint32_t k = 0; k < pr->buffers.count; k++) written[k] = hn_cpu_writes(pr->plan, pr->buffers.items[k]);
    hn_cpu_in_place(pr->plan, pr->buffers.items, pr->buffers.count, over);
    out->buffers = pr->buffers.items;
    out->offsets = pr->offsets.items;
    out->written = written;
    out->over = over;
    out->buffer_count = pr->buffers.count;
    out->sizes = pr->sizes.items;
    out->size_count = pr->sizes.count;
    return NULL;
}

static hn_status finish(printer *pr, hn_kernel_code *out) {
    char *text = hn_arena_strndup(pr->arena, pr->out.ptr, pr->out.len);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while printing a kernel");
    hn_kernel_code_name(out, (hn_str){text, pr->out.len});
    out->extent = pr->plan->extent;
    out->grain = pr->plan->grain;
    if (pr->plan->scratch_bytes) out->scratch_bytes = hn_sym_int(pr->sym, pr->plan->scratch_bytes);
    return list_arguments(pr, out);
}

hn_status hn_c_print(const hn_program *program, const hn_kernel *kernel, const hn_target *target, hn_arena *arena,
                     hn_arena *scratch, hn_kernel_code *out) {
    hn_cpu_plan *plan;
    *out = (hn_kernel_code){0};
    HN_TRY(hn_cpu_plan_create(program, kernel, target->vector_bytes, target->kind->cpu, scratch, &plan));
    printer pr = {.plan = plan, .p = program, .sym = program->sym, .k = kernel, .lanes = plan->lanes, .arena = arena, .at = plan->phases};
    hn_status status = print_function(&pr);
    if (!status) status = finish(&pr, out);
    hn_strbuf_deinit(&pr.out);
    return status;
}

hn_status hn_c_unit(const hn_kernel_code *const *kernels, uint32_t count, const hn_target *target, hn_strbuf *out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < count; k++) hn_kernel_code_put(kernels[k], &text);
    hn_c_prelude(hn_strbuf_str(&text), target->vector_bytes / 4, out);
    hn_strbuf_append(out, text.ptr ? text.ptr : "", text.len);
    hn_status status = hn_strbuf_status(&text);
    hn_strbuf_deinit(&text);
    return status ? status : hn_strbuf_status(out);
}
