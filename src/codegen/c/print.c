/* print.c: a kernel as one C function: arguments, rows, phases, loops over lanes. */
#include "codegen/c/internal.h"

#include "base/checked.h"
#include "codegen/c/mathlib.h"

#include <stdarg.h>
#include <string.h>

/* A flat kernel's parallel iteration covers this many elements. */
enum { FLAT_BLOCK = 1024 };

/* A kernel that writes more than this writes past the caches: half of a last-level cache of 32 MiB. What is written with
 * ordinary stores is first read, and would push everything else out. Measured: copies of 16 MiB and up gain 1.6. */
enum { STREAM_BYTES = 16 << 20 };

/* A body with this many loads of single elements (bilinear sampling has four) gains nothing from a second copy of itself, and the
 * compiler works longest on such bodies. */
enum { MANY_GATHERS = 4 };

void put_begin(printer *pr) {
    for (uint32_t k = 0; k < pr->indent; k++) hn_strbuf_puts(&pr->out, "  ");
}

void put_line(printer *pr, const char *fmt, ...) {
    put_begin(pr);
    va_list args;
    va_start(args, fmt);
    hn_strbuf_vprintf(&pr->out, fmt, args);
    va_end(args);
    hn_strbuf_putc(&pr->out, '\n');
}

void open_block(printer *pr, const char *text) {
    put_line(pr, "%s{", text);
    pr->indent++;
}

void close_block(printer *pr) {
    pr->indent--;
    put_line(pr, "}");
}

hn_expr extent_of(printer *pr, hn_expr var) { return hn_sym_symbol_extent(pr->sym, var); }

int64_t known(printer *pr, hn_expr e) {
    int64_t value;
    return hn_sym_is_int(pr->sym, e, &value) ? value : -1;
}

/* --- which sops are needed, where they change --- */

static void mark_live(printer *pr, hn_sid s) {
    if (!s || pr->live[s]) return;
    pr->live[s] = 1;
    hn_sid gated = gated_by_sigmoid(pr, &pr->phase->body.items[s]);
    if (gated) {
        mark_live(pr, gated);
        return;
    }
    if (is_of_indices(pr, &pr->phase->body.items[s])) return;
    for (uint32_t a = 0; a < 3; a++) mark_live(pr, pr->phase->body.items[s].args[a]);
}

/* The op that binds each indirect symbol in a live index is live too. */
static void mark_index(printer *pr, hn_expr e) {
    const hn_body *body = &pr->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && e && hn_sym_uses(pr->sym, e, body->items[s].index)) mark_live(pr, s);
}

static uint32_t index_level(printer *pr, hn_expr e) {
    uint32_t level = 0;
    if (!e) return 0;
    for (uint32_t d = 0; d < pr->phase->rank; d++)
        if (hn_sym_uses(pr->sym, e, pr->phase->vars[d])) level = d + 1;
    const hn_body *body = &pr->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && pr->level[s] > level && hn_sym_uses(pr->sym, e, body->items[s].index))
            level = pr->level[s];
    return level;
}

/* The compiler would add to a product before it is rounded, in one kernel and not in the next: the floor of a position could be
 * one number where an element is looked up and another where its weight is computed, and x * x - y * y of equal ones not 0. */
static void mark_rounded(printer *pr) {
    const hn_sop *ops = pr->phase->body.items;
    for (hn_sid s = 1; s < pr->phase->body.count; s++) {
        if (ops[s].kind != HN_SOP_ELEM || (ops[s].op != HN_OP_ADD && ops[s].op != HN_OP_SUB)) continue;
        for (uint32_t a = 0; a < 2; a++) {
            hn_sid x = ops[s].args[a];
            while (ops[x].kind == HN_SOP_ELEM && ops[x].op == HN_OP_NEG) x = ops[x].args[0];
            pr->rounded[x] = ops[x].kind == HN_SOP_ELEM && ops[x].op == HN_OP_MUL && hn_dtype_is_float(ops[x].dtype);
        }
    }
}

