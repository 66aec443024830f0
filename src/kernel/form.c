/* form.c: building forms. */
#include "base/compiler.h"
#include "kernel/check.h"

static void fail(hn_form *f, hn_status status) {
    if (f->failed) hn_status_free(status);
    else f->failed = status;
}

/* What both kinds of forms have. */
static hn_status create(const hn_program *program, hn_arena *arena, hn_expr grid, hn_form **out) {
    hn_form *f;
    HN_NEW(arena, f, 1);
    *f = (hn_form){.arena = arena, .sym = program->sym, .program = program, .grid = grid};
    f->ordinals = HN_FORM_FIRST_ORDINAL;
    f->blocks = 1;
    HN_PUSH(arena, &f->memories, (hn_form_memory){0});
    HN_PUSH(arena, &f->registers, (hn_form_register){0});
    HN_PUSH(arena, &f->stmts, (hn_form_stmt){0});
    HN_PUSH(arena, &f->open, (struct hn_form_block){0});
    *out = f;
    return NULL;
}

hn_status hn_form_create(const hn_program *program, hn_arena *arena, uint32_t threads, hn_expr grid,
                         hn_form **out) {
    HN_TRY(create(program, arena, grid, out));
    hn_form *f = *out;
    f->threads = threads;
    f->group = hn_form_symbol(f, grid);
    f->thread = hn_form_symbol(f, hn_sym_int(f->sym, threads));
    return NULL;
}

hn_status hn_form_create_range(const hn_program *program, hn_arena *arena, uint32_t lanes,
                               hn_expr grid, hn_form **out) {
    HN_TRY(create(program, arena, grid, out));
    hn_form *f = *out;
    f->threads = 1;
    f->lanes = lanes;
    f->grain = 1;
    /* A range may end, and an empty one begin, behind the last iteration. */
    hn_expr extent = hn_sym_add(f->sym, grid, hn_sym_int(f->sym, 1));
    f->first = hn_form_symbol(f, extent);
    f->until = hn_form_symbol(f, extent);
    return NULL;
}

hn_expr hn_form_symbol(hn_form *f, hn_expr extent) {
    return hn_sym_index(f->sym, f->ordinals++, extent);
}

static hn_status push_memory(hn_form *f, hn_form_memory memory) {
    HN_PUSH(f->arena, &f->memories, memory);
    return NULL;
}

hn_fmem hn_form_add_memory(hn_form *f, hn_form_memory memory) {
    hn_status status = push_memory(f, memory);
    if (!status) return f->memories.count - 1;
    fail(f, status);
    return 0;
}

static bool is_argument(const hn_form_memory *memory, hn_buf buffer, hn_expr base) {
    return memory->space == HN_SPACE_ARGUMENT && memory->buffer == buffer && memory->base == base;
}

hn_fmem hn_form_argument(hn_form *f, hn_buf buffer, hn_expr base, bool is_written) {
    const hn_dtype dtype = f->program->buffers.items[buffer].dtype;
    hn_fmem at = 1;
    while (at < f->memories.count && !is_argument(&f->memories.items[at], buffer, base)) at++;
    if (at == f->memories.count)
        at =
            hn_form_add_memory(f, (hn_form_memory){.buffer = buffer, .base = base, .dtype = dtype});
    if (!at) return 0;
    *(is_written ? &f->memories.items[at].is_written : &f->memories.items[at].is_read) = true;
    return at;
}

static hn_status push_register(hn_form *f, hn_form_register reg) {
    HN_PUSH(f->arena, &f->registers, reg);
    return NULL;
}

hn_freg hn_form_add_register(hn_form *f, hn_op op, hn_dtype dtype) {
    hn_status status = push_register(f, (hn_form_register){.op = op, .dtype = dtype});
    if (!status) return f->registers.count - 1;
    fail(f, status);
    return 0;
}

/* Behind the last statement of the block at hand. */
static void link_stmt(hn_form *f, hn_fid s) {
    struct hn_form_block *block = &f->open.items[f->open.count - 1];
    hn_form_stmt *owner = &f->stmts.items[block->owner];
    if (block->last) f->stmts.items[block->last].next = s;
    else if (!block->owner) f->body = s;
    else if (block->is_otherwise) owner->otherwise = s;
    else owner->body = s;
    block->last = s;
}

static hn_status push_stmt(hn_form *f, hn_form_stmt stmt) {
    HN_PUSH(f->arena, &f->stmts, stmt);
    hn_fid s = f->stmts.count - 1;
    link_stmt(f, s);
    if (hn_form_kind_opens(stmt.kind))
        HN_PUSH(f->arena, &f->open, (struct hn_form_block){.owner = s});
    return NULL;
}

