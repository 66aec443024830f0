/* plan.c: a group of loops becomes one kernel: phases, bodies, local buffers, vector mode. */
#include "sched/internal.h"

#include <string.h>

/* Inner variables get ordinals from here on, so that merging outer dims never meets them. */
enum { INNER_ORDINAL = 8 };

/* A pointwise loop this small is computed again in a later phase instead of being kept in
 * memory. */
enum { RECOMPUTE_MAX_OPS = 3, RECOMPUTE_MAX_LOADS = 2 };

/* ... and this small where slabs of rows are taken: registers have what it loads, and none to spare
 * for what it makes. */
enum { MIXED_MAX_OPS = 6, MIXED_MAX_LOADS = 4 };

typedef struct plan {
    sched *s;
    group *g;
    hn_kernel *k;
    hn_expr outer[HN_MAX_RANK];
    hn_expr (*inner)[HN_MAX_RANK]; /* per member: its inner variables */
    uint32_t *inner_count;
    uint32_t *slot;       /* per member: reduction slot */
    hn_sid *own_value;    /* per member: the stored value in its own phase */
    bool *kept;           /* per member: read from memory by a later phase */
    hn_map index_symbols; /* per phase: indirect symbol -> the symbol that stands for it */
    hn_map inlined;       /* per phase: member -> sid + 1 */
} plan;

static hn_loop *loop_of(plan *p, uint32_t m) { return p->g->members.items[m].loop; }

/* --- variables --- */

static void subst_member(plan *p, uint32_t m, const hn_expr *from, const hn_expr *to,
                         uint32_t count) {
    loop_subst(p->s, loop_of(p, m), from, to, count);
}

/* Outer variables keep their ordinals; inner ones move out of their way. */
static hn_status name_variables(plan *p) {
    uint32_t count = p->g->members.count;
    HN_NEW(p->s->scratch, p->inner, count);
    HN_NEW(p->s->scratch, p->inner_count, count);
    for (uint32_t d = 0; d < p->g->outer.count; d++)
        p->outer[d] = hn_sym_index(p->s->sym, d, p->g->outer.items[d]);
    for (uint32_t m = 0; m < count; m++) {
        hn_loop *loop = loop_of(p, m);
        uint32_t outer = p->g->outer.count, total = loop->rank + loop->red_rank;
        p->inner_count[m] = total - outer;
        for (uint32_t j = 0; j < total - outer; j++)
            p->inner[m][j] = hn_sym_index(p->s->sym, INNER_ORDINAL + j,
                                          hn_sym_symbol_extent(p->s->sym, loop->vars[outer + j]));
        subst_member(p, m, &loop->vars[outer], p->inner[m], total - outer);
    }
    return NULL;
}

/* One variable for the pair a (outer), b (inner). */
static hn_expr merged_var(plan *p, hn_expr a, hn_expr b) {
    hn_sym *sym = p->s->sym;
    return hn_sym_index(
        sym, hn_sym_index_ordinal(sym, a),
        hn_sym_mul(sym, hn_sym_symbol_extent(sym, a), hn_sym_symbol_extent(sym, b)));
}

static void merge_outer(plan *p) {
    group *g = p->g;
    /* the lanes' own dimension stays */
    uint32_t keep = g->form == GROUP_COLUMN || g->form == GROUP_SINGLE ? 1 : 0;
    for (uint32_t d = g->outer.count - (g->outer.count ? keep : 0); d-- > 1;) {
        bool all = true;
        for (uint32_t m = 0; m < g->members.count && all; m++)
            all = loop_merges(p->s, loop_of(p, m), p->outer[d - 1], p->outer[d]);
        if (!all) continue;
        hn_expr from[2] = {p->outer[d - 1], p->outer[d]}, var = merged_var(p, from[0], from[1]);
        hn_expr to[2] = {hn_sym_int(p->s->sym, 0), var};
        for (uint32_t m = 0; m < g->members.count; m++) subst_member(p, m, from, to, 2);
        p->outer[d - 1] = var;
        memmove(&p->outer[d], &p->outer[d + 1], (g->outer.count - d - 1) * sizeof *p->outer);
        g->outer.count--;
    }
}

