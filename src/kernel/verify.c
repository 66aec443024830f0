/* verify.c: what must hold of a form. One walk over the tree of statements keeps what is in scope,
 * which memories are read and written, whether all threads of a group run the statement at hand,
 * and whether it is in a LANES or VECTOR. */
#include "kernel/verify_impl.h"

static hn_status check_block(checker *c, hn_fid first);

/* What is marked in a block is not known behind it. */
static void close_scope(checker *c, uint32_t symbols, uint32_t marks) {
    while (c->marks.count > marks) *c->marks.items[--c->marks.count] = false;
    c->symbols.count = symbols;
}

/* Whether its variable is a number in each copy of the body. */
static bool is_unrolled(const checker *c, hn_fid s) {
    const hn_form_stmt *stmt = &c->f->stmts.items[s];
    int64_t begin, end;
    if (stmt->kind != HN_FORM_FOR || !hn_sym_is_int(c->f->sym, stmt->begin, &begin) ||
        !hn_sym_is_int(c->f->sym, stmt->end, &end))
        return false;
    int64_t copies = stmt->unroll ? stmt->unroll : 1;
    return begin >= 0 && end - begin <= INT32_MAX && (end - begin) <= copies * stmt->step;
}

/* A block of statement `owner`, in which `var` is defined unless it is 0. */
static hn_status check_inner(checker *c, hn_fid owner, hn_fid first, hn_expr var, bool varies) {
    uint32_t symbols = c->symbols.count, marks = c->marks.count;
    hn_fid divides = c->divides;
    if (++c->depth > HN_FORM_DEPTH_MOST) return BAD("blocks are nested too deep");
    if (varies) c->divides = owner;
    if (var) HN_TRY(hn_verify_define_variable(c, var, varies));
    if (var) c->symbols.items[c->symbols.count - 1].is_fixed = is_unrolled(c, owner);
    HN_TRY(check_block(c, first));
    close_scope(c, symbols, marks);
    c->divides = divides;
    c->depth--;
    c->place = (hn_form_place){HN_FORM_PART_STMT, owner};
    return NULL;
}

static hn_status check_for(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    bool varies = false;
    HN_TRY(hn_verify_expr(c, stmt->begin, "the beginning", &varies));
    HN_TRY(hn_verify_expr(c, stmt->end, "the end", &varies));
    if (stmt->step < 1) return BAD("the step is not above 0");
    if (!stmt->var) return BAD("what it defines is no index symbol");
    return check_inner(c, s, stmt->body, stmt->var, varies);
}

static hn_status check_if(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    bool varies = false;
    HN_TRY(hn_verify_expr(c, stmt->begin, "the left side", &varies));
    HN_TRY(hn_verify_expr(c, stmt->end, "the right side", &varies));
    HN_TRY(check_inner(c, s, stmt->body, 0, varies));
    return check_inner(c, s, stmt->otherwise, 0, varies);
}

static hn_status check_if_aligned(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    HN_TRY(hn_verify_memory_id(c, stmt->memory));
    if (c->f->memories.items[stmt->memory].space != HN_SPACE_ARGUMENT)
        return BAD("m%u is no argument", stmt->memory);
    HN_TRY(check_inner(c, s, stmt->body, 0, false));
    return check_inner(c, s, stmt->otherwise, 0, false);
}

static hn_status check_lanes(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    HN_TRY(hn_verify_plain(c, stmt->begin, "the beginning"));
    HN_TRY(hn_verify_plain(c, stmt->end, "the end"));
    HN_TRY(hn_form_check_steps(stmt));
    if (hn_sym_symbol_kind(c->f->sym, stmt->var) != HN_SYMBOL_INDEX)
        return BAD("what it defines is no index symbol");
    c->lanes = stmt;
    c->region = HN_FORM_IN_LANES;
    HN_TRY(check_inner(c, s, stmt->body, 0, false));
    c->region = HN_FORM_IN_RANGE;
    c->lanes = NULL;
    return NULL;
}

static hn_status check_vector(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    c->region = HN_FORM_IN_VECTOR;
    HN_TRY(check_inner(c, s, stmt->body, c->lanes->var, true));
    c->region = HN_FORM_IN_LANES;
    return NULL;
}

static hn_status check_stmt(checker *c, hn_fid s) {
    const hn_form_stmt *stmt = &c->f->stmts.items[s];
    HN_TRY(hn_form_check_place(stmt, c->region));
    HN_TRY(hn_form_check_attributes(stmt));
    switch (stmt->kind) {
    case HN_FORM_FOR: return check_for(c, s, stmt);
    case HN_FORM_IF: return check_if(c, s, stmt);
    case HN_FORM_LET: return hn_verify_let(c, stmt);
    case HN_FORM_VALUE: return hn_verify_value_stmt(c, s, &stmt->op);
    case HN_FORM_STORE: return hn_verify_store(c, stmt);
    case HN_FORM_INIT: return hn_verify_init(c, stmt);
    case HN_FORM_STEP:
    case HN_FORM_SET: return hn_verify_step(c, stmt);
    case HN_FORM_BARRIER: return hn_verify_together(c, "a barrier");
    case HN_FORM_BLOCK: return check_inner(c, s, stmt->body, 0, false);
    case HN_FORM_LANES: return check_lanes(c, s, stmt);
    case HN_FORM_VECTOR: return check_vector(c, s, stmt);
    case HN_FORM_ACROSS: return hn_verify_across(c, stmt);
    case HN_FORM_PREFETCH: return hn_verify_prefetch(c, stmt);
    case HN_FORM_BEFORE: return hn_verify_before(c, stmt);
    case HN_FORM_MOVE: return hn_verify_move(c, stmt);
    case HN_FORM_AWAIT:
        return stmt->count > HN_FORM_BATCHES_MOST
                   ? BAD("it leaves %u batches under way", stmt->count)
                   : NULL;
    case HN_FORM_TRANSPOSE: return hn_verify_transpose(c, stmt);
    case HN_FORM_IF_ALIGNED: return check_if_aligned(c, s, stmt);
    case HN_FORM_KIND_COUNT: break;
    }
    return BAD("no kind of statement");
}