hn_fid hn_form_add(hn_form *f, hn_form_stmt stmt) {
    if (f->failed) return 0;
    stmt.next = stmt.body = stmt.otherwise = 0;
    hn_status status = push_stmt(f, stmt);
    if (!status) return f->stmts.count - 1;
    fail(f, status);
    return 0;
}

void hn_form_for(hn_form *f, hn_expr var, hn_expr begin, hn_expr end, int64_t step) {
    (void)hn_form_add(
        f,
        (hn_form_stmt){.kind = HN_FORM_FOR, .var = var, .begin = begin, .end = end, .step = step});
}

void hn_form_if(hn_form *f, hn_expr a, hn_expr b) {
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_IF, .begin = a, .end = b});
}

void hn_form_else(hn_form *f) {
    if (f->failed) return;
    struct hn_form_block *block = &f->open.items[f->open.count - 1];
    if (!block->owner || !hn_form_kind_branches(f->stmts.items[block->owner].kind) ||
        block->is_otherwise) {
        fail(f, HN_ERROR(HN_INTERNAL, "a form has an else without an if"));
        return;
    }
    *block = (struct hn_form_block){.owner = block->owner, .is_otherwise = true};
}

void hn_form_close(hn_form *f) {
    if (f->failed) return;
    if (f->open.count == 1) {
        fail(f, HN_ERROR(HN_INTERNAL, "a form closes a block that it has not opened"));
        return;
    }
    hn_fid owner = f->open.items[--f->open.count].owner;
    if (f->stmts.items[owner].kind != HN_FORM_LANES) return;
    hn_status status = hn_form_set_lane_facts(f, owner);
    if (status) fail(f, status);
}

void hn_form_let(hn_form *f, hn_expr var, hn_expr e) {
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_LET, .var = var, .begin = e});
}

hn_fid hn_form_value(hn_form *f, hn_sop op) {
    return hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_VALUE, .op = op});
}

void hn_form_store(hn_form *f, hn_fmem memory, hn_expr index, hn_fid value, hn_store_mode mode) {
    bool combines = mode != HN_STORE_SET;
    if (combines && memory < f->memories.count) f->memories.items[memory].is_read = true;
    (void)hn_form_add(
        f,
        (hn_form_stmt){
            .kind = HN_FORM_STORE, .memory = memory, .index = index, .value = value, .mode = mode});
}

void hn_form_scatter(hn_form *f, hn_fmem memory, hn_expr index, hn_fid value, hn_store_mode mode,
                     bool is_atomic) {
    const bool combines = mode != HN_STORE_SET;
    if (combines && memory < f->memories.count) f->memories.items[memory].is_read = true;
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_STORE,
                                        .memory = memory,
                                        .index = index,
                                        .value = value,
                                        .mode = mode,
                                        .is_apart = combines && !is_atomic,
                                        .is_atomic = is_atomic});
}

void hn_form_init(hn_form *f, hn_freg reg) {
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_INIT, .reg = reg});
}

void hn_form_step(hn_form *f, hn_freg reg, hn_fid value, hn_fid position) {
    (void)hn_form_add(
        f, (hn_form_stmt){.kind = HN_FORM_STEP, .reg = reg, .value = value, .position = position});
}

hn_fid hn_form_result(hn_form *f, hn_freg reg, bool position) {
    return hn_form_value(
        f, (hn_sop){.kind = HN_SOP_RESULT,
                    .op = position ? HN_OP_ARGMAX : 0,
                    .imm.i = reg,
                    .dtype = position ? HN_DTYPE_I64 : f->registers.items[reg].dtype});
}

void hn_form_barrier(hn_form *f) { (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_BARRIER}); }

void hn_form_before(hn_form *f, hn_freg reg, hn_freg all, uint32_t width, uint32_t pitch) {
    (void)hn_form_add(
        f, (hn_form_stmt){
               .kind = HN_FORM_BEFORE, .reg = reg, .all = all, .width = width, .pitch = pitch});
}

void hn_form_unrolled(hn_form *f, hn_expr var, uint32_t count) {
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_FOR,
                                        .var = var,
                                        .begin = hn_sym_int(f->sym, 0),
                                        .end = hn_sym_int(f->sym, count),
                                        .step = 1,
                                        .unroll = count});
}

void hn_form_move(hn_form *f, hn_fmem to, hn_expr index, hn_fmem from, hn_expr from_index,
                  uint32_t count) {
    if (to < f->memories.count) f->memories.items[to].is_written = true;
    if (from < f->memories.count) f->memories.items[from].is_read = true;
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_MOVE,
                                        .memory = to,
                                        .index = index,
                                        .from = from,
                                        .from_index = from_index,
                                        .count = count});
}