static bool same_inner(const plan *p, uint32_t a, uint32_t b) {
    return p->inner_count[a] == p->inner_count[b] &&
           memcmp(p->inner[a], p->inner[b], p->inner_count[a] * sizeof(hn_expr)) == 0;
}

static void merge_inner_class(plan *p, uint32_t leader) {
    uint32_t count = p->g->members.count;
    for (uint32_t d = p->inner_count[leader]; d-- > 1;) {
        hn_expr a = p->inner[leader][d - 1], b = p->inner[leader][d];
        bool all = true;
        for (uint32_t m = leader; m < count && all; m++)
            all = !same_inner(p, leader, m) || loop_merges(p->s, loop_of(p, m), a, b);
        if (!all) continue;
        hn_expr from[2] = {a, b}, var = merged_var(p, a, b),
                to[2] = {hn_sym_int(p->s->sym, 0), var};
        for (uint32_t m = count; m-- > leader;) { /* the leader last: it defines the class */
            if (!same_inner(p, leader, m)) continue;
            subst_member(p, m, from, to, 2);
            p->inner[m][d - 1] = var;
            memmove(&p->inner[m][d], &p->inner[m][d + 1],
                    (p->inner_count[m] - d - 1) * sizeof(hn_expr));
            p->inner_count[m]--;
        }
    }
}

/* --- phases --- */

static uint32_t writer_of(const plan *p, hn_buf b, uint32_t before) {
    for (uint32_t m = before; m-- > 0;)
        if (p->g->members.items[m].loop->store.buffer == b) return m;
    return UINT32_MAX;
}

/* Whether member m can take member w's value in the same pass over the inner loops. */
static bool same_element(const plan *p, uint32_t m, uint32_t w, hn_expr index) {
    const hn_loop *from = p->g->members.items[w].loop;
    return from->kind == HN_LOOP_POINTWISE && same_inner(p, m, w) && from->store.index == index;
}

/* Calls for each (member, load of a value that an earlier member wrote, writer). */
#define EACH_INTERNAL_READ(p, m, op, w)                                                            \
    for (hn_sid k_ = 1; k_ < (p)->g->members.items[m].loop->body.count; k_++)                      \
        if (((op) = &(p)->g->members.items[m].loop->body.items[k_])->kind == HN_SOP_LOAD)          \
            for (uint32_t w = 0; w < (m); w++)                                                     \
                if ((p)->g->members.items[w].loop->store.buffer == (op)->buffer)

static void number_phases(plan *p) {
    uint32_t count = p->g->members.count;
    member *members = p->g->members.items;
    const hn_sop *op;
    for (uint32_t m = 0; m < count; m++) {
        members[m].phase = 0;
        EACH_INTERNAL_READ(p, m, op, w) {
            uint32_t least = members[w].phase + (same_element(p, m, w, op->index) ? 0 : 1);
            if (least > members[m].phase) members[m].phase = least;
        }
    }
    /* As late as the first reader allows: then the value goes over in a register. */
    for (uint32_t m = count; m-- > 0;) {
        uint32_t latest = UINT32_MAX;
        if (members[m].loop->kind != HN_LOOP_POINTWISE) continue;
        for (uint32_t r = m + 1; r < count; r++) {
            EACH_INTERNAL_READ(p, r, op, w) {
                if (w != m) continue;
                uint32_t most = members[r].phase - (same_element(p, r, m, op->index) ? 0 : 1);
                if (most < latest) latest = most;
            }
        }
        if (latest != UINT32_MAX && latest > members[m].phase) members[m].phase = latest;
    }
}

/* --- bodies --- */

/* Whether a local buffer of a member's values may be too long. */
static bool is_long(const plan *p, uint32_t w) {
    const int64_t most = p->s->options->limits->local_max_elems;
    int64_t elems = 1;
    for (uint32_t d = 0; d < p->inner_count[w]; d++) {
        int64_t lo, hi;
        hn_sym_range(p->s->sym, hn_sym_symbol_extent(p->s->sym, p->inner[w][d]), &lo, &hi);
        if (hi > most || elems * hi > most) return true;
        elems *= hi;
    }
    return false;
}

