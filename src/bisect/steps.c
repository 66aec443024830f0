/* steps.c: the first step of a real run that does not compute what it should.
 *
 * Before a step its operands are kept; behind it, the reference of its line runs on them
 * (interp/reference.h), and what the step has written is compared. What a step has written must
 * also be there still when a later one reads it; where it is not, somebody has overwritten it, and
 * the step whose memory lies there is to blame. */
#include "bisect/internal.h"

#include "base/hash.h"
#include "bisect/lines.h"
#include "interp/reference.h"

#include <math.h>

/* What a buffer held when a step had written it. */
typedef struct content {
    bool is_known;
    uint64_t hash;
    int64_t bytes;
    uint32_t step;
} content;

/* Memory that a step wrote: of one kind of device, so that addresses tell. */
typedef struct writing {
    uint32_t step;
    const uint8_t *data;
    int64_t bytes;
} writing;

typedef struct looker {
    hn_bisection *b;
    hn_arena arena;    /* of the whole run */
    hn_arena operands; /* of the step that runs */
    hn_run_lines programs[HN_RUN_PROGRAMS_MAX];
    uint32_t program_count;
    const hn_run_lines *lines; /* of the program that runs */
    hn_line_memory *memory;    /* per operand of the step; NULL: the step is not compared */
    struct {
        content *items;
        uint32_t count, cap;
    } contents; /* per buffer */
    struct {
        writing *items;
        uint32_t count, cap;
    } writings;
    hn_finding *found;
} looker;

/* --- operands --- */

static hn_status read_operand(const hn_step_info *step, uint32_t k, hn_arena *arena,
                              const hn_step_operand *o, uint8_t **out) {
    HN_NEW(arena, *out, o->bytes + 1);
    return o->data ? hn_step_operand_read(step, k, *out, (size_t)o->bytes) : NULL;
}

static hn_status content_of(looker *l, uint32_t buffer, content **out) {
    const uint32_t before = l->contents.count;
    if (buffer >= before) {
        HN_TRY(hn_arena_grow(&l->arena, &l->contents.items, &l->contents.cap, before, buffer + 1,
                             sizeof *l->contents.items));
        memset(l->contents.items + before, 0, (buffer + 1 - before) * sizeof *l->contents.items);
        l->contents.count = buffer + 1;
    }
    *out = &l->contents.items[buffer];
    return NULL;
}

/* --- what was overwritten --- */

/* The last step that wrote there since `from`. */
static const writing *find_writer(const looker *l, const hn_step_operand *o, uint32_t from) {
    const uint8_t *data = o->data;
    for (uint32_t k = l->writings.count; k-- > 0;) {
        const writing *w = &l->writings.items[k];
        if (w->step == from) break;
        if (w->data < data + o->bytes && data < w->data + w->bytes) return w;
    }
    return NULL;
}

static hn_status blame(looker *l, hn_finding_kind kind, uint32_t step, hn_str why) {
    hn_module_step_profile profile;
    HN_TRY(hn_module_profile(l->lines->module, step, &profile));
    hn_finding *f = hn_bisection_add(l->b, kind);
    const hn_line *line = step < l->lines->count ? l->lines->items[step] : NULL;
    if (line) hn_bisection_origin(l->b, l->lines->d->graph, line->origin, f);
    f->program = hn_str_of(l->lines->program);
    f->step = hn_bisection_keep(l->b, hn_str_of(profile.name));
    f->number = step;
    f->why = hn_bisection_keep(l->b, why);
    l->found = f;
    return NULL;
}

static hn_status blame_writer(looker *l, const hn_step_info *step, const hn_step_operand *o,
                              const content *c) {
    const writing *w = find_writer(l, o, c->step);
    hn_strbuf why;
    hn_strbuf_init(&why);
    hn_strbuf_printf(&why,
                     "buffer %u, which step %u wrote, has other bytes when step %u '%s' reads it",
                     o->buffer, c->step, step->index, step->name);
    hn_status status = blame(l, HN_FINDING_MEMORY, w ? w->step : step->index, hn_strbuf_str(&why));
    hn_strbuf_deinit(&why);
    return status;
}

static hn_status check_content(looker *l, const hn_step_info *step, const hn_step_operand *o,
                               const uint8_t *bytes) {
    content *c;
    HN_TRY(content_of(l, o->buffer, &c));
    if (l->found || !c->is_known || c->bytes != o->bytes) return NULL;
    return c->hash == hn_hash64(bytes, (size_t)o->bytes, 0) ? NULL : blame_writer(l, step, o, c);
}

