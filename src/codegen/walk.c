/* walk.c: see the header. The function, its memories and arguments, and its blocks. */
#include "codegen/walk_internal.h"

/* ---- blocks ---- */

static void put_block(walk *w, hn_fid first);

void walk_put_inner(walk *w, hn_fid first) {
    uint32_t defined_before = w->defined.count, index_count = w->index_count,
             value_count = w->value_count;
    w->depth++;
    put_block(w, first);
    w->depth--;
    w->defined.count = defined_before;
    w->index_count = index_count;
    w->value_count = value_count;
}

static void end_inner(walk *w) { walk_put_line(w, "}", HN_DTYPE_NONE, NULL); }

/* for (long i0 = begin; i0 < end; i0++) {. An end that takes computing is computed once. */
static void put_for_head(walk *w, const hn_form_stmt *s) {
    hn_expr_kind kind = hn_sym_kind(w->f->sym, s->end);
    bool once = kind != HN_EXPR_CONST && kind != HN_EXPR_SYMBOL;
    char step[24];
    snprintf(step, sizeof step, s->step == 1 ? "++" : " += %lld", (long long)s->step);
    const char *begin = walk_index_text(w, s->begin),
               *end = walk_index_text(w, s->end); /* of what is known outside */
    name var = walk_define(w, s->var, SYMBOL_NUMBER);
    walk_begin_line(w);
    hn_strbuf_printf(&w->out, "for (%s %s = %s", walk_index_type(w), var.text, begin);
    if (once) hn_strbuf_printf(&w->out, ", e%s = %s", var.text + 1, end);
    hn_strbuf_printf(&w->out, "; %s < %s%s; %s%s) {\n", var.text, once ? "e" : "",
                     once ? var.text + 1 : end, var.text, step);
}

static void put_for(walk *w, const hn_form_stmt *s) {
    uint32_t defined_before = w->defined.count, index_count = w->index_count;
    char number[24];
    snprintf(number, sizeof number, "%u", s->unroll);
    if (s->unroll > 1 && w->l->unroll)
        walk_put_line(w, w->l->unroll, HN_DTYPE_NONE, OPERANDS(TEXT(number)));
    put_for_head(w, s);
    w->loops++;
    walk_put_inner(w, s->body);
    w->loops--;
    end_inner(w);
    w->defined.count = defined_before;
    w->index_count = index_count;
}

/* The blocks of an IF whose condition stands in the text. */
static void put_branches(walk *w, const hn_form_stmt *s) {
    hn_strbuf_puts(&w->out, ") {\n");
    walk_put_inner(w, s->body);
    if (s->otherwise) {
        walk_put_line(w, "} else {", HN_DTYPE_NONE, NULL);
        walk_put_inner(w, s->otherwise);
    }
    end_inner(w);
}

static void put_if(walk *w, const hn_form_stmt *s) {
    walk_begin_line(w);
    walk_put(w, "if ($0 < $1", HN_DTYPE_NONE, OPERANDS(INDEX(s->begin), INDEX(s->end)));
    put_branches(w, s);
}

static void put_if_aligned(walk *w, const hn_form_stmt *s) {
    walk_begin_line(w);
    hn_strbuf_puts(&w->out, "if (");
    walk_put(w, w->l->vectors->is_aligned, HN_DTYPE_NONE,
             OPERANDS(TEXT(walk_memory(s->memory).text)));
    put_branches(w, s);
}

static void put_let(walk *w, const hn_form_stmt *s) {
    const char *text =
        walk_index_text(w, s->begin); /* of a symbol's last meaning, when it is defined again */
    walk_put_line(w, "const $0 $1 = $2;", HN_DTYPE_NONE,
                  OPERANDS(TEXT(walk_index_type(w)),
                           TEXT(walk_define(w, s->var, SYMBOL_NUMBER).text), TEXT(text)));
}

static void put_inner_block(walk *w, const hn_form_stmt *s) {
    walk_put_line(w, "{", HN_DTYPE_NONE, NULL);
    walk_put_inner(w, s->body);
    end_inner(w);
}