/* Whether a value of a slab's row is as cheap as to read it again. */
static bool is_cheap_in_slabs(const plan *p, uint32_t w, uint32_t ops, uint32_t loads,
                              uint32_t narrow) {
    const uint32_t most = p->s->options->limits->mixed_narrow_loads;
    return ops <= MIXED_MAX_OPS && loads <= MIXED_MAX_LOADS &&
           (!most || narrow <= most || is_long(p, w));
}

static bool is_cheap(const plan *p, uint32_t w) {
    const hn_body *body = &p->g->members.items[w].loop->body;
    const int64_t again = is_long(p, w) ? p->s->options->limits->long_row_again_ops : 0;
    uint32_t ops = 0, loads = 0, narrow = 0;
    for (hn_sid k = 1; k < body->count; k++) {
        const hn_sop *op = &body->items[k];
        if (op->kind == HN_SOP_INDIRECT || op->kind == HN_SOP_RANDOM) return false;
        loads += op->kind == HN_SOP_LOAD;
        narrow +=
            op->kind == HN_SOP_LOAD && (op->dtype == HN_DTYPE_F16 || op->dtype == HN_DTYPE_BF16);
        if (op->kind != HN_SOP_ELEM) continue;
        if (!hn_op_has(op->op, HN_TRAIT_RECOMPUTE) && !again) return false;
        ops++;
    }
    if (p->g->slabs) return is_cheap_in_slabs(p, w, ops, loads, narrow);
    return ops <= (again ? again : RECOMPUTE_MAX_OPS) && loads <= RECOMPUTE_MAX_LOADS;
}

static hn_status inline_member(plan *p, uint32_t m, uint32_t phase, hn_kernel_phase *out,
                               hn_sid *out_value);

static hn_expr map_symbols(plan *p, hn_expr e) {
    hn_expr from[32], to[32];
    uint32_t count = 0;
    for (uint32_t k = 0; k < p->index_symbols.count && count < 32; k++) {
        hn_expr symbol = (hn_expr)p->index_symbols.entries[k].key;
        if (!hn_sym_uses(p->s->sym, e, symbol)) continue;
        from[count] = symbol;
        to[count++] = (hn_expr)p->index_symbols.entries[k].value;
    }
    return count ? hn_sym_subst(p->s->sym, e, from, to, count) : e;
}

/* Whether a load reads an element of member w's long row that the loop over the row does not stand
 * at, such as the one that an index picks: `*out_at` in place of w's variable. */
static bool picks_element(plan *p, uint32_t w, const hn_sop *load, hn_expr *out_var,
                          hn_expr *out_at) {
    hn_sym *sym = p->s->sym;
    hn_expr coeff, rest;
    const hn_loop *from = loop_of(p, w);
    if (from->kind != HN_LOOP_POINTWISE || p->inner_count[w] != 1 || !is_long(p, w) ||
        !p->s->options->limits->long_row_again_ops || !is_cheap(p, w))
        return false;
    *out_var = p->inner[w][0];
    if (!hn_sym_affine(sym, from->store.index, *out_var, &coeff, &rest) ||
        !hn_sym_is_value(sym, coeff, 1))
        return false;
    *out_at = hn_sym_sub(sym, map_symbols(p, load->index), rest);
    return !hn_sym_uses(sym, *out_at, *out_var) &&
           hn_sym_prove_le(sym, hn_sym_int(sym, 0), *out_at) &&
           hn_sym_prove_lt(sym, *out_at, hn_sym_symbol_extent(sym, *out_var));
}

static hn_status inline_sop(plan *p, uint32_t m, uint32_t phase, const hn_sop *op,
                            const hn_sid *map, hn_kernel_phase *out, hn_sid *out_sid);