void hn_form_await(hn_form *f, uint32_t but) {
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_AWAIT, .count = but});
}

void hn_form_across(hn_form *f, hn_freg reg) {
    if (reg < f->registers.count) f->registers.items[reg].across = true;
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_ACROSS, .reg = reg});
}

void hn_form_across_threads(hn_form *f, hn_freg reg, uint32_t width, uint32_t pitch) {
    if (reg < f->registers.count) f->registers.items[reg].across = true;
    (void)hn_form_add(
        f, (hn_form_stmt){.kind = HN_FORM_ACROSS, .reg = reg, .width = width, .pitch = pitch});
}

uint32_t hn_form_exchanged(uint32_t threads, uint32_t warp, uint32_t width, uint32_t pitch) {
    if (width * pitch <= warp) return 0;
    return pitch < warp ? threads / warp * pitch : threads; /* one for each row of a warp */
}

void hn_form_set(hn_form *f, hn_freg reg, hn_fid value, hn_fid position) {
    (void)hn_form_add(
        f, (hn_form_stmt){.kind = HN_FORM_SET, .reg = reg, .value = value, .position = position});
}

void hn_form_block(hn_form *f) { (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_BLOCK}); }

void hn_form_lanes_in(hn_form *f, hn_expr var, hn_expr begin, hn_expr end, uint32_t unroll,
                      hn_form_lanes lanes) {
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_LANES,
                                        .var = var,
                                        .begin = begin,
                                        .end = end,
                                        .unroll = unroll,
                                        .lanes = lanes});
}

void hn_form_vector(hn_form *f) { (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_VECTOR}); }

void hn_form_prefetch(hn_form *f, hn_fmem memory, hn_expr index, hn_form_fetch fetch,
                      uint32_t every) {
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_PREFETCH,
                                        .memory = memory,
                                        .index = index,
                                        .fetch = fetch,
                                        .every = every});
}

static hn_status keep_transpose(hn_form *f, hn_form_transpose transpose,
                                const hn_form_transpose **out) {
    hn_form_transpose *kept;
    HN_NEW(f->arena, kept, 1);
    *kept = transpose;
    *out = kept;
    return NULL;
}

void hn_form_transpose_into(hn_form *f, hn_fmem memory, hn_expr index,
                            hn_form_transpose transpose) {
    hn_form_stmt stmt = {.kind = HN_FORM_TRANSPOSE, .memory = memory, .index = index};
    hn_status status = keep_transpose(f, transpose, &stmt.transpose);
    if (status) fail(f, status);
    else (void)hn_form_add(f, stmt);
}

void hn_form_if_aligned(hn_form *f, hn_fmem memory) {
    (void)hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_IF_ALIGNED, .memory = memory});
}

/* ---- segments ---- */

uint32_t hn_form_argument_count(const hn_form *f) {
    uint32_t count = 0;
    for (hn_fmem m = 1; m < f->memories.count; m++)
        count += f->memories.items[m].space == HN_SPACE_ARGUMENT;
    return count;
}

static hn_status push_segment(hn_form *f, const hn_buf *buffers, hn_expr length) {
    const uint32_t count = hn_form_argument_count(f);
    hn_buf *kept;
    HN_NEW(f->arena, kept, count);
    for (uint32_t k = 0; k < count; k++) kept[k] = buffers[k];
    HN_PUSH(f->arena, &f->segments, ((hn_form_segment){.buffers = kept, .length = length}));
    return NULL;
}

void hn_form_segment_add(hn_form *f, const hn_buf *buffers, hn_expr length) {
    hn_status status = push_segment(f, buffers, length);
    if (status) fail(f, status);
}

hn_expr hn_form_in_segment(const hn_form *f, uint32_t k, hn_expr e) {
    const hn_expr length = f->segments.count ? f->segments.items[k].length : 0;
    return length ? hn_sym_subst(f->sym, e, &f->segment_length, &length, 1) : e;
}

hn_expr hn_form_grid(const hn_form *f) {
    if (!f->segments.count) return f->grid;
    hn_expr all = hn_sym_int(f->sym, 0);
    for (uint32_t k = 0; k < f->segments.count; k++)
        all = hn_sym_add(f->sym, all, hn_form_in_segment(f, k, f->grid));
    return all;
}

/* ---- the end ---- */

hn_status hn_form_end(hn_form *f) {
    hn_status status = f->failed;
    f->failed = NULL;
    if (!status && f->open.count > 1) status = HN_ERROR(HN_INTERNAL, "a form ends inside a block");
    if (!status) status = hn_sym_status(f->sym);
    return status ? status : hn_form_check(f, NULL, &f->sizes);
}
