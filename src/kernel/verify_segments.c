/* verify_segments.c: the rules of segments. */
#include "kernel/check.h"

#define BAD(...) HN_ERROR(HN_INTERNAL, __VA_ARGS__)

static hn_status check_buffers(const hn_form *f, uint32_t s) {
    const hn_program *p = f->program;
    const hn_form_segment *segment = &f->segments.items[s];
    uint32_t number = 0;
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *memory = &f->memories.items[m];
        if (memory->space != HN_SPACE_ARGUMENT) continue;
        const hn_buf b = segment->buffers[number++];
        if (!b || b >= p->buffers.count)
            return BAD("segment %u has no buffer of the program for m%u", s, m);
        if (p->buffers.items[b].dtype != memory->dtype)
            return BAD("segment %u has b%u for m%u, which has another dtype", s, b, m);
        if (memory->is_written && p->buffers.items[b].kind == HN_BUFFER_INPUT)
            return BAD("segment %u writes b%u, an input of the program", s, b);
        if (!s && b != memory->buffer)
            return BAD("the first segment has b%u for m%u, which is of b%u", b, m, memory->buffer);
    }
    return NULL;
}

/* What a segment writes no other one has. `owner`: 1 + the segment, for each buffer. */
static hn_status check_independence(const hn_form *f, uint32_t *owner) {
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t s = 0; s < f->segments.count; s++) {
            uint32_t number = 0;
            for (hn_fmem m = 1; m < f->memories.count; m++) {
                if (f->memories.items[m].space != HN_SPACE_ARGUMENT) continue;
                const hn_buf b = f->segments.items[s].buffers[number++];
                if (pass || f->memories.items[m].is_written) {
                    if (owner[b] && owner[b] != s + 1)
                        return BAD("segment %u has b%u, which segment %u writes", s, b,
                                   owner[b] - 1);
                    if (!pass) owner[b] = s + 1;
                }
            }
        }
    return NULL;
}

static hn_status check_length(const hn_form *f, uint32_t s) {
    enum { MOST = 32 };
    hn_expr symbols[MOST];
    const hn_expr length = f->segments.items[s].length;
    if ((length != 0) != (f->segment_length != 0))
        return BAD("segment %u has %s", s, length ? "a length, of nothing" : "no length");
    const uint32_t count = length ? hn_sym_symbols(f->sym, length, symbols, MOST) : 0;
    for (uint32_t k = 0; k < count && k < MOST; k++)
        if (hn_sym_symbol_kind(f->sym, symbols[k]) > HN_SYMBOL_DATA ||
            symbols[k] == f->segment_length)
            return BAD("the length of segment %u uses other things than sizes", s);
    return count > MOST ? BAD("the length of segment %u uses %u sizes", s, count) : NULL;
}

/* Groups find their scratch memory by their number, which counts from 0 in each segment, and are
 * neighbours where they are several blocks. */
static hn_status check_memories(const hn_form *f) {
    if (f->blocks != 1) return BAD("segments have groups of several blocks");
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        if (!f->lanes && f->memories.items[m].space == HN_SPACE_SCRATCH)
            return BAD("groups of segments have scratch memory");
    }
    return NULL;
}

hn_status hn_form_check_segments(const hn_form *f, hn_arena *scratch) {
    uint32_t *owner;
    if (!f->segments.count)
        return f->segment_length ? BAD("a length, but no segments have it") : NULL;
    if (f->segments.count == 1) return BAD("there is one segment");
    if (f->segment_length && hn_sym_symbol_kind(f->sym, f->segment_length) != HN_SYMBOL_SIZE)
        return BAD("the length of segments is no size");
    HN_TRY(check_memories(f));
    for (uint32_t s = 0; s < f->segments.count; s++) {
        HN_TRY(check_buffers(f, s));
        HN_TRY(check_length(f, s));
    }
    HN_NEW(scratch, owner, f->program->buffers.count);
    return check_independence(f, owner);
}