/* Member w's value for another element. */
static hn_status inline_element(plan *p, uint32_t w, uint32_t phase, hn_expr var, hn_expr at,
                                hn_kernel_phase *out, hn_sid *out_sid) {
    const hn_loop *loop = loop_of(p, w);
    hn_sid *map;
    HN_NEW(p->s->scratch, map, loop->body.count);
    for (hn_sid k = 1; k < loop->body.count; k++) {
        hn_sop op = loop->body.items[k];
        if (op.index) op.index = hn_sym_subst(p->s->sym, op.index, &var, &at, 1);
        HN_TRY(inline_sop(p, w, phase, &op, map, out, &map[k]));
    }
    *out_sid = map[loop->store.value];
    return NULL;
}

/* The value that a load of an in-group result stands for. *out_sid 0: it stays a load. */
static hn_status forward(plan *p, uint32_t m, uint32_t phase, const hn_sop *load,
                         hn_kernel_phase *out, hn_sid *out_sid) {
    *out_sid = 0;
    uint32_t w = writer_of(p, load->buffer, m);
    if (w == UINT32_MAX) return NULL;
    const member *from = &p->g->members.items[w];
    if (from->loop->kind == HN_LOOP_REDUCE) {
        hn_sop result = {.kind = HN_SOP_RESULT, .dtype = load->dtype, .imm.i = p->slot[w]};
        *out_sid = hn_body_add(p->s->arena, &out->body, &result);
        return *out_sid ? NULL
                        : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while planning a kernel");
    }
    bool here = from->phase == phase && same_element(p, m, w, load->index);
    bool again = p->inner_count[w] == 0 || (same_element(p, m, w, load->index) && is_cheap(p, w));
    if (here || (again && from->loop->store.index == load->index))
        return inline_member(p, w, phase, out, out_sid);
    hn_expr var, at;
    if (picks_element(p, w, load, &var, &at))
        return inline_element(p, w, phase, var, at, out, out_sid);
    p->kept[w] = true;
    for (uint32_t other = 0; other < m; other++) /* a buffer written in pieces is read whole */
        if (loop_of(p, other)->store.buffer == load->buffer) p->kept[other] = true;
    return NULL;
}

static hn_status inline_sop(plan *p, uint32_t m, uint32_t phase, const hn_sop *op,
                            const hn_sid *map, hn_kernel_phase *out, hn_sid *out_sid) {
    hn_sop copy = *op;
    for (uint32_t a = 0; a < 3; a++) copy.args[a] = op->args[a] ? map[op->args[a]] : 0;
    *out_sid = 0;
    if (op->kind == HN_SOP_LOAD) HN_TRY(forward(p, m, phase, op, out, out_sid));
    if (*out_sid) return NULL;
    if (op->kind == HN_SOP_INDIRECT) {
        for (hn_sid k = 1; k < out->body.count; k++) {
            const hn_sop *have = &out->body.items[k];
            if (have->kind != HN_SOP_INDIRECT || have->args[0] != copy.args[0] ||
                have->imm.i != copy.imm.i ||
                hn_sym_symbol_extent(p->s->sym, have->index) !=
                    hn_sym_symbol_extent(p->s->sym, copy.index))
                continue;
            *out_sid = k;
            return hn_map_put(&p->index_symbols, copy.index, have->index);
        }
    } else if (copy.index) {
        copy.index = map_symbols(p, copy.index);
    }
    *out_sid = hn_body_add(p->s->arena, &out->body, &copy);
    return *out_sid ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while planning a kernel");
}

static hn_status inline_member(plan *p, uint32_t m, uint32_t phase, hn_kernel_phase *out,
                               hn_sid *out_value) {
    uint64_t *known = hn_map_get(&p->inlined, m);
    if (known) {
        *out_value = (hn_sid)*known;
        return NULL;
    }
    const hn_loop *loop = loop_of(p, m);
    hn_sid *map;
    HN_NEW(p->s->scratch, map, loop->body.count);
    for (hn_sid k = 1; k < loop->body.count; k++)
        HN_TRY(inline_sop(p, m, phase, &loop->body.items[k], map, out, &map[k]));
    *out_value = map[loop->store.value];
    return hn_map_put(&p->inlined, m, *out_value);
}

