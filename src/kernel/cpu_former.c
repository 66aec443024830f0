/* cpu_former.c: the parts of forms of ranges: ops, reductions, stores and loops of a phase as
 * statements. */
#include "kernel/cpu_former.h"

#include "ir/sop.h"

/* ---- the whole ---- */

static hn_status add_locals(hn_former *fm) {
    const hn_cpu_plan *pl = fm->plan;
    bool twice = pl->form == HN_CPU_ROWS_PIPELINED;
    HN_NEW(fm->scratch, fm->locals, fm->k->locals.count);
    HN_NEW(fm->scratch, fm->local_begins, fm->k->locals.count);
    for (uint32_t k = 0; k < fm->k->locals.count; k++) {
        hn_form_memory memory = {.space = HN_SPACE_SCRATCH,
                                 .dtype = hn_cpu_dtype(pl, fm->k->locals.items[k].buffer),
                                 .stale = twice};
        memory.elems = hn_former_int(fm, twice ? 2 * pl->local_elems[k] : pl->local_elems[k]);
        fm->locals[k] = hn_form_add_memory(fm->f, memory);
    }
    return NULL;
}

hn_status hn_former_begin(const hn_cpu_plan *plan, hn_arena *arena, hn_arena *scratch,
                          hn_former *out) {
    const hn_kernel *k = plan->kernel;
    hn_expr grid = k->serial ? hn_sym_int(plan->sym, 1) : plan->extent;
    *out = (hn_former){.plan = plan, .k = k, .sym = plan->sym, .scratch = scratch};
    HN_TRY(hn_form_create_range(plan->program, arena, plan->lanes, grid, &out->f));
    out->f->grain = plan->grain;
    HN_NEW(scratch, out->registers, k->slots + 1);
    HN_NEW(scratch, out->result_memories, k->slots + 1);
    return add_locals(out);
}

hn_status hn_former_phase(hn_former *fm, uint32_t f) {
    fm->ph = &fm->plan->phases[f];
    uint32_t ops = fm->ph->phase->body.count + 1;
    HN_NEW(fm->scratch, fm->values, ops);
    HN_NEW(fm->scratch, fm->reciprocals, ops);
    HN_NEW(fm->scratch, fm->tiles, ops);
    HN_NEW(fm->scratch, fm->tile_indices, ops);
    fm->ahead_count = 0;
    HN_NEW(fm->scratch, fm->ahead_from, fm->ph->indices_ahead.count);
    HN_NEW(fm->scratch, fm->ahead_to, fm->ph->indices_ahead.count);
    return NULL;
}

/* ---- indices ---- */

hn_expr hn_former_index(hn_former *fm, hn_expr index) {
    const hn_former_renaming *names = &fm->renaming;
    return names->count ? hn_sym_subst(fm->sym, index, names->from, names->to, names->count)
                        : index;
}

void hn_former_rename(hn_former *fm, hn_expr from, hn_expr to) {
    hn_former_renaming *names = &fm->renaming;
    names->from[names->count] = from;
    names->to[names->count++] = to;
}

static uint32_t local_of(const hn_former *fm, hn_buf b) {
    uint32_t k = 0;
    while (k < fm->k->locals.count && fm->k->locals.items[k].buffer != b) k++;
    return k;
}

/* The memory for an access of buffer `b` at `access`, and `index` in it. */
static hn_fmem place(hn_former *fm, hn_buf b, bool is_written, hn_expr access, hn_expr *index) {
    uint32_t k = local_of(fm, b);
    hn_expr base = k < fm->k->locals.count ? 0 : hn_cpu_base_of(fm->plan, b, access);
    if (base) *index = hn_sym_sub(fm->sym, *index, base);
    *index = hn_former_index(fm, *index);
    if (k == fm->k->locals.count) return hn_form_argument(fm->f, b, base, is_written);
    if (fm->local_begins[k]) *index = hn_sym_add(fm->sym, fm->local_begins[k], *index);
    hn_form_memory *memory = &fm->f->memories.items[fm->locals[k]];
    *(is_written ? &memory->is_written : &memory->is_read) = true;
    return fm->locals[k];
}

hn_fmem hn_former_place(hn_former *fm, hn_buf b, bool is_written, hn_expr *index) {
    return place(fm, b, is_written, *index, index);
}

