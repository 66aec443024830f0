/* cpu_emitter.c: the parts of forms of ranges: ops, reductions, stores and loops of a phase as
 * statements. */
#include "kernel/cpu_emitter.h"

#include "ir/sop.h"

/* ---- the whole ---- */

static hn_status add_locals(hn_emitter *em) {
    const hn_cpu_plan *pl = em->plan;
    bool twice = pl->form == HN_CPU_ROWS_PIPELINED;
    HN_NEW(em->scratch, em->locals, em->k->locals.count);
    HN_NEW(em->scratch, em->local_begins, em->k->locals.count);
    for (uint32_t k = 0; k < em->k->locals.count; k++) {
        hn_form_memory memory = {.space = HN_SPACE_SCRATCH,
                                 .dtype = hn_cpu_dtype(pl, em->k->locals.items[k].buffer),
                                 .stale = twice};
        memory.elems = hn_emitter_int(em, twice ? 2 * pl->local_elems[k] : pl->local_elems[k]);
        em->locals[k] = hn_form_add_memory(em->f, memory);
    }
    return NULL;
}

hn_status hn_emitter_begin(const hn_cpu_plan *plan, hn_arena *arena, hn_arena *scratch,
                           hn_emitter *out) {
    const hn_kernel *k = plan->kernel;
    hn_expr grid = k->serial ? hn_sym_int(plan->sym, 1) : plan->extent;
    *out = (hn_emitter){.plan = plan, .k = k, .sym = plan->sym, .scratch = scratch};
    HN_TRY(hn_form_create_range(plan->program, arena, plan->lanes, grid, &out->f));
    out->f->grain = plan->grain;
    HN_NEW(scratch, out->registers, k->slots + 1);
    HN_NEW(scratch, out->result_memories, k->slots + 1);
    return add_locals(out);
}

hn_status hn_emitter_phase(hn_emitter *em, uint32_t f) {
    em->ph = &em->plan->phases[f];
    uint32_t ops = em->ph->phase->body.count + 1;
    HN_NEW(em->scratch, em->values, ops);
    HN_NEW(em->scratch, em->reciprocals, ops);
    HN_NEW(em->scratch, em->tiles, ops);
    HN_NEW(em->scratch, em->tile_indices, ops);
    HN_NEW(em->scratch, em->columns, em->ph->phase->columns.count);
    em->ahead_count = 0;
    HN_NEW(em->scratch, em->ahead_from, em->ph->indices_ahead.count);
    HN_NEW(em->scratch, em->ahead_to, em->ph->indices_ahead.count);
    return NULL;
}

/* ---- indices ---- */

hn_expr hn_emitter_index(hn_emitter *em, hn_expr index) {
    const hn_emitter_renaming *names = &em->renaming;
    return names->count ? hn_sym_subst(em->sym, index, names->from, names->to, names->count)
                        : index;
}

void hn_emitter_rename(hn_emitter *em, hn_expr from, hn_expr to) {
    hn_emitter_renaming *names = &em->renaming;
    names->from[names->count] = from;
    names->to[names->count++] = to;
}

static uint32_t local_of(const hn_emitter *em, hn_buf b) {
    uint32_t k = 0;
    while (k < em->k->locals.count && em->k->locals.items[k].buffer != b) k++;
    return k;
}

/* The memory for an access of buffer `b` at `access`, and `index` in it. */
static hn_fmem place(hn_emitter *em, hn_buf b, bool is_written, hn_expr access, hn_expr *index) {
    uint32_t k = local_of(em, b);
    hn_expr base = k < em->k->locals.count ? 0 : hn_cpu_base_of(em->plan, b, access);
    if (base) *index = hn_sym_sub(em->sym, *index, base);
    *index = hn_emitter_index(em, *index);
    if (k == em->k->locals.count) return hn_form_argument(em->f, b, base, is_written);
    if (em->local_begins[k]) *index = hn_sym_add(em->sym, em->local_begins[k], *index);
    hn_form_memory *memory = &em->f->memories.items[em->locals[k]];
    *(is_written ? &memory->is_written : &memory->is_read) = true;
    return em->locals[k];
}