hn_status analyse_phase(printer *pr) {
    const hn_kernel_phase *phase = pr->phase;
    uint32_t count = phase->body.count ? phase->body.count : 1;
    HN_NEW(pr->scratch, pr->live, count);
    HN_NEW(pr->scratch, pr->varying, count);
    HN_NEW(pr->scratch, pr->level, count);
    HN_NEW(pr->scratch, pr->divisor, count);
    HN_NEW(pr->scratch, pr->rounded, count);
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        mark_live(pr, phase->stores.items[k].value);
        mark_index(pr, phase->stores.items[k].index);
    }
    for (uint32_t k = 0; k < phase->reduces.count; k++) mark_live(pr, phase->reduces.items[k].value);
    for (hn_sid s = phase->body.count; s-- > 1;)
        if (pr->live[s] && phase->body.items[s].kind != HN_SOP_INDIRECT) mark_index(pr, phase->body.items[s].index);
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        for (uint32_t a = 0; a < 3; a++) {
            if (pr->level[op->args[a]] > pr->level[s]) pr->level[s] = pr->level[op->args[a]];
            pr->varying[s] |= pr->varying[op->args[a]];
        }
        if (op->kind == HN_SOP_RESULT && pr->column) pr->varying[s] = 1; /* each lane is a row with a result of its own */
        if (op->kind == HN_SOP_INDIRECT || !op->index) continue;
        uint32_t level = index_level(pr, op->index);
        if (level > pr->level[s]) pr->level[s] = level;
        pr->varying[s] |= uses_lane(pr, op->index);
    }
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (pr->live[s] && divides_once(pr, &phase->body.items[s])) pr->divisor[phase->body.items[s].args[1]] = 1;
    mark_rounded(pr);
    return NULL;
}

uint32_t phase_cost(const hn_kernel_phase *phase) {
    uint32_t cost = 0;
    for (hn_sid s = 1; s < phase->body.count; s++) cost += sop_cost(&phase->body.items[s]);
    return cost + phase->stores.count + phase->reduces.count;
}

/* --- bodies --- */

/* The ops of one loop level; `first`: from which level on. */
void put_level_range(printer *pr, uint32_t first, uint32_t last) {
    const hn_kernel_phase *phase = pr->phase;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        if (!pr->live[s] || pr->level[s] < first || pr->level[s] > last) continue;
        if (phase->scan && phase->body.items[s].kind == HN_SOP_RESULT) continue;
        put_sop(pr, s);
    }
}

void put_phase_effects(printer *pr) {
    const hn_kernel_phase *phase = pr->phase;
    for (uint32_t k = 0; k < phase->reduces.count; k++) put_reduce_step(pr, &phase->reduces.items[k]);
    for (hn_sid s = 1; s < phase->body.count && phase->scan; s++)
        if (pr->live[s] && phase->body.items[s].kind == HN_SOP_RESULT) put_sop(pr, s);
    for (uint32_t k = 0; k < phase->stores.count; k++) put_store(pr, &phase->stores.items[k]);
}

/* One vector of the innermost loop, in a block of its own. */
void put_vector(printer *pr, const char *head, uint32_t first_level, uint32_t copy, bool tail) {
    pr->copy = copy;
    pr->tail = tail;
    open_block(pr, "");
    put_line(pr, "%s", head);
    if (tail && pr->phase->reduces.count && !pr->column) put_line(pr, "const vi live = lanes_below(n);");
    put_level_range(pr, first_level, pr->phase->rank);
    put_phase_effects(pr);
    if (!tail) put_fetches(pr);
    close_block(pr);
    pr->tail = false;
    pr->copy = 0;
}