static hn_status check_block(checker *c, hn_fid first) {
    for (hn_fid s = first; s; s = c->f->stmts.items[s].next) {
        if (s >= c->f->stmts.count)
            return BAD("behind it or in it is statement %u, which does not exist", s);
        c->place = (hn_form_place){HN_FORM_PART_STMT, s};
        if (c->reached[s]) return BAD("it stands in two places");
        c->reached[s] = true;
        HN_TRY(check_stmt(c, s));
    }
    return NULL;
}

/* --- forms --- */

static bool is_index(const hn_form *f, hn_expr symbol, hn_expr extent) {
    return hn_sym_symbol_kind(f->sym, symbol) == HN_SYMBOL_INDEX &&
           hn_sym_symbol_extent(f->sym, symbol) == extent;
}

static hn_status check_groups(checker *c) {
    const hn_form *f = c->f;
    c->region = HN_FORM_IN_GROUP;
    if (!f->threads) return BAD("a group has no threads");
    HN_TRY(hn_form_check_blocks(f));
    if (f->is_narrow && !hn_form_fits_words(f))
        return BAD("it is narrow, but an index may need more than 32 bits");
    HN_TRY(hn_verify_size(c, f->grid, "the number of groups"));
    if (!is_index(f, f->group, f->grid) || !is_index(f, f->thread, hn_sym_int(f->sym, f->threads)))
        return BAD("group or thread is no index symbol below the number of them");
    if (f->first || f->until) return BAD("groups, but the ends of a range");
    HN_TRY(hn_verify_define_variable(c, f->group, false));
    return hn_verify_define_variable(c, f->thread, true);
}

static hn_status check_range(checker *c) {
    const hn_form *f = c->f;
    c->region = HN_FORM_IN_RANGE;
    if (f->threads != 1 || f->blocks != 1) return BAD("a range is not run by one thread");
    if (f->is_narrow) return BAD("a range is narrow");
    if (f->resident) return BAD("ranges are on no multiprocessor");
    if (f->grain < 1) return BAD("the grain is not above 0");
    HN_TRY(hn_verify_size(c, f->grid, "the number of iterations"));
    hn_expr extent = hn_sym_add(f->sym, f->grid, hn_sym_int(f->sym, 1));
    if (!is_index(f, f->first, extent) || !is_index(f, f->until, extent))
        return BAD("first or until is no index symbol up to the number of iterations");
    if (f->group || f->thread) return BAD("ranges, but the numbers of a group");
    HN_TRY(hn_verify_define_variable(c, f->first, false));
    return hn_verify_define_variable(c, f->until, false);
}

static hn_status begin(checker *c) {
    const hn_form *f = c->f;
    HN_NEW(c->scratch, c->reached, f->stmts.count);
    HN_NEW(c->scratch, c->defined, f->stmts.count);
    HN_NEW(c->scratch, c->ready, f->registers.count);
    HN_NEW(c->scratch, c->across, f->registers.count);
    HN_NEW(c->scratch, c->is_read, f->memories.count);
    HN_NEW(c->scratch, c->is_written, f->memories.count);
    return NULL;
}

static hn_status check(checker *c) {
    const hn_form *f = c->f;
    HN_TRY(begin(c));
    HN_TRY(f->lanes ? check_range(c) : check_groups(c));
    for (hn_fmem m = 1; m < f->memories.count; m++) HN_TRY(hn_verify_memory(c, m));
    for (hn_freg r = 1; r < f->registers.count; r++) HN_TRY(hn_verify_register(c, r));
    c->place = (hn_form_place){HN_FORM_PART_WHOLE, 0};
    HN_TRY(check_block(c, f->body));
    for (hn_fid s = 1; s < f->stmts.count; s++) {
        c->place = (hn_form_place){HN_FORM_PART_STMT, s};
        if (!c->reached[s]) return BAD("it is in no block");
    }
    for (hn_fmem m = 1; m < f->memories.count; m++) HN_TRY(hn_verify_access(c, m));
    for (hn_freg r = 1; r < f->registers.count; r++) HN_TRY(hn_verify_combined(c, r));
    c->place = (hn_form_place){HN_FORM_PART_WHOLE, 0};
    return hn_form_check_segments(f, c->scratch);
}

hn_status hn_form_check(const hn_form *f, hn_form_place *out_place, hn_form_sizes *out_sizes) {
    static const char *const names[] = {[HN_FORM_PART_MEMORY] = "memory m",
                                        [HN_FORM_PART_REGISTER] = "register r",
                                        [HN_FORM_PART_STMT] = "statement "};
    hn_arena scratch;
    hn_arena_init(&scratch);
    checker c = {.f = f, .scratch = &scratch, .sizes = out_sizes};
    if (out_sizes) out_sizes->count = 0;
    hn_status status = check(&c);
    hn_arena_deinit(&scratch);
    if (out_place) *out_place = c.place;
    if (hn_status_code(status) != HN_INTERNAL) return status;
    if (c.place.part == HN_FORM_PART_WHOLE) return hn_status_annotate(status, "kernel form");
    return hn_status_annotate(status, "kernel form, %s%u", names[c.place.part], c.place.id);
}

hn_status hn_form_verify(const hn_form *f) { return hn_form_check(f, NULL, NULL); }