hn_fmem hn_emitter_place(hn_emitter *em, hn_buf b, bool is_written, hn_expr *index) {
    return place(em, b, is_written, *index, index);
}

void hn_emitter_coordinates(hn_emitter *em, hn_expr at, const hn_expr *vars, uint32_t count) {
    for (uint32_t d = count; d-- > 0;) {
        hn_expr extent = hn_emitter_extent(em, vars[d]);
        if (hn_sym_is_value(em->sym, extent, 0))
            extent = hn_emitter_int(em, 1); /* no number is ever used */
        hn_form_let(em->f, hn_emitter_index(em, vars[d]), d ? hn_sym_mod(em->sym, at, extent) : at);
        if (d) at = hn_sym_floordiv(em->sym, at, extent);
    }
}

/* ---- ops ---- */

static hn_fid elem(hn_emitter *em, hn_op op, hn_dtype dtype, hn_fid x, hn_fid y) {
    return hn_form_value(em->f,
                         (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = dtype, .args = {x, y}});
}

static hn_fid cast(hn_emitter *em, hn_dtype dtype, hn_fid x) {
    if (!x || em->f->stmts.items[x].op.dtype == dtype) return x;
    return hn_form_value(em->f, (hn_sop){.kind = HN_SOP_CAST, .dtype = dtype, .args = {x}});
}

/* x / (1 + e^-x) */
static hn_fid emit_gate(hn_emitter *em, hn_fid x, hn_dtype dtype) {
    hn_fid one = hn_form_value(em->f, (hn_sop){.kind = HN_SOP_CONST, .dtype = dtype, .imm.f = 1});
    hn_fid e = elem(em, HN_OP_EXP, dtype, elem(em, HN_OP_NEG, dtype, x, 0), 0);
    return elem(em, HN_OP_DIV, dtype, x, elem(em, HN_OP_ADD, dtype, one, e));
}

/* An INDEX or CONST in lanes of 32 bits. */
static hn_fid emit_narrow(hn_emitter *em, hn_sid s) {
    if (!s) return 0;
    hn_sop op = em->ph->phase->body.items[s];
    op.dtype = HN_DTYPE_I32;
    if (op.kind == HN_SOP_INDEX) op.index = hn_emitter_index(em, op.index);
    return hn_form_value(em->f, op);
}

static hn_fid emit_of_indices(hn_emitter *em, hn_sop op) {
    for (uint32_t a = 0; a < 3; a++) op.args[a] = emit_narrow(em, op.args[a]);
    return hn_form_value(em->f, op);
}

/* Of a scan: so far. */
static hn_fid emit_result(hn_emitter *em, const hn_sop *op) {
    hn_fmem memory = em->result_memories[op->imm.i];
    hn_freg reg = em->registers[op->imm.i];
    bool scan = em->ph->phase->scan;
    if (memory && !scan)
        return cast(em, op->dtype,
                    hn_form_value(em->f, (hn_sop){.kind = HN_SOP_LOAD,
                                                  .dtype = em->f->memories.items[memory].dtype,
                                                  .buffer = memory,
                                                  .index = em->result_index}));
    bool position =
        scan ? op->op == HN_OP_ARGMAX : hn_op_keeps_position(em->f->registers.items[reg].op);
    return cast(em, op->dtype, hn_form_result(em->f, reg, position));
}

static hn_fid emit_load(hn_emitter *em, hn_sid s, hn_sop op) {
    op.buffer = em->tiles[s] ? em->tiles[s] : hn_emitter_place(em, op.buffer, false, &op.index);
    if (em->tiles[s]) op.index = em->tile_indices[s];
    return hn_form_value(em->f, op);
}