/* for (var...) loops of the inner dims [from, to); ops of each level go in as soon as their variables are known. */
void open_loops(printer *pr, uint32_t from, uint32_t to, bool with_levels) {
    for (uint32_t d = from; d < to; d++) {
        uint32_t ordinal = hn_sym_index_ordinal(pr->sym, pr->phase->vars[d]);
        put_begin(pr);
        hn_strbuf_printf(&pr->out, "for (ll i%u = 0, e = ", ordinal);
        put_index(pr, extent_of(pr, pr->phase->vars[d]));
        hn_strbuf_printf(&pr->out, "; i%u < e; i%u++) {\n", ordinal, ordinal);
        pr->indent++;
        if (with_levels) put_level_range(pr, d + 1, d + 1);
    }
}

/* Whether the last vector of a row may begin where the row still has a whole one, and do some elements again. It does where lanes
 * are collected or skip elements: single ones cost as much as vectors there. No result may depend on how often an element is
 * computed; kernels in which this is done are never in place (in_place.c). */
static bool repeats_elements(printer *pr, int64_t known_extent) {
    const hn_kernel_phase *phase = pr->phase;
    bool costly = false;
    hn_expr step;
    if (pr->k->rank == 0 || known_extent < pr->lanes || known_extent % pr->lanes == 0) return false; /* rank 0: threads may share a row */
    if (phase->reduces.count || phase->scan || pr->folded || pr->may_stream || pr->wanted_count) return false;
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        const hn_kernel_store *store = &phase->stores.items[k];
        if (store->mode != HN_STORE_SET || walk_of(pr, store->index, &step) != WALK_ONE) return false;
        for (hn_sid s = 1; s < phase->body.count; s++)
            if (phase->body.items[s].kind == HN_SOP_LOAD && phase->body.items[s].buffer == store->buffer) return false;
    }
    for (hn_sid s = 1; s < phase->body.count; s++)
        costly |= pr->live[s] && phase->body.items[s].kind == HN_SOP_LOAD && walk_of(pr, phase->body.items[s].index, &step) >= WALK_STRIDE;
    return costly;
}

/* The lane loop over [lo, hi): unrolled, single vectors, then a tail or a vector that repeats elements. `lo` and `hi` are C expressions. */
static void put_lane_loop(printer *pr, const char *lo, uint32_t unroll, uint32_t first_level, int64_t known_extent) {
    uint32_t step = pr->lanes * unroll;
    if (known_extent == 0) known_extent = -1; /* the body is printed all the same: it names the buffers */
    bool whole = known_extent >= 0 && known_extent % pr->lanes == 0;
    put_line(pr, "ll at = %s;", lo);
    if (unroll > 1 && !(known_extent >= 0 && known_extent < step)) {
        put_line(pr, "for (; at + %u <= hi; at += %u) {", step, step);
        pr->indent++;
        for (uint32_t u = 0; u < unroll; u++) {
            char head[48];
            snprintf(head, sizeof head, "const ll j = at + %u; (void)j;", u * pr->lanes);
            put_vector(pr, head, first_level, u, false);
        }
        for (uint32_t u = 0; u < unroll && pr->folded; u++) {
            char head[48];
            snprintf(head, sizeof head, "const ll j = at + %u; (void)j;", u * pr->lanes);
            put_last_pass(pr, head, false);
        }
        close_block(pr);
    }
    if (repeats_elements(pr, known_extent)) {
        put_line(pr, "for (; at < hi; at += VF) {");
        pr->indent++;
        put_vector(pr, "const ll j = imin(at, hi - VF); (void)j;", first_level, 0, false);
        close_block(pr);
        pr->repeats = true;
        return;
    }
    if (!(known_extent >= 0 && (known_extent < pr->lanes || (unroll > 1 && known_extent % step == 0)))) {
        put_line(pr, "for (; at + VF <= hi; at += VF) {");
        pr->indent++;
        put_vector(pr, "const ll j = at; (void)j;", first_level, 0, false);
        if (pr->folded) put_last_pass(pr, "const ll j = at; (void)j;", false);
        close_block(pr);
    }
    if (whole) return;
    put_line(pr, "if (at < hi) {");
    pr->indent++;
    put_vector(pr, "const ll j = at, n = hi - at; (void)j; (void)n;", first_level, 0, true);
    if (pr->folded) put_last_pass(pr, "const ll j = at, n = hi - at; (void)j; (void)n;", true);
    close_block(pr);
}

