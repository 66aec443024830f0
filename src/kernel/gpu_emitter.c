/* gpu_emitter.c: bodies of phases, op by op, in forms of groups. */
#include "kernel/gpu_vectors.h"
#include "kernel/reduced.h"

hn_expr hn_gpu_extents(const hn_gpu_planner *pl, const hn_expr *vars, uint32_t count) {
    hn_expr all = hn_gpu_num(pl, 1);
    for (uint32_t d = 0; d < count; d++) all = hn_sym_mul(pl->sym, all, hn_gpu_extent(pl, vars[d]));
    return all;
}

static void mark_live(hn_gpu_planner *pl, hn_sid s);

void hn_gpu_mark_index(hn_gpu_planner *pl, hn_expr e) {
    const hn_body *body = &pl->phase->body;
    for (hn_sid s = 1; e && s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && hn_sym_uses(pl->sym, e, body->items[s].index))
            mark_live(pl, s);
}

static void mark_live(hn_gpu_planner *pl, hn_sid s) {
    if (!s || pl->live[s]) return;
    const hn_sop *op = &pl->phase->body.items[s];
    pl->live[s] = true;
    for (uint32_t a = 0; a < 3; a++) mark_live(pl, op->args[a]);
    if (op->kind != HN_SOP_INDIRECT) hn_gpu_mark_index(pl, op->index);
}

hn_status hn_gpu_begin_phase(hn_gpu_planner *pl, const hn_kernel_phase *phase) {
    pl->phase = phase;
    HN_NEW(pl->scratch, pl->live, phase->body.count + 1);
    HN_NEW(pl->scratch, pl->varies, phase->body.count + 1);
    HN_NEW(pl->scratch, pl->values, phase->body.count + 1);
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        mark_live(pl, phase->stores.items[k].value);
        hn_gpu_mark_index(pl, phase->stores.items[k].index);
    }
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        mark_live(pl, phase->reduces.items[k].value);
        hn_gpu_mark_index(pl, phase->reduces.items[k].position);
    }
    for (uint32_t k = 0; k < phase->columns.count; k++)
        mark_live(pl, phase->columns.items[k].value);
    return NULL;
}

uint32_t hn_gpu_local(const hn_gpu_planner *pl, hn_buf b) {
    uint32_t k = 0;
    while (k < pl->k->locals.count && pl->k->locals.items[k].buffer != b) k++;
    return k;
}

hn_fmem hn_gpu_place(hn_gpu_planner *pl, hn_buf b, bool is_written, hn_expr *index) {
    uint32_t k = hn_gpu_local(pl, b);
    if (k == pl->k->locals.count) return hn_form_argument(pl->f, b, 0, is_written);
    *index = hn_sym_add(pl->sym, hn_sym_mul(pl->sym, pl->row, pl->k->locals.items[k].extent_elems),
                        *index);
    hn_form_memory *memory = &pl->f->memories.items[pl->locals[k]];
    *(is_written ? &memory->is_written : &memory->is_read) = true;
    return pl->locals[k];
}

/* Of a scan: so far. */
static hn_fid emit_result(hn_gpu_planner *pl, const hn_sop *op) {
    hn_fid value = pl->phase->scan
                       ? hn_form_result(pl->f, pl->registers[op->imm.i], op->op == HN_OP_ARGMAX)
                       : pl->results[op->imm.i];
    if (!value || pl->f->stmts.items[value].op.dtype == op->dtype) return value;
    return hn_form_value(pl->f, (hn_sop){.kind = HN_SOP_CAST, .dtype = op->dtype, .args = {value}});
}

/* Whether a value is summed, and nothing else. */
static bool is_only_summed(const hn_kernel_phase *phase, hn_sid s) {
    bool summed = false;
    for (hn_sid k = s + 1; k < phase->body.count; k++)
        for (uint32_t a = 0; a < 3; a++)
            if (phase->body.items[k].args[a] == s) return false;
    for (uint32_t k = 0; k < phase->stores.count; k++)
        if (phase->stores.items[k].value == s) return false;
    for (uint32_t k = 0; k < phase->columns.count; k++)
        if (phase->columns.items[k].value == s) return false;
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        if (phase->reduces.items[k].value != s) continue;
        if (phase->reduces.items[k].op != HN_OP_SUM) return false;
        summed = true;
    }
    return summed;
}

/* One of the exponentials is 1, so that errors of the small ones do not count in their sum: they may
 * be computed in two instructions. */