static hn_status note_content(looker *l, const hn_step_info *step, const hn_step_operand *o,
                              const uint8_t *bytes) {
    content *c;
    HN_TRY(content_of(l, o->buffer, &c));
    *c = (content){.is_known = true,
                   .hash = hn_hash64(bytes, (size_t)o->bytes, 0),
                   .bytes = o->bytes,
                   .step = step->index};
    HN_PUSH(&l->arena, &l->writings,
            ((writing){.step = step->index, .data = o->data, .bytes = o->bytes}));
    return NULL;
}

/* --- what was computed --- */

/* Appends the difference to `why` when there is one. */
static hn_status compare(const hn_step_operand *o, uint32_t k, const uint8_t *got,
                         const uint8_t *want, hn_arena *arena, hn_strbuf *why) {
    const hn_dtype dtype = (hn_dtype)o->type;
    const int64_t numel = o->bytes / hn_dtype_facts(dtype)->size_bytes;
    hn_ref_tensor a, b;
    double largest = 0;
    HN_TRY(hn_ref_tensor_load(arena, dtype, 1, &numel, NULL, got, &a));
    HN_TRY(hn_ref_tensor_load(arena, dtype, 1, &numel, NULL, want, &b));
    for (int64_t n = 0; n < numel && hn_dtype_is_float(dtype); n++)
        if (isfinite(b.data.f[n])) largest = fmax(largest, fabs(b.data.f[n]));
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (!hn_ref_compare(&a, &b, 0, hn_subject_tolerance(dtype, largest), &text))
        hn_strbuf_printf(why, "operand %u: " HN_STR_FMT, k, HN_STR_ARG(hn_strbuf_str(&text)));
    hn_strbuf_deinit(&text);
    return NULL;
}

/* Whether a result lies where another operand does, and the kernel is not made for that. */
static hn_status check_places(const hn_step_info *step, const hn_line *line, hn_strbuf *why) {
    const hn_wlaunch l = hn_line_launch(line, step->variant, 0);
    for (uint32_t k = 0; k < step->operand_count && k < l.arg_count; k++) {
        const hn_woperand *own = &line->operands[hn_wlaunch_operand(&l, k)];
        hn_step_operand a, b;
        HN_TRY(hn_step_operand_get(step, k, &a));
        for (uint32_t e = 0; a.is_written && a.data && e < l.arg_count; e++) {
            HN_TRY(hn_step_operand_get(step, e, &b));
            const uint8_t *x = a.data, *y = b.data;
            if (a.buffer == b.buffer || !y || hn_woperand_is_over(own, hn_wlaunch_operand(&l, e)))
                continue;
            if (x + a.bytes <= y || y + b.bytes <= x) continue;
            hn_strbuf_printf(why, "its operands %u and %u share memory; ", k, e);
            return NULL;
        }
    }
    return NULL;
}

/* Per operand of the line: a variant takes some of them, in an order of its own. */
static hn_status order_memory(looker *l, const hn_step_info *step, const hn_line *line,
                              hn_line_memory **out) {
    const hn_wlaunch launch = hn_line_launch(line, step->variant, 0);
    HN_NEW(&l->operands, *out, (size_t)line->operand_count + 1);
    for (uint32_t k = 0; k < step->operand_count && k < launch.arg_count; k++)
        (*out)[hn_wlaunch_operand(&launch, k)] = l->memory[k];
    return NULL;
}

static hn_status check_results(looker *l, const hn_step_info *step, const hn_line *line,
                               hn_strbuf *why) {
    const hn_reference_how how = {.sizes = l->lines->sizes, .is_wide = true};
    hn_line_memory *memory;
    HN_TRY(order_memory(l, step, line, &memory));
    hn_status status = hn_line_reference(line, &how, memory);
    if (hn_status_code(status) == HN_INTERNAL || hn_status_code(status) == HN_UNSUPPORTED) {
        hn_status_free(status); /* a size that only the data tells: no reference */
        return NULL;
    }
    HN_TRY(status);
    for (uint32_t k = 0; k < step->operand_count && !why->len; k++) {
        hn_step_operand o;
        uint8_t *bytes;
        HN_TRY(hn_step_operand_get(step, k, &o));
        if (!o.buffer || !o.is_written || !o.data) continue;
        HN_TRY(read_operand(step, k, &l->operands, &o, &bytes));
        HN_TRY(compare(&o, k, bytes, l->memory[k].bytes, &l->operands, why));
    }
    return NULL;
}