static void put_stmt(walk *w, hn_fid at) {
    const hn_form_stmt *s = &w->f->stmts.items[at];
    switch (s->kind) {
    case HN_FORM_FOR: put_for(w, s); return;
    case HN_FORM_IF: put_if(w, s); return;
    case HN_FORM_LET: put_let(w, s); return;
    case HN_FORM_VALUE: walk_put_value(w, at); return;
    case HN_FORM_STORE: walk_put_store(w, s); return;
    case HN_FORM_INIT: walk_put_init(w, s->reg); return;
    case HN_FORM_STEP: walk_put_step(w, s); return;
    case HN_FORM_SET: walk_put_set(w, s); return;
    case HN_FORM_BLOCK: put_inner_block(w, s); return;
    case HN_FORM_BARRIER: walk_put_barrier(w); return;
    case HN_FORM_LANES: walk_put_lanes(w, s); return;
    case HN_FORM_VECTOR: walk_put_vector(w, s); return;
    case HN_FORM_ACROSS: break; /* put_block's */
    case HN_FORM_BEFORE: walk_put_before(w, at); return;
    case HN_FORM_MOVE: walk_put_move(w, s); return;
    case HN_FORM_AWAIT: walk_put_await(w, s); return;
    case HN_FORM_PREFETCH: walk_put_prefetch(w, s); return;
    case HN_FORM_TRANSPOSE: walk_put_transpose(w, s); return;
    case HN_FORM_IF_ALIGNED: put_if_aligned(w, s); return;
    case HN_FORM_KIND_COUNT: break;
    }
    walk_fail(w, HN_ERROR(HN_INTERNAL, "a form has a statement of kind %d", (int)s->kind));
}

static void put_block(walk *w, hn_fid first) {
    for (hn_fid s = first; s && !w->failed; s = w->f->stmts.items[s].next) {
        if (w->f->stmts.items[s].kind == HN_FORM_ACROSS) s = walk_put_across(w, s);
        else put_stmt(w, s);
    }
}

/* ---- memories ---- */

enum { SCRATCH_ALIGN = 64 }; /* a line of memory, and the widest vector */

/* Of one memory in the scratch memory of a group, or of a thread. */
static hn_expr scratch_bytes_of(const hn_form *f, const hn_form_memory *m) {
    hn_expr align = hn_sym_int(f->sym, SCRATCH_ALIGN);
    hn_expr bytes =
        hn_sym_mul(f->sym, m->elems, hn_sym_int(f->sym, hn_dtype_facts(m->dtype)->size_bytes));
    return hn_sym_mul(f->sym, hn_sym_ceildiv(f->sym, bytes, align), align);
}

/* 0: none. */
static hn_expr scratch_bytes(const hn_form *f) {
    hn_expr all = 0;
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        if (f->memories.items[m].space != HN_SPACE_SCRATCH) continue;
        hn_expr bytes = scratch_bytes_of(f, &f->memories.items[m]);
        all = all ? hn_sym_add(f->sym, all, bytes) : bytes;
    }
    return all;
}

static void put_scratch_memories(walk *w, hn_expr group_bytes) {
    if (!group_bytes) return;
    const hn_form *f = w->f;
    hn_expr at = f->group ? hn_sym_mul(f->sym, f->group, group_bytes)
                          : hn_sym_int(f->sym, 0); /* a thread has one to itself */
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *memory = &f->memories.items[m];
        if (memory->space != HN_SPACE_SCRATCH) continue;
        walk_put_line(
            w, w->l->part, HN_DTYPE_NONE,
            OPERANDS(TEXT(w->l->elements[memory->dtype]), TEXT(walk_memory(m).text), INDEX(at)));
        at = hn_sym_add(f->sym, at, scratch_bytes_of(f, memory));
    }
}

static void put_shared_memories(walk *w) {
    for (hn_fmem m = 1; m < w->f->memories.count; m++) {
        const hn_form_memory *memory = &w->f->memories.items[m];
        if (memory->space != HN_SPACE_SHARED) continue;
        if (!hn_sym_is_int(w->f->sym, memory->elems, NULL))
            walk_fail(w, HN_ERROR(HN_UNSUPPORTED,
                                  "shared memory whose extent is not known has no %s", w->l->name));
        walk_put_line(w, w->l->shared, HN_DTYPE_NONE,
                      OPERANDS(TEXT(w->l->elements[memory->dtype]), TEXT(walk_memory(m).text),
                               INDEX(memory->elems)));
    }
}