/* Row-major position over the inner variables: what ARGMAX and CUMMAX report. */
static hn_expr position_of(plan *p, uint32_t m) {
    hn_expr at = hn_sym_int(p->s->sym, 0);
    for (uint32_t d = 0; d < p->inner_count[m]; d++) {
        hn_expr extent = hn_sym_symbol_extent(p->s->sym, p->inner[m][d]);
        at = hn_sym_add(p->s->sym, hn_sym_mul(p->s->sym, at, extent), p->inner[m][d]);
    }
    return at;
}

static hn_status add_member(plan *p, uint32_t m, uint32_t phase, hn_kernel_phase *out) {
    const hn_loop *loop = loop_of(p, m);
    HN_TRY(inline_member(p, m, phase, out, &p->own_value[m]));
    if (p->g->members.items[m].is_column) {
        hn_kernel_column column = {.op = loop->reduce_op,
                                   .dtype = out->body.items[p->own_value[m]].dtype,
                                   .value = p->own_value[m],
                                   .buffer = loop->store.buffer,
                                   .index = loop->store.index};
        HN_PUSH(p->s->arena, &out->columns, column);
        return NULL;
    }
    if (loop->kind != HN_LOOP_REDUCE && loop->kind != HN_LOOP_SCAN) return NULL;
    hn_kernel_reduce reduce = {.op = loop->reduce_op,
                               .dtype = out->body.items[p->own_value[m]].dtype,
                               .value = p->own_value[m],
                               .position = position_of(p, m),
                               .slot = p->slot[m]};
    out->scan |= loop->kind == HN_LOOP_SCAN;
    HN_PUSH(p->s->arena, &out->reduces, reduce);
    return NULL;
}

static hn_status build_phase(plan *p, uint32_t number, uint32_t leader) {
    hn_kernel_phase phase = {.rank = p->inner_count[leader]};
    memcpy(phase.vars, p->inner[leader], phase.rank * sizeof(hn_expr));
    hn_map_init(&p->index_symbols, p->s->scratch);
    hn_map_init(&p->inlined, p->s->scratch);
    for (uint32_t m = leader; m < p->g->members.count; m++)
        if (p->g->members.items[m].phase == number && same_inner(p, leader, m))
            HN_TRY(add_member(p, m, number, &phase));
    /* The indirect symbols of scatter stores are those of the body. */
    for (uint32_t m = leader; m < p->g->members.count; m++) {
        hn_loop *loop = loop_of(p, m);
        if (p->g->members.items[m].phase == number && same_inner(p, leader, m))
            loop->store.index = map_symbols(p, loop->store.index);
    }
    HN_PUSH(p->s->arena, &p->k->phases, phase);
    return NULL;
}

/* Phases in order of number; within one number, one phase for each inner space. `at[m]` tells where
 * member m went. */
static hn_status build_phases(plan *p, uint32_t *at) {
    uint32_t count = p->g->members.count, last = 0;
    for (uint32_t m = 0; m < count; m++)
        if (p->g->members.items[m].phase > last) last = p->g->members.items[m].phase;
    for (uint32_t number = 0; number <= last; number++) {
        for (uint32_t m = 0; m < count; m++) {
            if (p->g->members.items[m].phase != number) continue;
            bool first = true;
            for (uint32_t e = 0; e < m && first; e++)
                first = p->g->members.items[e].phase != number || !same_inner(p, e, m);
            if (!first) continue;
            for (uint32_t e = m; e < count; e++)
                if (p->g->members.items[e].phase == number && same_inner(p, e, m))
                    at[e] = p->k->phases.count;
            HN_TRY(build_phase(p, number, m));
        }
    }
    return NULL;
}

/* --- memory --- */