/* --- the hook --- */

/* Operands that are one buffer have the same memory. */
static hn_status keep_operand(looker *l, const hn_step_info *step, uint32_t k, uint32_t *buffers) {
    hn_step_operand o;
    HN_TRY(hn_step_operand_get(step, k, &o));
    buffers[k] = o.buffer;
    if (!o.buffer) return NULL;
    for (uint32_t e = 0; e < k; e++)
        if (buffers[e] == o.buffer) {
            l->memory[k] = l->memory[e];
            return NULL;
        }
    HN_TRY(read_operand(step, k, &l->operands, &o, &l->memory[k].bytes));
    l->memory[k].len = o.bytes;
    return o.is_written || !o.data ? NULL : check_content(l, step, &o, l->memory[k].bytes);
}

/* Buffers of another program are others. */
static void begin_program(looker *l, const hn_step_info *step) {
    const hn_run_lines *lines = hn_run_lines_of(l->programs, l->program_count, step);
    if (l->lines == lines) return;
    l->lines = lines;
    l->contents.count = l->writings.count = 0;
}

static hn_status before(void *user, const hn_step_info *step, uint64_t *note) {
    looker *l = user;
    uint32_t *buffers;
    (void)note;
    l->memory = NULL;
    hn_arena_reset(&l->operands);
    if (l->found) return NULL;
    begin_program(l, step);
    HN_NEW(&l->operands, buffers, step->operand_count);
    HN_NEW(&l->operands, l->memory, step->operand_count);
    for (uint32_t k = 0; k < step->operand_count; k++) HN_TRY(keep_operand(l, step, k, buffers));
    return NULL;
}

static hn_status note_writes(looker *l, const hn_step_info *step) {
    for (uint32_t k = 0; k < step->operand_count; k++) {
        hn_step_operand o;
        uint8_t *bytes;
        HN_TRY(hn_step_operand_get(step, k, &o));
        if (!o.buffer || !o.is_written || !o.data) continue;
        HN_TRY(read_operand(step, k, &l->operands, &o, &bytes));
        HN_TRY(note_content(l, step, &o, bytes));
    }
    return NULL;
}

static hn_status blame_step(looker *l, const hn_step_info *step, const hn_line *line, hn_str why) {
    hn_finding_kind kind = line->kind == HN_LINE_KERNEL ? HN_FINDING_KERNEL : HN_FINDING_CALL;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_status status = check_places(step, line, &text);
    if (text.len) kind = HN_FINDING_MEMORY;
    hn_strbuf_append(&text, why.ptr, why.len);
    if (!status) status = blame(l, kind, step->index, hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status after(void *user, const hn_step_info *step, uint64_t *note) {
    looker *l = user;
    hn_strbuf why;
    (void)note;
    if (l->found || step->has_failed || !l->memory) return NULL;
    const hn_line *line = step->index < l->lines->count ? l->lines->items[step->index] : NULL;
    HN_TRY(note_writes(l, step));
    if (!line || hn_line_reference_missing(line)) return NULL;
    hn_bisection_note(l->b, "step %u of %u, '%s'", step->index, l->lines->count, step->name);
    hn_strbuf_init(&why);
    hn_status status = check_results(l, step, line, &why);
    if (!status && why.len) status = blame_step(l, step, line, hn_strbuf_str(&why));
    hn_strbuf_deinit(&why);
    return status;
}

/* --- the run --- */

static hn_status look(looker *l) {
    const hn_step_hook hook = {.before = before, .after = after, .user = l};
    HN_TRY(hn_run_lines_init(l->b->s, l->b->whole, &l->arena, l->programs, &l->program_count));
    l->b->result->runs++;
    return hn_run_lines_run(l->b->s, l->b->whole, l->programs, l->program_count, &hook);
}

hn_status hn_bisect_steps(hn_bisection *b, bool *out_found) {
    looker l = {.b = b};
    hn_arena_init(&l.arena);
    hn_arena_init(&l.operands);
    hn_status status = look(&l);
    *out_found = l.found != NULL;
    hn_arena_deinit(&l.operands);
    hn_arena_deinit(&l.arena);
    return status;
}