static bool is_summed_below_largest(const hn_gpu_planner *pl, hn_sid s) {
    const hn_body *body = &pl->phase->body;
    return is_only_summed(pl->phase, s) && !pl->phase->scan &&
           hn_kernel_is_below_largest(pl->k, body, &body->items[s]);
}

/* The register that has an element of no vector; or 0. */
static hn_fmem edge_of(hn_gpu_planner *pl, hn_buf b, hn_expr index) {
    const hn_gpu_array *a = pl->is_edge ? hn_gpu_find_array(pl, b, index) : NULL;
    return a ? a->edge : 0;
}

void hn_gpu_emit_sop(hn_gpu_planner *pl, hn_sid s) {
    hn_sop op = pl->phase->body.items[s];
    const hn_gpu_array *single =
        op.kind == HN_SOP_LOAD ? hn_gpu_find_single(pl, op.buffer, op.index) : NULL;
    if (single) {
        pl->values[s] = hn_gpu_load(pl, single->memory, hn_gpu_num(pl, 0));
        return;
    }
    const hn_fmem edge = op.kind == HN_SOP_LOAD ? edge_of(pl, op.buffer, op.index) : 0;
    if (edge) {
        pl->values[s] = hn_gpu_load(pl, edge, hn_gpu_num(pl, 0));
        return;
    }
    for (uint32_t a = 0; a < 3; a++) op.args[a] = pl->values[op.args[a]];
    if (op.kind == HN_SOP_LOAD) op.buffer = hn_gpu_place(pl, op.buffer, false, &op.index);
    pl->values[s] = op.kind == HN_SOP_RESULT ? emit_result(pl, &op) : hn_form_value(pl->f, op);
    if (is_summed_below_largest(pl, s)) pl->f->stmts.items[pl->values[s]].not_positive = true;
}

void hn_gpu_emit_steps(hn_gpu_planner *pl) {
    const hn_kernel_phase *phase = pl->phase;
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        hn_fid position = 0;
        if (hn_op_keeps_position(r->op))
            position = hn_form_value(
                pl->f, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = r->position});
        hn_form_step(pl->f, pl->registers[r->slot], pl->values[r->value], position);
    }
}

void hn_gpu_emit_body(hn_gpu_planner *pl) {
    const hn_kernel_phase *phase = pl->phase;
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (pl->live[s] && !(phase->scan && phase->body.items[s].kind == HN_SOP_RESULT))
            hn_gpu_emit_sop(pl, s);
    hn_gpu_emit_steps(pl);
    for (hn_sid s = 1; s < phase->body.count && phase->scan; s++)
        if (pl->live[s] && phase->body.items[s].kind == HN_SOP_RESULT) hn_gpu_emit_sop(pl, s);
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        const hn_kernel_store *store = &phase->stores.items[k];
        const hn_fmem edge = edge_of(pl, store->buffer, store->index);
        if (edge) {
            hn_gpu_keep(pl, edge, hn_gpu_num(pl, 0), pl->values[store->value]);
            continue;
        }
        hn_expr index = store->index;
        hn_fmem memory = hn_gpu_place(pl, store->buffer, true, &index);
        hn_form_store(pl->f, memory, index, pl->values[store->value], store->mode);
    }
}

/* Where an extent is 0 no element is ever asked for. */
void hn_gpu_emit_coordinates(hn_gpu_planner *pl, hn_expr at, const hn_expr *vars, uint32_t count) {
    hn_expr rest = at;
    for (uint32_t d = count; d-- > 0;) {
        hn_expr extent = hn_gpu_extent(pl, vars[d]);
        if (hn_sym_is_value(pl->sym, extent, 0)) extent = hn_gpu_num(pl, 1);
        hn_form_let(pl->f, vars[d], d ? hn_sym_mod(pl->sym, rest, extent) : rest);
        if (d) rest = hn_sym_floordiv(pl->sym, rest, extent);
    }
}

hn_fid hn_gpu_load(hn_gpu_planner *pl, hn_fmem m, hn_expr index) {
    pl->f->memories.items[m].is_read = true;
    return hn_form_value(pl->f, (hn_sop){.kind = HN_SOP_LOAD,
                                         .dtype = pl->f->memories.items[m].dtype,
                                         .buffer = m,
                                         .index = index});
}

void hn_gpu_keep(hn_gpu_planner *pl, hn_fmem m, hn_expr index, hn_fid value) {
    pl->f->memories.items[m].is_written = true;
    hn_form_store(pl->f, m, index, value, HN_STORE_SET);
}