/* Whether the innermost loop only moves elements. */
static bool is_copy(printer *pr) {
    const hn_body *body = &pr->phase->body;
    uint32_t cost = 0;
    for (hn_sid s = 1; s < body->count; s++)
        if (pr->live[s] && pr->level[s] == pr->phase->rank) cost += sop_cost(&body->items[s]);
    return cost <= 1 && pr->phase->stores.count == 1 && !pr->phase->reduces.count;
}

/* Whether the innermost loop fetches many single elements: their loads, not a chain, are what a vector waits for. */
static bool is_gather(printer *pr) {
    const hn_body *body = &pr->phase->body;
    uint32_t gathers = 0;
    for (hn_sid s = 1; s < body->count; s++) {
        hn_expr step;
        if (!pr->live[s] || body->items[s].kind != HN_SOP_LOAD) continue;
        gathers += walk_of(pr, body->items[s].index, &step) == WALK_GATHER;
    }
    return gathers >= MANY_GATHERS;
}

static uint32_t choose_unroll(printer *pr, int64_t known_extent) {
    uint32_t cost = phase_cost(pr->phase);
    if (!pr->phase->reduces.count && is_gather(pr)) return 1;
    /* several accumulators; and where each vector waits for a long chain (exp, division), two chains at a time */
    uint32_t unroll = pr->phase->reduces.count ? (cost <= 8 ? 4 : cost <= 24 ? 2 : 1) : cost >= 12 && cost <= 48 ? 2 : 1;
    bool lines = pr->wanted_count || (pr->may_stream && !pr->phase->reduces.count && cost <= 8); /* of memory, as wholes */
    if (lines && unroll * pr->lanes < 16) unroll = 16 / pr->lanes;
    if (lines && is_copy(pr) && !pr->wanted_count) unroll = 4; /* nothing but the loop's own work is in its way */
    while (unroll > 1 && known_extent >= 0 && known_extent < (int64_t)(pr->lanes * unroll)) unroll /= 2;
    return unroll;
}

/* What was hoisted out of loops may load: it must not run when a loop has no iteration. Returns whether a block was opened. */
static bool open_if_any(printer *pr) {
    bool any = false;
    for (uint32_t d = 0; d < pr->phase->rank; d++) {
        int64_t lo, hi;
        hn_expr extent = extent_of(pr, pr->phase->vars[d]);
        hn_sym_range(pr->sym, extent, &lo, &hi);
        if (lo > 0) continue;
        if (!any) put_begin(pr);
        hn_strbuf_puts(&pr->out, any ? " && " : "if (");
        put_index(pr, extent);
        hn_strbuf_puts(&pr->out, " > 0");
        any = true;
    }
    if (!any) return false;
    hn_strbuf_puts(&pr->out, ") {\n");
    pr->indent++;
    return true;
}