/* All staged memories are parts of one, in the order of their numbers. */
static uint32_t put_staged_memories(walk *w) {
    int64_t bytes = 0, elems;
    for (hn_fmem m = 1; m < w->f->memories.count; m++) {
        const hn_form_memory *memory = &w->f->memories.items[m];
        if (memory->space != HN_SPACE_STAGED) continue;
        if (!w->l->stages || !hn_sym_is_int(w->f->sym, memory->elems, &elems)) {
            walk_fail(w, HN_ERROR(HN_UNSUPPORTED, "%s has no such staged memory", w->l->name));
            continue;
        }
        if (!bytes) walk_put_line(w, w->l->stages->begin, HN_DTYPE_NONE, NULL);
        walk_put_line(w, w->l->stages->part, HN_DTYPE_NONE,
                      OPERANDS(TEXT(w->l->elements[memory->dtype]), TEXT(walk_memory(m).text),
                               TEXT(walk_number((uint32_t)(bytes / HN_FORM_ACCESS_BYTES)).text)));
        bytes += (elems * hn_dtype_facts(memory->dtype)->size_bytes + HN_FORM_ACCESS_BYTES - 1) /
                 HN_FORM_ACCESS_BYTES * HN_FORM_ACCESS_BYTES;
    }
    return (uint32_t)bytes;
}

static void put_private_memories(walk *w) {
    for (hn_fmem m = 1; m < w->f->memories.count; m++) {
        const hn_form_memory *memory = &w->f->memories.items[m];
        if (memory->space == HN_SPACE_PRIVATE)
            walk_put_line(w, w->l->private_array, HN_DTYPE_NONE,
                          OPERANDS(TEXT(w->l->elements[memory->dtype]), TEXT(walk_memory(m).text),
                                   INDEX(memory->elems)));
    }
}

/* ---- arguments ---- */

/* What is between arguments in the head, or around them where they are fetched. */
static void begin_argument(walk *w) {
    if (w->l->fetches) walk_begin_line(w);
}

static void end_argument(walk *w) { hn_strbuf_puts(&w->out, w->l->fetches ? ";\n" : ", "); }

/* Whether `writer` may lie where an argument for `buffer` does. */
static bool may_lie_over(const hn_form *f, const hn_form_memory *writer, hn_buf buffer) {
    uint32_t number = 0;
    for (hn_fmem m = 1; writer->may_alias && m < f->memories.count && number < 64; m++) {
        if (f->memories.items[m].space != HN_SPACE_ARGUMENT) continue;
        if (writer->may_alias >> number++ & 1 && f->memories.items[m].buffer == buffer) return true;
    }
    return false;
}

bool walk_is_alone(const hn_form *f, hn_fmem memory) {
    const hn_form_memory *own = &f->memories.items[memory];
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *by = &f->memories.items[m];
        if (m == memory || by->space != HN_SPACE_ARGUMENT) continue;
        if (!own->is_written && !by->is_written) continue;
        if (own->buffer == by->buffer || may_lie_over(f, own, by->buffer) ||
            may_lie_over(f, by, own->buffer))
            return false;
    }
    return true;
}

const char *walk_argument_text(const walk *w, hn_fmem m) {
    const hn_language *l = w->l;
    const bool is_written = w->f->memories.items[m].is_written;
    const char *alone = is_written ? l->write_alone : l->read_alone;
    return alone && walk_is_alone(w->f, m) ? alone : is_written ? l->write : l->read;
}

static void put_memory_arguments(walk *w) {
    uint32_t count = 0;
    for (hn_fmem m = 1; m < w->f->memories.count; m++) {
        const hn_form_memory *memory = &w->f->memories.items[m];
        char number[12];
        if (memory->space != HN_SPACE_ARGUMENT) continue;
        snprintf(number, sizeof number, "%u", count++);
        begin_argument(w);
        walk_put(
            w, walk_argument_text(w, m), HN_DTYPE_NONE,
            OPERANDS(TEXT(w->l->elements[memory->dtype]), TEXT(walk_memory(m).text), TEXT(number)));
        end_argument(w);
    }
}

static void put_size(walk *w, uint32_t k) {
    char number[12];
    snprintf(number, sizeof number, "%u", k);
    walk_put(w, w->l->size, HN_DTYPE_NONE, OPERANDS(TEXT(walk_name('n', k).text), TEXT(number)));
}