static uint32_t readers_in_group(const plan *p, hn_buf b) {
    uint32_t count = 0;
    for (uint32_t m = 0; m < p->g->members.count; m++) {
        const hn_loop *loop = p->g->members.items[m].loop;
        bool reads = false;
        for (hn_sid k = 1; k < loop->body.count && !reads; k++)
            reads = loop->body.items[k].kind == HN_SOP_LOAD && loop->body.items[k].buffer == b;
        count += reads;
    }
    return count;
}

/* Whether an earlier kernel has written part of `b`: then it has to be where that one left it. */
static bool written_outside(const plan *p, hn_buf b) {
    uint32_t count = 0;
    for (uint32_t m = 0; m < p->g->members.count; m++)
        count += p->g->members.items[m].loop->store.buffer == b;
    return p->s->writers[b] > count;
}

static bool needed_outside(const plan *p, hn_buf b) {
    return p->s->p->buffers.items[b].kind != HN_BUFFER_TEMP ||
           p->s->readers[b] > readers_in_group(p, b);
}

/* The part of an index that does not depend on the row. */
static bool row_part(plan *p, hn_expr index, hn_expr *out) {
    for (uint32_t d = 0; d < p->g->outer.count; d++) {
        hn_expr coeff;
        if (!hn_sym_affine(p->s->sym, index, p->outer[d], &coeff, &index)) return false;
    }
    *out = index;
    return true;
}

/* Whether every access of `b` in the kernel can be made relative to its row, and how long a row
 * then is. */
static bool local_extent(plan *p, hn_buf b, hn_expr *out_extent) {
    int64_t longest = 0;
    for (uint32_t m = 0; m < p->g->members.count; m++) {
        const hn_loop *loop = loop_of(p, m);
        for (hn_sid k = 0; k < loop->body.count; k++) { /* k = 0 stands for the store */
            const hn_sop *op = &loop->body.items[k];
            hn_expr at = k ? op->index : loop->store.index;
            if (k ? (op->kind != HN_SOP_LOAD || op->buffer != b) : loop->store.buffer != b)
                continue;
            int64_t lo, hi;
            if (!row_part(p, at, &at)) return false;
            hn_sym_range(p->s->sym, at, &lo, &hi);
            if (lo < 0 || hi >= p->s->options->limits->local_max_elems) return false;
            if (hi + 1 > longest) longest = hi + 1;
        }
    }
    *out_extent = hn_sym_int(p->s->sym, longest);
    return longest > 0;
}

static void make_local(plan *p, hn_buf b) {
    for (uint32_t f = 0; f < p->k->phases.count; f++) {
        hn_kernel_phase *phase = &p->k->phases.items[f];
        for (hn_sid k = 1; k < phase->body.count; k++) {
            hn_sop *op = &phase->body.items[k];
            if (op->kind == HN_SOP_LOAD && op->buffer == b)
                (void)row_part(p, op->index, &op->index);
        }
        for (uint32_t k = 0; k < phase->stores.count; k++)
            if (phase->stores.items[k].buffer == b)
                (void)row_part(p, phase->stores.items[k].index, &phase->stores.items[k].index);
    }
}

static hn_status add_store(plan *p, hn_kernel_phase *phase, const hn_loop_store *store,
                           hn_sid value) {
    hn_kernel_store out = {
        .buffer = store->buffer, .index = store->index, .value = value, .mode = store->mode};
    HN_PUSH(p->s->arena, &phase->stores, out);
    return NULL;
}

/* The phase of rank 0 that stores the results of the reductions of phase `after`: directly behind
 * it. */