void hn_former_coordinates(hn_former *fm, hn_expr at, const hn_expr *vars, uint32_t count) {
    for (uint32_t d = count; d-- > 0;) {
        hn_expr extent = hn_former_extent(fm, vars[d]);
        if (hn_sym_is_value(fm->sym, extent, 0))
            extent = hn_former_int(fm, 1); /* no number is ever asked for */
        hn_form_let(fm->f, hn_former_index(fm, vars[d]), d ? hn_sym_mod(fm->sym, at, extent) : at);
        if (d) at = hn_sym_floordiv(fm->sym, at, extent);
    }
}

/* ---- ops ---- */

static hn_fid elem(hn_former *fm, hn_op op, hn_dtype dtype, hn_fid x, hn_fid y) {
    return hn_form_value(fm->f,
                         (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = dtype, .args = {x, y}});
}

static hn_fid cast(hn_former *fm, hn_dtype dtype, hn_fid x) {
    if (!x || fm->f->stmts.items[x].op.dtype == dtype) return x;
    return hn_form_value(fm->f, (hn_sop){.kind = HN_SOP_CAST, .dtype = dtype, .args = {x}});
}

/* x / (1 + e^-x) */
static hn_fid emit_gate(hn_former *fm, hn_fid x, hn_dtype dtype) {
    hn_fid one = hn_form_value(fm->f, (hn_sop){.kind = HN_SOP_CONST, .dtype = dtype, .imm.f = 1});
    hn_fid e = elem(fm, HN_OP_EXP, dtype, elem(fm, HN_OP_NEG, dtype, x, 0), 0);
    return elem(fm, HN_OP_DIV, dtype, x, elem(fm, HN_OP_ADD, dtype, one, e));
}

/* An INDEX or CONST in lanes of 32 bits. */
static hn_fid emit_narrow(hn_former *fm, hn_sid s) {
    if (!s) return 0;
    hn_sop op = fm->ph->phase->body.items[s];
    op.dtype = HN_DTYPE_I32;
    if (op.kind == HN_SOP_INDEX) op.index = hn_former_index(fm, op.index);
    return hn_form_value(fm->f, op);
}

static hn_fid emit_of_indices(hn_former *fm, hn_sop op) {
    for (uint32_t a = 0; a < 3; a++) op.args[a] = emit_narrow(fm, op.args[a]);
    return hn_form_value(fm->f, op);
}

/* Of a scan: so far. */
static hn_fid emit_result(hn_former *fm, const hn_sop *op) {
    hn_fmem memory = fm->result_memories[op->imm.i];
    hn_freg reg = fm->registers[op->imm.i];
    bool scan = fm->ph->phase->scan;
    if (memory && !scan)
        return cast(fm, op->dtype,
                    hn_form_value(fm->f, (hn_sop){.kind = HN_SOP_LOAD,
                                                  .dtype = fm->f->memories.items[memory].dtype,
                                                  .buffer = memory,
                                                  .index = fm->result_index}));
    bool position =
        scan ? op->op == HN_OP_ARGMAX : hn_op_keeps_position(fm->f->registers.items[reg].op);
    return cast(fm, op->dtype, hn_form_result(fm->f, reg, position));
}

static hn_fid emit_load(hn_former *fm, hn_sid s, hn_sop op) {
    op.buffer = fm->tiles[s] ? fm->tiles[s] : hn_former_place(fm, op.buffer, false, &op.index);
    if (fm->tiles[s]) op.index = fm->tile_indices[s];
    return hn_form_value(fm->f, op);
}

/* A narrow one is bound to what its argument was cast from. */
static hn_fid emit_indirect(hn_former *fm, hn_sid s, hn_sop op) {
    hn_sid from = op.args[0];
    op.args[0] = fm->values[from];
    if (fm->ph->ops[s].narrow)
        op.args[0] = cast(fm, HN_DTYPE_I32, fm->values[fm->ph->phase->body.items[from].args[0]]);
    return hn_form_value(fm->f, op);
}

/* Written as it stands. */
static hn_fid emit_plain(hn_former *fm, hn_sid s, hn_sop op) {
    const hn_cpu_op *facts = &fm->ph->ops[s];
    for (uint32_t a = 0; a < 3; a++) op.args[a] = fm->values[op.args[a]];
    if (hn_sop_has_index(&op)) op.index = hn_former_index(fm, op.index);
    return hn_form_add(
        fm->f, (hn_form_stmt){.kind = HN_FORM_VALUE,
                              .op = op,
                              .rounded = facts->rounded,
                              .not_positive = facts->rewrite == HN_REWRITE_EXP_NOT_POSITIVE});
}