static void put_fetched_arguments(walk *w) {
    hn_strbuf_puts(&w->out, ") {\n");
    put_memory_arguments(w);
    for (uint32_t k = 0; k < w->f->sizes.count; k++) {
        begin_argument(w);
        put_size(w, k);
        end_argument(w);
    }
}

static void put_head_arguments(walk *w, bool has_scratch) {
    const bool is_last = w->l->scratch_is_last, has_segments = w->f->segments.count != 0;
    if (has_segments) walk_put_segment_memories(w);
    else put_memory_arguments(w);
    if (has_scratch && !is_last) hn_strbuf_printf(&w->out, "%s, ", w->l->scratch);
    hn_strbuf_puts(&w->out, w->l->status);
    if (has_segments) walk_put_segment_numbers(w);
    for (uint32_t k = 0; k < w->f->sizes.count && !has_segments; k++) {
        hn_strbuf_puts(&w->out, ", ");
        put_size(w, k);
    }
    if (has_scratch && is_last) hn_strbuf_printf(&w->out, ", %s", w->l->scratch);
    hn_strbuf_puts(&w->out, ") {\n");
}

/* A memory whose arguments are a pointer and a distance. */
static void put_begin(walk *w, const char *memory) {
    if (w->l->begin) walk_put_line(w, w->l->begin, HN_DTYPE_NONE, OPERANDS(TEXT(memory)));
}

static void put_begins(walk *w, bool has_scratch) {
    for (hn_fmem m = 1; m < w->f->memories.count && !w->f->segments.count; m++)
        if (w->f->memories.items[m].space == HN_SPACE_ARGUMENT) put_begin(w, walk_memory(m).text);
    if (has_scratch) put_begin(w, "scratch");
    put_begin(w, "status");
}

/* ---- the function ---- */

/* A block's memory is there until the others have read it. */
static void put_end(walk *w) {
    const hn_vector_words *v = w->l->vectors;
    if (walk_is_cluster(w)) walk_put_line(w, w->l->clusters->leave, HN_DTYPE_NONE, NULL);
    if (w->streams) walk_put_line(w, v->fence, HN_DTYPE_NONE, NULL);
    if (w->checks_narrow) walk_put_line(w, v->narrow_end, HN_DTYPE_NONE, NULL);
    if (w->l->end) walk_put_line(w, w->l->end, HN_DTYPE_NONE, NULL);
}

static void put_numbers(walk *w) {
    const char *text = walk_is_cluster(w) ? w->l->clusters->numbers : w->l->numbers;
    if (text)
        walk_put_line(w, text, HN_DTYPE_NONE,
                      OPERANDS(TEXT(walk_index_type(w)), TEXT(walk_number(w->f->blocks).text),
                               TEXT(walk_number(w->f->threads / w->f->blocks).text)));
}

static void put_body(walk *w, hn_expr group_bytes) {
    if (w->f->segments.count && !w->l->fetches) walk_put_segment_choice(w);
    else put_numbers(w);
    put_begins(w, group_bytes != 0);
    put_scratch_memories(w, group_bytes);
    put_shared_memories(w);
    w->staged_bytes = put_staged_memories(w);
    if (!w->f->lanes) walk_put_exchanges(w);
    put_private_memories(w);
    walk_put_registers(w);
    put_block(w, w->f->body);
    put_end(w);
}

static const char *head_of(const walk *w) {
    if (w->f->segments.count && w->l->fetches) return w->l->segments->head;
    return walk_is_cluster(w) ? w->l->clusters->head : w->l->head;
}

/* The body first: it tells whether the function checks in 32 bits. */
static hn_status put_function(walk *w, hn_expr group_bytes) {
    char resident[16] = "";
    if (w->f->resident) snprintf(resident, sizeof resident, ", %u", w->f->resident);
    w->depth = 1;
    put_body(w, group_bytes);
    hn_strbuf body = w->out;
    hn_strbuf_init(&w->out);
    walk_put(w, head_of(w), HN_DTYPE_NONE,
             OPERANDS(TEXT(walk_number(w->f->threads / w->f->blocks).text),
                      TEXT(walk_number(w->f->blocks).text), TEXT(resident)));
    if (w->l->fetches) put_fetched_arguments(w);
    else put_head_arguments(w, group_bytes != 0);
    if (w->checks_narrow) walk_put_line(w, w->l->vectors->narrow_begin, HN_DTYPE_NONE, NULL);
    hn_strbuf_append(&w->out, body.ptr ? body.ptr : "", body.len);
    hn_strbuf_puts(&w->out, "}\n");
    if (w->f->segments.count && w->l->fetches) walk_put_segment_calls(w);
    w->out.failed |= body.failed;
    hn_strbuf_deinit(&body);
    if (w->failed) return w->failed;
    HN_TRY(hn_sym_status(w->f->sym));
    return hn_strbuf_status(&w->out);
}