/* A narrow one is bound to what its argument was cast from. */
static hn_fid emit_indirect(hn_emitter *em, hn_sid s, hn_sop op) {
    hn_sid from = op.args[0];
    op.args[0] = em->values[from];
    if (em->ph->ops[s].narrow)
        op.args[0] = cast(em, HN_DTYPE_I32, em->values[em->ph->phase->body.items[from].args[0]]);
    return hn_form_value(em->f, op);
}

/* Written as it stands. */
static hn_fid emit_plain(hn_emitter *em, hn_sid s, hn_sop op) {
    const hn_cpu_op *facts = &em->ph->ops[s];
    for (uint32_t a = 0; a < 3; a++) op.args[a] = em->values[op.args[a]];
    if (hn_sop_has_index(&op)) op.index = hn_emitter_index(em, op.index);
    return hn_form_add(
        em->f, (hn_form_stmt){.kind = HN_FORM_VALUE,
                              .op = op,
                              .rounded = facts->rounded,
                              .not_positive = facts->rewrite == HN_REWRITE_EXP_NOT_POSITIVE});
}

static hn_fid emit_kind(hn_emitter *em, hn_sid s, hn_sop op) {
    switch (op.kind) {
    case HN_SOP_LOAD: return emit_load(em, s, op);
    case HN_SOP_INDIRECT: return emit_indirect(em, s, op);
    case HN_SOP_RESULT: return emit_result(em, &op);
    default: return emit_plain(em, s, op);
    }
}

static hn_fid emit_rewritten(hn_emitter *em, hn_sid s, hn_sop op) {
    switch (em->ph->ops[s].rewrite) {
    case HN_REWRITE_GATE: return emit_gate(em, em->values[em->ph->ops[s].gate], op.dtype);
    case HN_REWRITE_RECIPROCAL:
        return elem(em, HN_OP_MUL, op.dtype, em->values[op.args[0]], em->reciprocals[op.args[1]]);
    case HN_REWRITE_NARROW_INDICES: return emit_of_indices(em, op);
    case HN_REWRITE_NONE:
    case HN_REWRITE_EXP_NOT_POSITIVE: break;
    }
    return emit_kind(em, s, op);
}

static void emit_sop(hn_emitter *em, hn_sid s) {
    const hn_sop *op = &em->ph->phase->body.items[s];
    em->values[s] = emit_rewritten(em, s, *op);
    if (em->ph->ops[s].is_divisor)
        em->reciprocals[s] = elem(em, HN_OP_RECIPROCAL, op->dtype, em->values[s], 0);
}

static bool is_running_value(const hn_emitter *em, hn_sid s) {
    return em->ph->phase->scan && em->ph->phase->body.items[s].kind == HN_SOP_RESULT;
}

void hn_emitter_levels(hn_emitter *em, uint32_t first, uint32_t last) {
    for (hn_sid s = 1; s < em->ph->phase->body.count; s++) {
        const hn_cpu_op *op = &em->ph->ops[s];
        if (op->live && op->level >= first && op->level <= last && !is_running_value(em, s))
            emit_sop(em, s);
    }
}

/* ---- reductions and stores ---- */

void hn_emitter_init(hn_emitter *em, const hn_kernel_reduce *r) {
    hn_freg reg = hn_form_add_register(em->f, r->op, r->dtype);
    em->f->registers.items[reg].loses_nan =
        em->ph->reduces[r - em->ph->phase->reduces.items].loses_nan;
    em->registers[r->slot] = reg;
    hn_form_init(em->f, reg);
}

void hn_emitter_inits(hn_emitter *em) {
    for (uint32_t k = 0; k < em->ph->phase->reduces.count; k++)
        hn_emitter_init(em, &em->ph->phase->reduces.items[k]);
    for (uint32_t k = 0; k < em->ph->phase->columns.count; k++) {
        const hn_kernel_column *c = &em->ph->phase->columns.items[k];
        em->columns[k] = hn_form_add_register(em->f, c->op, c->dtype);
        hn_form_init(em->f, em->columns[k]);
    }
}