static hn_fid emit_kind(hn_former *fm, hn_sid s, hn_sop op) {
    switch (op.kind) {
    case HN_SOP_LOAD: return emit_load(fm, s, op);
    case HN_SOP_INDIRECT: return emit_indirect(fm, s, op);
    case HN_SOP_RESULT: return emit_result(fm, &op);
    default: return emit_plain(fm, s, op);
    }
}

static hn_fid emit_rewritten(hn_former *fm, hn_sid s, hn_sop op) {
    switch (fm->ph->ops[s].rewrite) {
    case HN_REWRITE_GATE: return emit_gate(fm, fm->values[fm->ph->ops[s].gate], op.dtype);
    case HN_REWRITE_RECIPROCAL:
        return elem(fm, HN_OP_MUL, op.dtype, fm->values[op.args[0]], fm->reciprocals[op.args[1]]);
    case HN_REWRITE_NARROW_INDICES: return emit_of_indices(fm, op);
    case HN_REWRITE_NONE:
    case HN_REWRITE_EXP_NOT_POSITIVE: break;
    }
    return emit_kind(fm, s, op);
}

static void emit_sop(hn_former *fm, hn_sid s) {
    const hn_sop *op = &fm->ph->phase->body.items[s];
    fm->values[s] = emit_rewritten(fm, s, *op);
    if (fm->ph->ops[s].is_divisor)
        fm->reciprocals[s] = elem(fm, HN_OP_RECIPROCAL, op->dtype, fm->values[s], 0);
}

static bool is_running_value(const hn_former *fm, hn_sid s) {
    return fm->ph->phase->scan && fm->ph->phase->body.items[s].kind == HN_SOP_RESULT;
}

void hn_former_levels(hn_former *fm, uint32_t first, uint32_t last) {
    for (hn_sid s = 1; s < fm->ph->phase->body.count; s++) {
        const hn_cpu_op *op = &fm->ph->ops[s];
        if (op->live && op->level >= first && op->level <= last && !is_running_value(fm, s))
            emit_sop(fm, s);
    }
}

/* ---- reductions and stores ---- */

void hn_former_init(hn_former *fm, const hn_kernel_reduce *r) {
    hn_freg reg = hn_form_add_register(fm->f, r->op, r->dtype);
    fm->f->registers.items[reg].loses_nan =
        fm->ph->reduces[r - fm->ph->phase->reduces.items].loses_nan;
    fm->registers[r->slot] = reg;
    hn_form_init(fm->f, reg);
}

void hn_former_inits(hn_former *fm) {
    for (uint32_t k = 0; k < fm->ph->phase->reduces.count; k++)
        hn_former_init(fm, &fm->ph->phase->reduces.items[k]);
}

void hn_former_across(hn_former *fm) {
    for (uint32_t k = 0; k < fm->ph->phase->reduces.count; k++)
        hn_form_across(fm->f, fm->registers[fm->ph->phase->reduces.items[k].slot]);
}

static void emit_step(hn_former *fm, const hn_kernel_reduce *r) {
    hn_fid position = 0;
    if (hn_op_keeps_position(r->op))
        position = hn_form_value(fm->f, (hn_sop){.kind = HN_SOP_INDEX,
                                                 .dtype = HN_DTYPE_I64,
                                                 .index = hn_former_index(fm, r->position)});
    hn_form_step(fm->f, fm->registers[r->slot], fm->values[r->value], position);
}

static void emit_store(hn_former *fm, uint32_t number) {
    const hn_kernel_store *store = &fm->ph->phase->stores.items[number];
    hn_form_stmt stmt = {.kind = HN_FORM_STORE,
                         .index = store->index,
                         .value = fm->values[store->value],
                         .mode = store->mode,
                         .streams = fm->ph->stores[number].nontemporal,
                         .is_aligned = fm->stores_are_aligned,
                         .in_order = fm->k->serial && fm->ph->lane};
    stmt.memory = hn_former_place(fm, store->buffer, true, &stmt.index);
    if (store->mode != HN_STORE_SET) fm->f->memories.items[stmt.memory].is_read = true;
    (void)hn_form_add(fm->f, stmt);
}

void hn_former_effects(hn_former *fm) {
    const hn_kernel_phase *phase = fm->ph->phase;
    for (uint32_t k = 0; k < phase->reduces.count; k++) emit_step(fm, &phase->reduces.items[k]);
    for (hn_sid s = 1; s < phase->body.count && phase->scan; s++)
        if (fm->ph->ops[s].live && is_running_value(fm, s)) emit_sop(fm, s);
    for (uint32_t k = 0; k < phase->stores.count; k++) emit_store(fm, k);
}