/* Launches tell buffers apart, not arguments: if one argument of a buffer is written, all are. */
static void join_arguments(const hn_buf *buffers, uint32_t count, bool *written,
                           uint64_t *may_alias) {
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = 0; b < count; b++) {
            if (buffers[a] != buffers[b]) continue;
            written[a] |= written[b];
            may_alias[a] |= may_alias[b];
        }
}

static hn_status list_arguments(const hn_form *f, hn_arena *arena, hn_kernel_code *out) {
    hn_buf *buffers;
    hn_expr *offsets;
    bool *written;
    uint64_t *may_alias;
    HN_NEW(arena, buffers, f->memories.count);
    HN_NEW(arena, offsets, f->memories.count);
    HN_NEW(arena, written, f->memories.count);
    HN_NEW(arena, may_alias, f->memories.count);
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *memory = &f->memories.items[m];
        if (memory->space != HN_SPACE_ARGUMENT) continue;
        buffers[out->buffer_count] = memory->buffer;
        offsets[out->buffer_count] = memory->base;
        may_alias[out->buffer_count] = memory->may_alias;
        written[out->buffer_count++] = memory->is_written;
    }
    join_arguments(buffers, out->buffer_count, written, may_alias);
    out->buffers = buffers;
    out->offsets = offsets;
    out->written = written;
    out->over = may_alias;
    return NULL;
}

static hn_status list_sizes(const hn_form *f, hn_arena *arena, hn_kernel_code *out) {
    hn_expr *sizes;
    HN_NEW(arena, sizes, f->sizes.count);
    for (uint32_t k = 0; k < f->sizes.count; k++) sizes[k] = f->sizes.items[k];
    out->sizes = sizes;
    out->size_count = f->sizes.count;
    return NULL;
}

static hn_status finish(walk *w, hn_kernel_code *out) {
    char *text = hn_arena_strndup(w->arena, w->out.ptr, w->out.len);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while printing a kernel");
    hn_kernel_code_name(out, (hn_str){text, w->out.len});
    HN_TRY(list_sizes(w->f, w->arena, out));
    HN_TRY(list_arguments(w->f, w->arena, out));
    return walk_repeat_segments(w->f, w->arena, out);
}

hn_status hn_form_text(const hn_form *f, const hn_language *language, hn_arena *arena,
                       hn_arena *scratch, hn_kernel_code *out) {
    walk w = {.f = f, .l = language, .arena = arena, .scratch = scratch};
    const hn_expr blocks = hn_sym_int(f->sym, f->blocks);
    *out = (hn_kernel_code){.extent = hn_sym_mul(f->sym, hn_form_grid(f), blocks),
                            .grain = f->lanes ? f->grain : 1,
                            .threads = f->lanes ? 0 : f->threads / f->blocks,
                            .scratch_bytes = scratch_bytes(f),
                            .record = hn_form_record_of(f)};
    if (f->lanes && !language->vectors)
        return HN_ERROR(HN_UNSUPPORTED, "%s has no forms of ranges", language->name);
    if (!f->lanes && language->vectors)
        return HN_ERROR(HN_UNSUPPORTED, "%s has no forms of groups", language->name);
    if (f->blocks > 1 && !language->clusters)
        return HN_ERROR(HN_UNSUPPORTED, "%s has no groups of several blocks", language->name);
    HN_NEW(scratch, w.values, f->stmts.count);
    if (language->vectors) HN_TRY(walk_count_vectors(&w));
    hn_strbuf_init(&w.out);
    hn_status status = put_function(&w, out->scratch_bytes);
    out->shared_bytes = w.staged_bytes;
    if (!status) status = finish(&w, out);
    hn_strbuf_deinit(&w.out);
    return status;
}