void hn_emitter_across(hn_emitter *em) {
    for (uint32_t k = 0; k < em->ph->phase->reduces.count; k++)
        hn_form_across(em->f, em->registers[em->ph->phase->reduces.items[k].slot]);
}

static void emit_step(hn_emitter *em, const hn_kernel_reduce *r) {
    hn_fid position = 0;
    if (hn_op_keeps_position(r->op))
        position = hn_form_value(em->f, (hn_sop){.kind = HN_SOP_INDEX,
                                                 .dtype = HN_DTYPE_I64,
                                                 .index = hn_emitter_index(em, r->position)});
    hn_form_step(em->f, em->registers[r->slot], em->values[r->value], position);
}

static void emit_store(hn_emitter *em, uint32_t number) {
    const hn_kernel_store *store = &em->ph->phase->stores.items[number];
    hn_form_stmt stmt = {.kind = HN_FORM_STORE,
                         .index = store->index,
                         .value = em->values[store->value],
                         .mode = store->mode,
                         .streams = em->ph->stores[number].nontemporal,
                         .is_aligned = em->stores_are_aligned,
                         .in_order = em->k->serial && em->ph->lane};
    stmt.memory = hn_emitter_place(em, store->buffer, true, &stmt.index);
    if (store->mode != HN_STORE_SET) em->f->memories.items[stmt.memory].is_read = true;
    (void)hn_form_add(em->f, stmt);
}

hn_fmem hn_emitter_column_place(hn_emitter *em, const hn_kernel_column *c, hn_expr *out_index) {
    *out_index = hn_sym_add(em->sym, em->slab_begin, hn_emitter_index(em, c->index));
    return hn_form_argument(em->f, c->buffer, 0, true);
}

/* The slab's partial result of this column, with this row's. */
static void emit_column(hn_emitter *em, const hn_kernel_column *c, hn_freg reg) {
    hn_expr index;
    hn_fmem memory = hn_emitter_column_place(em, c, &index);
    hn_sop load = {.kind = HN_SOP_LOAD, .dtype = c->dtype, .buffer = memory, .index = index};
    hn_form_set(em->f, reg, hn_form_value(em->f, load), 0);
    hn_form_step(em->f, reg, em->values[c->value], 0);
    hn_form_store(em->f, memory, index, hn_form_result(em->f, reg, false), HN_STORE_SET);
}

void hn_emitter_effects(hn_emitter *em) {
    const hn_kernel_phase *phase = em->ph->phase;
    for (uint32_t k = 0; k < phase->reduces.count; k++) emit_step(em, &phase->reduces.items[k]);
    for (hn_sid s = 1; s < phase->body.count && phase->scan; s++)
        if (em->ph->ops[s].live && is_running_value(em, s)) emit_sop(em, s);
    for (uint32_t k = 0; k < phase->stores.count; k++) emit_store(em, k);
    for (uint32_t k = 0; k < phase->columns.count; k++)
        emit_column(em, &phase->columns.items[k], em->columns[k]);
}

/* ---- prefetches ---- */

/* The index of a row ahead, for each checked index that is one number for the row. */
static void emit_indices_ahead(hn_emitter *em) {
    for (uint32_t k = 0; k < em->ph->indices_ahead.count; k++) {
        const hn_cpu_index_ahead *from = &em->ph->indices_ahead.items[k];
        hn_sop load = {.kind = HN_SOP_LOAD,
                       .dtype = hn_cpu_dtype(em->plan, from->buffer),
                       .index = from->index};
        load.buffer = place(em, from->buffer, false, from->access, &load.index);
        hn_fid value = cast(em, HN_DTYPE_I64, hn_form_value(em->f, load));
        hn_expr symbol = em->ph->phase->body.items[from->op].index,
                ahead = hn_sym_indirect(em->sym, hn_emitter_extent(em, symbol));
        hn_sop bind = {.kind = HN_SOP_INDIRECT,
                       .dtype = HN_DTYPE_I64,
                       .args = {value},
                       .index = ahead,
                       .imm.i = 1};
        (void)hn_form_add(em->f, (hn_form_stmt){.kind = HN_FORM_VALUE, .op = bind, .quiet = true});
        em->ahead_from[em->ahead_count] = symbol;
        em->ahead_to[em->ahead_count++] = ahead;
    }
}