/* A phase whose lanes run along its last inner dim (or that has none). */
hn_status put_phase_inner(printer *pr, const hn_kernel_phase *phase) {
    pr->phase = phase;
    pr->lane = phase->rank ? phase->vars[phase->rank - 1] : 0;
    HN_TRY(analyse_phase(pr));
    for (uint32_t k = 0; k < phase->reduces.count; k++)
        put_line(pr, "%s r%u;", phase->reduces.items[k].op == HN_OP_ARGMAX || phase->reduces.items[k].op == HN_OP_ARGMIN ? "vl" : lane_type(phase->reduces.items[k].dtype), phase->reduces.items[k].slot);
    open_block(pr, "");
    uint32_t unroll = 1;
    if (phase->rank == 0) {
        put_level_range(pr, 0, 0);
        put_phase_effects(pr);
    } else {
        int64_t extent = known(pr, extent_of(pr, pr->lane));
        choose_fetches(pr);
        unroll = choose_unroll(pr, extent);
        for (uint32_t k = 0; k < phase->reduces.count; k++)
            for (uint32_t u = 0; u < unroll; u++) put_reduce_init(pr, &phase->reduces.items[k], u);
        bool guarded = open_if_any(pr);
        put_level_range(pr, 0, 0);
        put_indices_ahead(pr);
        open_loops(pr, 0, phase->rank - 1, true);
        put_begin(pr);
        hn_strbuf_puts(&pr->out, "const ll hi = ");
        put_index(pr, extent_of(pr, pr->lane));
        hn_strbuf_puts(&pr->out, ";\n");
        put_lane_loop(pr, "0", unroll, phase->rank, extent);
        for (uint32_t d = 0; d + 1 < phase->rank; d++) close_block(pr);
        if (guarded) close_block(pr);
        pr->wanted_count = 0;
    }
    for (uint32_t k = 0; k < phase->reduces.count; k++) put_reduce_finish(pr, &phase->reduces.items[k], unroll);
    close_block(pr);
    return NULL;
}