static hn_status store_results(plan *p, const uint32_t *at) {
    uint32_t count = p->k->phases.count;
    for (uint32_t f = count; f-- > 0;) {
        hn_kernel_phase tail = {0};
        for (uint32_t m = 0; m < p->g->members.count; m++) {
            const hn_loop *loop = loop_of(p, m);
            if (at[m] != f || loop->kind != HN_LOOP_REDUCE ||
                !needed_outside(p, loop->store.buffer))
                continue;
            hn_sop result = {.kind = HN_SOP_RESULT,
                             .dtype = p->s->p->buffers.items[loop->store.buffer].dtype,
                             .imm.i = p->slot[m]};
            hn_sid value = hn_body_add(p->s->arena, &tail.body, &result);
            if (!value) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while planning a kernel");
            HN_TRY(add_store(p, &tail, &loop->store, value));
        }
        if (!tail.stores.count) continue;
        HN_PUSH(p->s->arena, &p->k->phases, tail);
        hn_kernel_phase *items = p->k->phases.items;
        memmove(&items[f + 2], &items[f + 1], (p->k->phases.count - f - 2) * sizeof *items);
        items[f + 1] = tail;
    }
    return NULL;
}

static hn_status add_stores(plan *p, const uint32_t *at) {
    for (uint32_t m = 0; m < p->g->members.count; m++) {
        const hn_loop *loop = loop_of(p, m);
        hn_buf b = loop->store.buffer;
        if (loop->kind == HN_LOOP_REDUCE || p->g->members.items[m].is_column ||
            (!p->kept[m] && !needed_outside(p, b) && loop->kind == HN_LOOP_POINTWISE))
            continue;
        hn_kernel_phase *phase = &p->k->phases.items[at[m]];
        hn_sid value = p->own_value[m];
        if (loop->kind == HN_LOOP_SCAN) {
            hn_dtype dtype = p->s->p->buffers.items[b].dtype;
            value =
                hn_body_add(p->s->arena, &phase->body,
                            &(hn_sop){.kind = HN_SOP_RESULT, .dtype = dtype, .imm.i = p->slot[m]});
            hn_sop second = {.kind = HN_SOP_RESULT,
                             .op = HN_OP_ARGMAX,
                             .dtype = HN_DTYPE_I64,
                             .imm.i = p->slot[m]};
            if (loop->indices.buffer)
                HN_TRY(add_store(p, phase, &loop->indices,
                                 hn_body_add(p->s->arena, &phase->body, &second)));
        }
        HN_TRY(add_store(p, phase, &loop->store, value));
    }
    return NULL;
}

static hn_status choose_locals(plan *p) {
    for (uint32_t m = 0; m < p->g->members.count; m++) {
        hn_buf b = loop_of(p, m)->store.buffer;
        hn_expr extent;
        if (!p->kept[m] || needed_outside(p, b) || written_outside(p, b) ||
            writer_of(p, b, m) != UINT32_MAX || !local_extent(p, b, &extent))
            continue;
        make_local(p, b);
        HN_PUSH(p->s->arena, &p->k->locals, ((hn_local){.buffer = b, .extent_elems = extent}));
    }
    return NULL;
}

/* --- form --- */

static void set_outer(plan *p, uint32_t count) {
    p->k->rank = count;
    memcpy(p->k->vars, p->outer, count * sizeof *p->outer);
}

/* A flat group: the last dim becomes the inner loop; alone it is the parallel range itself. */
static void shape_flat(plan *p) {
    group *g = p->g;
    if (!g->outer.count) return;
    g->outer.count--;
    hn_expr last = p->outer[g->outer.count];
    for (uint32_t m = 0; m < g->members.count; m++) {
        p->inner[m][0] = last;
        p->inner_count[m] = 1;
    }
}

/* Whole numbers come out the same in whatever order they are combined. */
static bool order_counts(const plan *p, const hn_loop_store *store) {
    return store->mode == HN_STORE_SET ||
           hn_dtype_is_float(p->s->p->buffers.items[store->buffer].dtype);
}

static void shape_scatter(plan *p) {
    group *g = p->g;
    memcpy(p->inner[0], p->outer, g->outer.count * sizeof *p->outer);
    p->inner_count[0] = g->outer.count;
    g->outer.count = 0;
    const hn_loop_store *store = &loop_of(p, 0)->store;
    p->k->serial = true;
    p->k->in_order = p->s->options->deterministic && order_counts(p, store);
}

