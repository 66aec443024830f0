/* walk_segments.c: forms of several segments (hn_form.segments) as one function.
 *
 * Where arguments are fetched from arrays, a function does one segment, and another one calls it for
 * those that a range reaches. Elsewhere all arguments of all segments are in the head, and the
 * function begins by taking those of the segment that has its group: numbers of groups count on
 * from segment to segment. */
#include "codegen/walk_internal.h"

static uint32_t count_of(const walk *w) { return w->f->segments.count; }

/* Numbers that a segment has: where it ends, and the sizes. */
static uint32_t numbers_of(const walk *w) { return 1 + w->f->sizes.count; }

/* "m0_3": of segment 3 */
static name in_segment(name n, uint32_t segment) {
    name out;
    snprintf(out.text, sizeof out.text, "%.12s_%u", n.text, segment);
    return out;
}

static name end_of(uint32_t segment) { return in_segment((name){"end"}, segment); }

/* ---- arguments that are fetched ---- */

void walk_put_segment_calls(walk *w) {
    walk_put(w, w->l->segments->calls, HN_DTYPE_NONE,
             OPERANDS(TEXT(walk_number(count_of(w)).text),
                      TEXT(walk_number(hn_form_argument_count(w->f)).text),
                      TEXT(walk_number(numbers_of(w)).text)));
}

/* ---- arguments in the head ---- */

void walk_put_segment_memories(walk *w) {
    for (uint32_t s = 0; s < count_of(w); s++)
        for (hn_fmem m = 1; m < w->f->memories.count; m++) {
            const hn_form_memory *memory = &w->f->memories.items[m];
            if (memory->space != HN_SPACE_ARGUMENT) continue;
            walk_put(w, walk_argument_text(w, m), HN_DTYPE_NONE,
                     OPERANDS(TEXT(w->l->elements[memory->dtype]),
                              TEXT(in_segment(walk_memory(m), s).text)));
            hn_strbuf_puts(&w->out, ", ");
        }
}

static void put_number(walk *w, name n) {
    hn_strbuf_puts(&w->out, ", ");
    walk_put(w, w->l->size, HN_DTYPE_NONE, OPERANDS(TEXT(n.text)));
}

void walk_put_segment_numbers(walk *w) {
    for (uint32_t s = 0; s < count_of(w); s++) {
        put_number(w, end_of(s));
        for (uint32_t k = 0; k < w->f->sizes.count; k++)
            put_number(w, in_segment(walk_name('n', k), s));
    }
}

static const char *pointer_text(const walk *w, hn_fmem m) {
    const hn_segment_words *words = w->l->segments;
    const bool is_written = w->f->memories.items[m].is_written;
    const char *alone = is_written ? words->write_alone : words->read_alone;
    if (alone && walk_is_alone(w->f, m)) return alone;
    return is_written ? words->write : words->read;
}

static void put_own(walk *w) {
    walk_put_line(w, w->l->segments->numbers, HN_DTYPE_NONE, OPERANDS(TEXT(walk_index_type(w))));
    for (hn_fmem m = 1; m < w->f->memories.count; m++) {
        const hn_form_memory *memory = &w->f->memories.items[m];
        if (memory->space == HN_SPACE_ARGUMENT)
            walk_put_line(w, pointer_text(w, m), HN_DTYPE_NONE,
                          OPERANDS(TEXT(w->l->elements[memory->dtype]), TEXT(walk_memory(m).text)));
    }
    for (uint32_t k = 0; k < w->f->sizes.count; k++)
        walk_put_line(w, "$0 $1;", HN_DTYPE_NONE,
                      OPERANDS(TEXT(w->l->index_type), TEXT(walk_name('n', k).text)));
}

static void take(walk *w, uint32_t segment) {
    for (hn_fmem m = 1; m < w->f->memories.count; m++)
        if (w->f->memories.items[m].space == HN_SPACE_ARGUMENT)
            walk_put_line(w, w->l->segments->take, HN_DTYPE_NONE,
                          OPERANDS(TEXT(walk_memory(m).text),
                                   TEXT(in_segment(walk_memory(m), segment).text)));
    for (uint32_t k = 0; k < w->f->sizes.count; k++)
        walk_put_line(w, "$0 = $1;", HN_DTYPE_NONE,
                      OPERANDS(TEXT(walk_name('n', k).text),
                               TEXT(in_segment(walk_name('n', k), segment).text)));
    if (segment)
        walk_put_line(w, "group -= $0;", HN_DTYPE_NONE, OPERANDS(TEXT(end_of(segment - 1).text)));
}

/* Segments [first, end), by halves. */
static void choose(walk *w, uint32_t first, uint32_t end) {
    if (end - first == 1) {
        take(w, first);
        return;
    }
    const uint32_t middle = first + (end - first) / 2;
    walk_put_line(w, "if (group < $0) {", HN_DTYPE_NONE, OPERANDS(TEXT(end_of(middle - 1).text)));
    w->depth++;
    choose(w, first, middle);
    w->depth--;
    walk_put_line(w, "} else {", HN_DTYPE_NONE, NULL);
    w->depth++;
    choose(w, middle, end);
    w->depth--;
    walk_put_line(w, "}", HN_DTYPE_NONE, NULL);
}

void walk_put_segment_choice(walk *w) {
    put_own(w);
    choose(w, 0, count_of(w));
}

/* ---- what a launch gives ---- */

/* Argument k of the first segment is `first` there. */
static hn_status repeat_arguments(const hn_form *f, hn_arena *arena, hn_kernel_code *out) {
    const hn_kernel_code first = *out;
    const uint32_t count = first.buffer_count, all = count * f->segments.count;
    hn_buf *buffers;
    hn_expr *offsets;
    bool *written;
    uint64_t *over;
    HN_NEW(arena, buffers, all);
    HN_NEW(arena, offsets, all);
    HN_NEW(arena, written, all);
    HN_NEW(arena, over, all);
    for (uint32_t s = 0; s < f->segments.count; s++)
        for (uint32_t k = 0; k < count; k++) {
            buffers[s * count + k] = f->segments.items[s].buffers[k];
            offsets[s * count + k] = hn_form_in_segment(f, s, first.offsets[k]);
            written[s * count + k] = first.written[k];
            over[s * count + k] = first.over[k];
        }
    out->buffers = buffers, out->offsets = offsets, out->written = written, out->over = over;
    out->buffer_count = all;
    out->segment_arguments = count;
    return NULL;
}

hn_status walk_repeat_segments(const hn_form *f, hn_arena *arena, hn_kernel_code *out) {
    const uint32_t sizes = f->sizes.count;
    hn_expr *numbers, end = hn_sym_int(f->sym, 0);
    if (!f->segments.count) return NULL;
    HN_NEW(arena, numbers, (sizes + 1) * f->segments.count);
    out->sizes = numbers;
    out->size_count = (sizes + 1) * f->segments.count;
    for (uint32_t s = 0; s < f->segments.count; s++) {
        end = hn_sym_add(f->sym, end, hn_form_in_segment(f, s, f->grid));
        *numbers++ = end;
        for (uint32_t k = 0; k < sizes; k++)
            *numbers++ = hn_form_in_segment(f, s, f->sizes.items[k]);
    }
    return repeat_arguments(f, arena, out);
}