static void emit_prefetch(hn_emitter *em, const hn_cpu_prefetch *request) {
    hn_expr index = request->index;
    hn_fmem memory =
        place(em, request->buffer, request->fetch == HN_FETCH_WRITE, request->access, &index);
    if (em->ahead_count)
        index = hn_sym_subst(em->sym, index, em->ahead_from, em->ahead_to, em->ahead_count);
    for (uint32_t line = 0; line < request->lines; line++) {
        hn_expr at = line ? hn_sym_add(em->sym, index,
                                       hn_emitter_int(em, (int64_t)line * request->line_elems))
                          : index;
        hn_form_prefetch(em->f, memory, at, request->fetch, request->every);
    }
}

void hn_emitter_prefetches(hn_emitter *em) {
    for (uint32_t k = 0; k < em->ph->prefetch_count; k++) emit_prefetch(em, &em->ph->prefetches[k]);
}

/* ---- loops ---- */

void hn_emitter_vector(hn_emitter *em, uint32_t first_level) {
    hn_form_vector(em->f);
    hn_emitter_levels(em, first_level, em->ph->phase->rank);
    hn_emitter_effects(em);
    hn_emitter_prefetches(em);
    hn_form_close(em->f);
}

void hn_emitter_loop(hn_emitter *em, uint32_t d) {
    hn_expr var = em->ph->phase->vars[d];
    hn_form_for(em->f, var, hn_emitter_int(em, 0), hn_emitter_extent(em, var), 1);
}

void hn_emitter_lanes(hn_emitter *em, hn_expr begin, hn_expr end) {
    static const hn_form_rest rests[] = {[HN_CPU_REST_NONE] = HN_FORM_REST_NONE,
                                         [HN_CPU_REST_MASKED] = HN_FORM_REST_MASKED,
                                         [HN_CPU_REST_OVERLAPPING] = HN_FORM_REST_OVERLAPPING};
    const hn_cpu_lane_loop *loop = &em->ph->loop;
    hn_form_lanes lanes = {
        .whole = loop->has_unrolled, .single = loop->has_single, .rest = rests[loop->rest]};
    hn_form_lanes_in(em->f, em->ph->lane, begin, end, loop->unroll, lanes);
}

/* Opens a block for what is hoisted out of loops; it does not run where one of them has no
 * iteration. Returns whether there is one: checked indices are known in one phase only. */
static bool open_scope(hn_emitter *em) {
    const hn_cpu_phase *ph = em->ph;
    hn_expr least = 0;
    for (uint32_t d = 0; d < ph->phase->rank; d++) {
        if (!(ph->maybe_empty >> d & 1)) continue;
        hn_expr extent = hn_emitter_extent(em, ph->phase->vars[d]);
        least = least ? hn_sym_min(em->sym, least, extent) : extent;
    }
    bool binds = em->k->phases.count > 1 && hn_cpu_has_indirect(ph->phase);
    if (least) hn_form_if(em->f, hn_emitter_int(em, 0), least);
    else if (binds) hn_form_block(em->f);
    return least || binds;
}