/* ---- prefetches ---- */

/* The index of a row ahead, for each checked index that is one number for the row. */
static void emit_indices_ahead(hn_former *fm) {
    for (uint32_t k = 0; k < fm->ph->indices_ahead.count; k++) {
        const hn_cpu_index_ahead *from = &fm->ph->indices_ahead.items[k];
        hn_sop load = {.kind = HN_SOP_LOAD,
                       .dtype = hn_cpu_dtype(fm->plan, from->buffer),
                       .index = from->index};
        load.buffer = place(fm, from->buffer, false, from->access, &load.index);
        hn_fid value = cast(fm, HN_DTYPE_I64, hn_form_value(fm->f, load));
        hn_expr symbol = fm->ph->phase->body.items[from->op].index,
                ahead = hn_sym_indirect(fm->sym, hn_former_extent(fm, symbol));
        hn_sop bind = {.kind = HN_SOP_INDIRECT,
                       .dtype = HN_DTYPE_I64,
                       .args = {value},
                       .index = ahead,
                       .imm.i = 1};
        (void)hn_form_add(fm->f, (hn_form_stmt){.kind = HN_FORM_VALUE, .op = bind, .quiet = true});
        fm->ahead_from[fm->ahead_count] = symbol;
        fm->ahead_to[fm->ahead_count++] = ahead;
    }
}

static void emit_prefetch(hn_former *fm, const hn_cpu_prefetch *request) {
    hn_expr index = request->index;
    hn_fmem memory = place(fm, request->buffer, request->to_write, request->access, &index);
    if (fm->ahead_count)
        index = hn_sym_subst(fm->sym, index, fm->ahead_from, fm->ahead_to, fm->ahead_count);
    for (uint32_t line = 0; line < request->lines; line++) {
        hn_expr at = line ? hn_sym_add(fm->sym, index,
                                       hn_former_int(fm, (int64_t)line * request->line_elems))
                          : index;
        hn_form_prefetch(fm->f, memory, at, request->to_write, request->every);
    }
}

void hn_former_prefetches(hn_former *fm) {
    for (uint32_t k = 0; k < fm->ph->prefetch_count; k++) emit_prefetch(fm, &fm->ph->prefetches[k]);
}

/* ---- loops ---- */

void hn_former_vector(hn_former *fm, uint32_t first_level) {
    hn_form_vector(fm->f);
    hn_former_levels(fm, first_level, fm->ph->phase->rank);
    hn_former_effects(fm);
    hn_former_prefetches(fm);
    hn_form_close(fm->f);
}

void hn_former_loop(hn_former *fm, uint32_t d) {
    hn_expr var = fm->ph->phase->vars[d];
    hn_form_for(fm->f, var, hn_former_int(fm, 0), hn_former_extent(fm, var), 1);
}

void hn_former_lanes(hn_former *fm, hn_expr begin, hn_expr end) {
    static const hn_form_rest rests[] = {[HN_CPU_REST_NONE] = HN_FORM_REST_NONE,
                                         [HN_CPU_REST_MASKED] = HN_FORM_REST_MASKED,
                                         [HN_CPU_REST_OVERLAPPING] = HN_FORM_REST_OVERLAPPING};
    const hn_cpu_lane_loop *loop = &fm->ph->loop;
    hn_form_lanes lanes = {
        .whole = loop->has_unrolled, .single = loop->has_single, .rest = rests[loop->rest]};
    hn_form_lanes_in(fm->f, fm->ph->lane, begin, end, loop->unroll, lanes);
}

/* Opens a block for what is hoisted out of loops; it does not run where one of them has no
 * iteration. Returns whether there is one: checked indices are known in one phase only. */
static bool open_scope(hn_former *fm) {
    const hn_cpu_phase *ph = fm->ph;
    hn_expr least = 0;
    for (uint32_t d = 0; d < ph->phase->rank; d++) {
        if (!(ph->maybe_empty >> d & 1)) continue;
        hn_expr extent = hn_former_extent(fm, ph->phase->vars[d]);
        least = least ? hn_sym_min(fm->sym, least, extent) : extent;
    }
    bool binds = fm->k->phases.count > 1 && hn_cpu_has_indirect(ph->phase);
    if (least) hn_form_if(fm->f, hn_former_int(fm, 0), least);
    else if (binds) hn_form_block(fm->f);
    return least || binds;
}