/* The only phase of a flat kernel: the lane loop covers this call's part of the range. */
static hn_status put_phase_flat(printer *pr, const hn_kernel_phase *phase) {
    pr->phase = phase;
    pr->lane = phase->vars[0];
    HN_TRY(analyse_phase(pr));
    choose_fetches(pr);
    put_level_range(pr, 0, 0);
    put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll hi = imin(");
    put_index(pr, extent_of(pr, pr->lane));
    hn_strbuf_printf(&pr->out, ", end * %d);\n", FLAT_BLOCK);
    int64_t extent = known(pr, extent_of(pr, pr->lane)); /* the last block's rest is the whole's: blocks are whole steps */
    char lo[48];
    snprintf(lo, sizeof lo, "begin * %d", FLAT_BLOCK);
    put_lane_loop(pr, lo, choose_unroll(pr, extent), 1, extent);
    return NULL;
}

/* --- the function --- */

/* Outer variables from the row number; the last `skip` are handled by the caller. */
void put_rows(printer *pr, const char *row, uint32_t count) {
    if (count == 0) return;
    if (count > 1) put_line(pr, "ll o = %s;", row);
    for (uint32_t d = count; d-- > 0;) {
        uint32_t ordinal = hn_sym_index_ordinal(pr->sym, pr->k->vars[d]);
        if (d == 0) {
            put_line(pr, "const ll i%u = %s;", ordinal, count > 1 ? "o" : row);
            break;
        }
        put_begin(pr);
        hn_strbuf_printf(&pr->out, "const ll i%u = o %% ", ordinal);
        put_index(pr, extent_of(pr, pr->k->vars[d]));
        hn_strbuf_puts(&pr->out, "; o /= ");
        put_index(pr, extent_of(pr, pr->k->vars[d]));
        hn_strbuf_puts(&pr->out, ";\n");
    }
}

static hn_status put_row_kernel(printer *pr) {
    if (pr->folds) HN_TRY(put_folded_rows(pr));
    if (reads_in_quarters(pr)) HN_TRY(put_quarters(pr));
    open_block(pr, "for (ll row = begin; row < end; row++) ");
    if (pr->k->rank == 0) put_line(pr, "(void)row;");
    put_rows(pr, "row", pr->k->rank);
    for (uint32_t f = 0; f < pr->k->phases.count; f++) HN_TRY(put_phase_inner(pr, &pr->k->phases.items[f]));
    close_block(pr);
    if (pr->folds) close_block(pr);
    return NULL;
}

/* --- the record --- */

static hn_expr rows_of(printer *pr, uint32_t count) {
    hn_expr rows = hn_sym_int(pr->sym, 1);
    for (uint32_t d = 0; d < count; d++) rows = hn_sym_mul(pr->sym, rows, extent_of(pr, pr->k->vars[d]));
    return rows;
}

/* How much a kernel writes, as far as sizes are known. */
static double written_bytes(printer *pr) {
    double bytes = 0, rows = 1;
    for (uint32_t d = 0; d < pr->k->rank; d++) rows *= (double)hn_sym_hint(pr->sym, extent_of(pr, pr->k->vars[d]), 1024);
    for (uint32_t f = 0; f < pr->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pr->k->phases.items[f];
        double elems = rows;
        for (uint32_t d = 0; d < phase->rank; d++) elems *= (double)hn_sym_hint(pr->sym, extent_of(pr, phase->vars[d]), 1024);
        for (uint32_t k = 0; k < phase->stores.count; k++)
            bytes += elems * hn_dtype_facts(pr->p->buffers.items[phase->stores.items[k].buffer].dtype)->size_bytes;
    }
    return bytes;
}

static void set_extent(printer *pr, hn_kernel_code *out) {
    const hn_kernel *k = pr->k;
    hn_sym *sym = pr->sym;
    int64_t per_row = 0;
    for (uint32_t f = 0; f < k->phases.count; f++) {
        int64_t elems = 1;
        for (uint32_t d = 0; d < k->phases.items[f].rank; d++) elems *= hn_sym_hint(sym, extent_of(pr, k->phases.items[f].vars[d]), 1024);
        per_row += elems * phase_cost(&k->phases.items[f]);
    }
    out->extent = pr->tile ? tile_extent(pr) : rows_of(pr, k->rank);
    if (pr->tile) per_row *= pr->tile_block;
    if (k->mode == HN_VECTOR_FLAT) {
        hn_expr n = extent_of(pr, k->phases.items[0].vars[0]);
        out->extent = hn_sym_ceildiv(sym, n, hn_sym_int(sym, FLAT_BLOCK));
        per_row = (int64_t)FLAT_BLOCK * phase_cost(&k->phases.items[0]);
    } else if (k->mode == HN_VECTOR_OUTER) {
        uint32_t width = column_width(pr);
        hn_expr last = k->rank ? extent_of(pr, k->vars[k->rank - 1]) : hn_sym_int(sym, 1);
        hn_expr strips = hn_sym_ceildiv(sym, last, hn_sym_int(sym, width));
        out->extent = hn_sym_mul(sym, k->rank ? rows_of(pr, k->rank - 1) : hn_sym_int(sym, 1), strips);
        per_row *= width;
    }
    if (k->serial) per_row = 0;
    out->grain = per_row <= 0 ? INT64_MAX : per_row >= GRAIN_WORK ? 1 : GRAIN_WORK / per_row;
}

int64_t local_bytes(printer *pr, uint32_t k) {
    const hn_local *local = &pr->k->locals.items[k];
    const hn_dtype_info *info = hn_dtype_facts(pr->p->buffers.items[local->buffer].dtype);
    /* whole vectors may be stored past the row's end only inside this padding */
    return (int64_t)hn_align_up((size_t)(known(pr, local->extent_elems) * info->size_bytes), 64) + 64;
}

/* Local buffers one after the other in the scratch memory; declares l0, l1..., or m0, m1... that are double. */
static void put_locals(printer *pr, hn_kernel_code *out) {
    int64_t offset = pr->wide_bytes;
    for (uint32_t k = 0; k < pr->k->locals.count; k++) {
        const hn_dtype_info *info = hn_dtype_facts(pr->p->buffers.items[pr->k->locals.items[k].buffer].dtype);
        put_line(pr, "%s *%c%u = (%s *)((char *)scratch + %lld);", info->c_type, pr->folds ? 'm' : 'l', k, info->c_type, (long long)offset);
        offset += local_bytes(pr, k) * (pr->folds ? 2 : 1);
    }
    if (offset) out->scratch_bytes = hn_sym_int(pr->sym, offset);
}

/* A buffer that is written through one argument is written, whichever argument one looks at. */
static void share_written(printer *pr) {
    for (uint32_t k = 0; k < pr->buffers.count; k++)
        for (uint32_t other = 0; other < pr->buffers.count; other++)
            if (pr->buffers.items[other] == pr->buffers.items[k]) pr->written.items[other] |= pr->written.items[k];
}

static hn_status print_function(printer *pr, hn_kernel_code *out) {
    hn_strbuf body;
    hn_strbuf_init(&pr->out);
    pr->indent = 1;
    hn_status status;
    if (pr->k->mode == HN_VECTOR_OUTER)
        status = put_column_kernel(pr);
    else if (pr->k->mode == HN_VECTOR_FLAT)
        status = put_phase_flat(pr, &pr->k->phases.items[0]);
    else if (pr->tile)
        status = put_tile_kernel(pr);
    else
        status = put_row_kernel(pr);
    body = pr->out;
    hn_strbuf_init(&pr->out);
    if (!status) status = pr->failed;
    if (!status) status = hn_strbuf_status(&body);
    if (!status) {
        share_written(pr);
        hn_strbuf_puts(&pr->out, "int KERNEL(void *const *B, const ll *S, ll begin, ll end, void *scratch) {\n  int err = 0;\n");
        for (uint32_t k = 0; k < pr->buffers.count; k++) {
            hn_dtype d = pr->p->buffers.items[pr->buffers.items[k]].dtype;
            const char *type = d == HN_DTYPE_I64 ? "ll" : hn_dtype_facts(d)->c_type;
            put_line(pr, "%s%s *b%u = B[%u];", pr->written.items[k] ? "" : "const ", type, k, k);
        }
        for (uint32_t k = 0; k < pr->sizes.count; k++) put_line(pr, "const ll n%u = S[%u];", k, k);
        put_line(pr, "(void)S; (void)scratch;");
        if (pr->checks_words) put_line(pr, "vi outside = sp_i(0);");
        put_locals(pr, out);
        hn_strbuf_append(&pr->out, body.ptr, body.len);
        if (pr->streaming) put_line(pr, "nt_fence();");
        if (pr->checks_words) put_line(pr, "LANES err |= outside[k] != 0;");
        hn_strbuf_puts(&pr->out, "  return err;\n}\n");
        status = hn_strbuf_status(&pr->out);
    }
    hn_strbuf_deinit(&body);
    return status;
}

static hn_status finish(printer *pr, hn_kernel_code *out) {
    char *text = hn_arena_strndup(pr->arena, pr->out.ptr, pr->out.len);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while printing a kernel");
    hn_kernel_code_name(out, (hn_str){text, pr->out.len});
    out->buffers = pr->buffers.items;
    out->offsets = pr->offsets.items;
    out->written = pr->written.items;
    out->buffer_count = pr->buffers.count;
    out->sizes = pr->sizes.items;
    out->size_count = pr->sizes.count;
    return find_in_place(pr, out);
}

hn_status hn_c_print(const hn_program *program, const hn_kernel *kernel, const hn_target *target, hn_arena *arena,
                     hn_arena *scratch, hn_kernel_code *out) {
    printer pr = {.p = program, .sym = program->sym, .k = kernel, .lanes = target->vector_bytes / 4, .arena = arena,
                  .scratch = scratch};
    *out = (hn_kernel_code){0};
    pr.tile = tile_variable(&pr);
    pr.written_bytes = written_bytes(&pr);
    pr.may_stream = pr.written_bytes > STREAM_BYTES;
    if (pr.tile) choose_tile_block(&pr);
    pr.folds = folds_last_pass(&pr);
    set_extent(&pr, out);
    hn_status status = find_bases(&pr);
    if (!status) status = print_function(&pr, out);
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