/* The loops of a phase with a lane, and of the one that follows it vector by vector. */
static void emit_loops(hn_emitter *em) {
    const hn_kernel_phase *phase = em->ph->phase;
    hn_emitter_levels(em, 0, 0);
    emit_indices_ahead(em);
    for (uint32_t d = 0; d + 1 < phase->rank; d++) {
        hn_emitter_loop(em, d);
        hn_emitter_levels(em, d + 1, d + 1);
    }
    hn_emitter_lanes(em, hn_emitter_int(em, 0), hn_emitter_extent(em, em->ph->lane));
    hn_emitter_vector(em, phase->rank);
    if (em->interleaved) {
        hn_form_vector(em->f);
        hn_emitter_levels(em->interleaved, 1, em->interleaved->ph->phase->rank);
        hn_emitter_effects(em->interleaved);
        hn_form_close(em->f);
    }
    for (uint32_t d = 0; d < phase->rank; d++) hn_form_close(em->f);
}

hn_status hn_emitter_inner(hn_emitter *em, uint32_t f) {
    HN_TRY(hn_emitter_phase(em, f));
    hn_emitter_inits(em);
    bool opened = open_scope(em);
    if (em->ph->lane) {
        emit_loops(em);
    } else {
        hn_emitter_levels(em, 0, 0);
        hn_emitter_effects(em);
    }
    if (opened) hn_form_close(em->f);
    if (em->ph->lane) hn_emitter_across(em);
    return NULL;
}

/* ---- columns ---- */

/* Sums in blocks: `outer` gets the registers of the whole sums, which the blocks' take the place
 * of. */
static void open_blocks(hn_emitter *em, hn_freg *outer) {
    const hn_kernel_phase *phase = em->ph->phase;
    hn_expr var = phase->vars[phase->rank - 1], extent = hn_emitter_extent(em, var),
            q = hn_form_symbol(em->f, extent);
    hn_form_for(em->f, q, hn_emitter_int(em, 0), extent, HN_CPU_SUM_BLOCK);
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        outer[k] = em->registers[phase->reduces.items[k].slot];
        if (em->ph->reduces[k].in_blocks) hn_emitter_init(em, &phase->reduces.items[k]);
    }
    hn_form_for(
        em->f, var, q,
        hn_sym_min(em->sym, hn_sym_add(em->sym, q, hn_emitter_int(em, HN_CPU_SUM_BLOCK)), extent),
        1);
}

static void close_blocks(hn_emitter *em, const hn_freg *outer) {
    const hn_kernel_phase *phase = em->ph->phase;
    hn_form_close(em->f);
    if (em->ph->lane) hn_form_vector(em->f);
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        hn_freg *reg = &em->registers[phase->reduces.items[k].slot];
        if (*reg != outer[k]) hn_form_step(em->f, outer[k], hn_form_result(em->f, *reg, false), 0);
        *reg = outer[k];
    }
    if (em->ph->lane) hn_form_close(em->f);
    hn_form_close(em->f);
}

/* All of a phase without lanes, for one element. Checked indices are known in it only. */
static void emit_element(hn_emitter *em) {
    bool opens = !em->ph->phase->rank && hn_cpu_has_indirect(em->ph->phase);
    if (opens) hn_form_block(em->f);
    hn_emitter_levels(em, 0, em->ph->phase->rank);
    hn_emitter_effects(em);
    if (opens) hn_form_close(em->f);
}

hn_status hn_emitter_column(hn_emitter *em, uint32_t f) {
    hn_freg *outer;
    HN_TRY(hn_emitter_phase(em, f));
    const hn_kernel_phase *phase = em->ph->phase;
    HN_NEW(em->scratch, outer, phase->reduces.count);
    uint32_t loops = phase->rank - (em->ph->sums_in_blocks ? 1 : 0);
    hn_emitter_inits(em);
    for (uint32_t d = 0; d < loops; d++) hn_emitter_loop(em, d);
    if (em->ph->sums_in_blocks) open_blocks(em, outer);
    if (em->ph->lane) hn_emitter_vector(em, 0);
    else emit_element(em);
    if (em->ph->sums_in_blocks) close_blocks(em, outer);
    for (uint32_t d = 0; d < loops; d++) hn_form_close(em->f);
    return NULL;
}