/* The loops of a phase with a lane, and of the one that follows it vector by vector. */
static void emit_loops(hn_former *fm) {
    const hn_kernel_phase *phase = fm->ph->phase;
    hn_former_levels(fm, 0, 0);
    emit_indices_ahead(fm);
    for (uint32_t d = 0; d + 1 < phase->rank; d++) {
        hn_former_loop(fm, d);
        hn_former_levels(fm, d + 1, d + 1);
    }
    hn_former_lanes(fm, hn_former_int(fm, 0), hn_former_extent(fm, fm->ph->lane));
    hn_former_vector(fm, phase->rank);
    if (fm->follower) {
        hn_form_vector(fm->f);
        hn_former_levels(fm->follower, 1, fm->follower->ph->phase->rank);
        hn_former_effects(fm->follower);
        hn_form_close(fm->f);
    }
    for (uint32_t d = 0; d < phase->rank; d++) hn_form_close(fm->f);
}

hn_status hn_former_inner(hn_former *fm, uint32_t f) {
    HN_TRY(hn_former_phase(fm, f));
    hn_former_inits(fm);
    bool opened = open_scope(fm);
    if (fm->ph->lane) {
        emit_loops(fm);
    } else {
        hn_former_levels(fm, 0, 0);
        hn_former_effects(fm);
    }
    if (opened) hn_form_close(fm->f);
    if (fm->ph->lane) hn_former_across(fm);
    return NULL;
}

/* ---- columns ---- */

/* Sums in blocks: `outer` gets the registers of the whole sums, which the blocks' take the place
 * of. */
static void open_blocks(hn_former *fm, hn_freg *outer) {
    const hn_kernel_phase *phase = fm->ph->phase;
    hn_expr var = phase->vars[phase->rank - 1], extent = hn_former_extent(fm, var),
            q = hn_form_symbol(fm->f, extent);
    hn_form_for(fm->f, q, hn_former_int(fm, 0), extent, HN_CPU_SUM_BLOCK);
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        outer[k] = fm->registers[phase->reduces.items[k].slot];
        if (fm->ph->reduces[k].in_blocks) hn_former_init(fm, &phase->reduces.items[k]);
    }
    hn_form_for(
        fm->f, var, q,
        hn_sym_min(fm->sym, hn_sym_add(fm->sym, q, hn_former_int(fm, HN_CPU_SUM_BLOCK)), extent),
        1);
}

static void close_blocks(hn_former *fm, const hn_freg *outer) {
    const hn_kernel_phase *phase = fm->ph->phase;
    hn_form_close(fm->f);
    if (fm->ph->lane) hn_form_vector(fm->f);
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        hn_freg *reg = &fm->registers[phase->reduces.items[k].slot];
        if (*reg != outer[k]) hn_form_step(fm->f, outer[k], hn_form_result(fm->f, *reg, false), 0);
        *reg = outer[k];
    }
    if (fm->ph->lane) hn_form_close(fm->f);
    hn_form_close(fm->f);
}

/* All of a phase without lanes, for one element. Checked indices are known in it only. */
static void emit_element(hn_former *fm) {
    bool opens = !fm->ph->phase->rank && hn_cpu_has_indirect(fm->ph->phase);
    if (opens) hn_form_block(fm->f);
    hn_former_levels(fm, 0, fm->ph->phase->rank);
    hn_former_effects(fm);
    if (opens) hn_form_close(fm->f);
}

hn_status hn_former_column(hn_former *fm, uint32_t f) {
    hn_freg *outer;
    HN_TRY(hn_former_phase(fm, f));
    const hn_kernel_phase *phase = fm->ph->phase;
    HN_NEW(fm->scratch, outer, phase->reduces.count);
    uint32_t loops = phase->rank - (fm->ph->sums_in_blocks ? 1 : 0);
    hn_former_inits(fm);
    for (uint32_t d = 0; d < loops; d++) hn_former_loop(fm, d);
    if (fm->ph->sums_in_blocks) open_blocks(fm, outer);
    if (fm->ph->lane) hn_former_vector(fm, 0);
    else emit_element(fm);
    if (fm->ph->sums_in_blocks) close_blocks(fm, outer);
    for (uint32_t d = 0; d < loops; d++) hn_form_close(fm->f);
    return NULL;
}