static void shape(plan *p) {
    group *g = p->g;
    bool scatter = g->form == GROUP_SINGLE && loop_of(p, 0)->kind == HN_LOOP_SCATTER;
    merge_outer(p);
    for (uint32_t m = 0; m < g->members.count; m++) {
        bool first = true;
        for (uint32_t e = 0; e < m && first; e++) first = !same_inner(p, e, m);
        if (first && loop_of(p, m)->kind != HN_LOOP_SCAN) merge_inner_class(p, m);
    }
    if (g->form == GROUP_FLAT) shape_flat(p);
    if (scatter) shape_scatter(p);
    set_outer(p, g->outer.count);
    if (g->form == GROUP_COLUMN || (g->form == GROUP_SINGLE && !scatter))
        p->k->mode = HN_VECTOR_OUTER;
    else
        p->k->mode = g->form == GROUP_FLAT && g->outer.count == 0 && p->inner_count[0] == 1
                         ? HN_VECTOR_FLAT
                         : HN_VECTOR_INNER;
}

/* The loops as they are now: planning changes their indices and variables. */
static hn_status keep_loops(plan *p) {
    const group *g = p->g;
    p->k->loop_count = g->members.count;
    HN_NEW(p->s->arena, p->k->loops, g->members.count);
    for (uint32_t m = 0; m < g->members.count; m++) {
        hn_kernel_loop *kept = &p->k->loops[m];
        HN_TRY(loop_copy(p->s, g->members.items[m].loop, &kept->loop));
        kept->origin = g->members.items[m].origin;
        kept->is_column = g->members.items[m].is_column;
        kept->row_rank = g->outer.count;
    }
    return NULL;
}

/* The nodes of the ops that load, or of the others. */
static hn_status gather_ops(plan *p, bool loads) {
    for (uint32_t f = 0; f < p->k->phases.count; f++) {
        const hn_body *body = &p->k->phases.items[f].body;
        for (hn_sid s = 1; s < body->count; s++)
            if ((body->items[s].kind == HN_SOP_LOAD) == loads)
                HN_TRY(hn_origins_add(p->s->arena, &p->k->origins, body->items[s].origin));
    }
    return NULL;
}

/* The nodes of the ops, and those whose loop does more than its ops: it combines them. A load is of
 * the node that reads, which a call may have taken since: it counts in a copy only. */
static hn_status gather_origins(plan *p) {
    HN_TRY(gather_ops(p, false));
    for (uint32_t m = 0; m < p->g->members.count; m++)
        if (p->g->members.items[m].is_column || loop_of(p, m)->kind != HN_LOOP_POINTWISE)
            HN_TRY(hn_origins_add(p->s->arena, &p->k->origins, p->g->members.items[m].origin));
    return p->k->origins.count ? NULL : gather_ops(p, true);
}

hn_status sched_plan(sched *s, group *g, hn_step *out) {
    uint32_t count = g->members.count, *at;
    plan p = {.s = s, .g = g};
    HN_NEW(s->arena, p.k, 1);
    HN_NEW(s->scratch, at, count);
    HN_NEW(s->scratch, p.slot, count);
    HN_NEW(s->scratch, p.own_value, count);
    HN_NEW(s->scratch, p.kept, count);
    HN_TRY(keep_loops(&p));
    HN_TRY(name_variables(&p));
    shape(&p);
    for (uint32_t m = 0; m < count; m++) {
        hn_loop_kind kind = loop_of(&p, m)->kind;
        if (kind == HN_LOOP_REDUCE || kind == HN_LOOP_SCAN) p.slot[m] = p.k->slots++;
    }
    number_phases(&p);
    HN_TRY(build_phases(&p, at));
    HN_TRY(add_stores(&p, at));
    HN_TRY(choose_locals(&p));
    HN_TRY(store_results(&p, at));
    p.k->slabs = g->slabs;
    p.k->slab_elems = g->slab_elems;
    p.k->origin = g->members.items[count - 1].origin;
    HN_TRY(gather_origins(&p));
    p.k->threads = s->options->threads;
    *out = (hn_step){.kind = HN_STEP_KERNEL, .kernel = p.k};
    return NULL;
}
