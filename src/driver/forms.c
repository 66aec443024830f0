/* forms.c: see the header. */
#include "driver/forms.h"

#include "base/checked.h"
#include "interp/reference.h"

#include <stdlib.h>
#include <string.h>

/* Points of loops that the interpreter takes a fraction of a second for. */
enum { REFERENCE_POINTS = 1 << 17, REFERENCE_ARGS = 256 };

static hn_status eval(const hn_forms_subject *s, hn_expr e, int64_t *out) {
    *out = 0;
    if (!e ||
        hn_sym_eval(s->program->sym, e, s->sizes.symbols, s->sizes.values, s->sizes.count, out))
        return NULL;
    return HN_ERROR(HN_UNSUPPORTED, "a size of the kernel is known only when the program runs");
}

/* ---- arguments ---- */

static uint32_t arg_of(const hn_forms_subject *s, hn_buf b) {
    uint32_t k = 0;
    while (k < s->face.arg_count && s->buffers[k] != b) k++;
    return k;
}

/* Whether a kernel reads what is in a buffer before it: an access of a loop comes before the first
 * store that sets. */
static bool reads_before(const hn_kernel *kernel, hn_buf b) {
    for (uint32_t k = 0; k < kernel->loop_count; k++) {
        const hn_loop *loop = &kernel->loops[k].loop;
        for (hn_sid s = 1; s < loop->body.count; s++)
            if (loop->body.items[s].kind == HN_SOP_LOAD && loop->body.items[s].buffer == b)
                return true;
        if (loop->store.buffer == b) return loop->store.mode != HN_STORE_SET;
        if (loop->indices.buffer == b) return false;
    }
    return false;
}

static hn_status describe_tensor(hn_forms_subject *s, hn_buf b, hn_arena *arena,
                                 hn_bench_arg *out) {
    const hn_buffer *f = &s->program->buffers.items[b];
    int64_t *sizes, *strides;
    HN_NEW(arena, sizes, f->rank + 1u);
    HN_NEW(arena, strides, f->rank + 1u);
    for (uint32_t d = 0; d < f->rank; d++) {
        HN_TRY(eval(s, f->sizes[d], &sizes[d]));
        HN_TRY(eval(s, f->strides[d], &strides[d]));
        if (sizes[d] < 0) sizes[d] = 0;
    }
    *out = (hn_bench_arg){
        .type = (hn_scalar_type)f->dtype, .rank = f->rank, .sizes = sizes, .strides = strides};
    return NULL;
}

static hn_status describe_workspace(hn_forms_subject *s, const hn_kernel_code *code,
                                    hn_arena *arena, hn_bench_arg *out) {
    int64_t *bytes;
    HN_NEW(arena, bytes, 1);
    HN_TRY(eval(s, code->workspace_bytes, bytes));
    *out = (hn_bench_arg){.type = HN_U8, .rank = 1, .sizes = bytes, .access = HN_BENCH_SCRATCH};
    return NULL;
}

static hn_status add_arg(hn_forms_subject *s, const hn_kernel_code *code, uint32_t k,
                         hn_bench_arg *args, hn_arena *arena) {
    const hn_buf b = code->buffers[k];
    const uint32_t at = arg_of(s, b);
    if (at == s->face.arg_count) {
        HN_TRY(b ? describe_tensor(s, b, arena, &args[at])
                 : describe_workspace(s, code, arena, &args[at]));
        s->buffers[at] = b;
        s->face.arg_count++;
    }
    if (b && code->written[k])
        args[at].access = reads_before(s->kernel, b) ? HN_BENCH_UPDATE : HN_BENCH_WRITE;
    return NULL;
}

/* Of indices that are loaded, perhaps in another type, the range that is checked. */
static hn_status limit_indices(hn_forms_subject *s, const hn_body *body, hn_bench_arg *args) {
    for (hn_sid k = 1; k < body->count; k++) {
        const hn_sop *op = &body->items[k];
        int64_t limit;
        if (op->kind != HN_SOP_INDIRECT) continue;
        HN_TRY(eval(s, hn_sym_symbol_extent(s->program->sym, op->index), &limit));
        const hn_sop *from = &body->items[op->args[0]];
        while (from->kind == HN_SOP_CAST) from = &body->items[from->args[0]];
        if (from->kind != HN_SOP_LOAD || limit < 1) continue;
        const uint32_t at = arg_of(s, from->buffer);
        if (at < s->face.arg_count && (!args[at].index_limit || limit < args[at].index_limit))
            args[at].index_limit = limit;
    }
    return NULL;
}

/* ---- the reference ---- */

static bool count_points(const hn_forms_subject *s, int64_t *out) {
    *out = 0;
    for (uint32_t k = 0; k < s->kernel->loop_count; k++) {
        const hn_loop *loop = &s->kernel->loops[k].loop;
        int64_t points = 1;
        for (uint32_t v = 0; v < loop->rank + loop->red_rank; v++) {
            int64_t extent;
            hn_status status =
                eval(s, hn_sym_symbol_extent(s->program->sym, loop->vars[v]), &extent);
            const bool is_known = !status && hn_mul_i64(points, extent, &points);
            hn_status_free(status);
            if (!is_known) return false;
        }
        if (!hn_add_i64(*out, points, out)) return false;
    }
    return true;
}

static hn_status reference(void *user, void *const *args) {
    const hn_forms_subject *s = user;
    hn_line_memory memory[REFERENCE_ARGS];
    const char *missing = hn_line_reference_missing(&s->line);
    int64_t points;
    if (missing) return HN_ERROR(HN_UNSUPPORTED, "the kernel has no reference: %s", missing);
    if (s->face.arg_count > REFERENCE_ARGS || !count_points(s, &points) ||
        points > REFERENCE_POINTS)
        return HN_ERROR(HN_UNSUPPORTED, "the kernel is too large for its reference");
    for (uint32_t k = 0; k < s->face.arg_count; k++)
        memory[k] = (hn_line_memory){args[k], s->arg_bytes[k]};
    return hn_line_reference(&s->line, &(hn_reference_how){.sizes = s->sizes, .is_wide = true},
                             memory);
}

static hn_status make_reference(hn_forms_subject *s, hn_arena *arena) {
    const uint32_t count = s->face.arg_count;
    hn_woperand *operands;
    hn_wmeaning *meaning;
    HN_NEW(arena, operands, count + 1u);
    HN_NEW(arena, meaning, 1);
    HN_NEW(arena, s->arg_bytes, count + 1u);
    for (uint32_t k = 0; k < count; k++) {
        const hn_bench_arg *a = &s->face.args[k];
        const int64_t size = (int64_t)hn_scalar_type_bytes(a->type);
        int64_t last = 1;
        for (uint32_t d = 0; d < a->rank && last; d++)
            last = a->sizes[d] ? last + (a->sizes[d] - 1) * (a->strides ? a->strides[d] : 1) : 0;
        s->arg_bytes[k] = last * size;
        operands[k].written = a->access != HN_BENCH_READ;
        operands[k].dtype = (hn_dtype)a->type;
    }
    *meaning = (hn_wmeaning){
        .program = s->program, .kernel = s->kernel, .count = 1, .buffers = s->buffers};
    s->line = (hn_line){
        .kind = HN_LINE_KERNEL, .operand_count = count, .operands = operands, .meaning = meaning};
    s->face.reference = reference;
    s->face.reference_user = s;
    return NULL;
}

hn_status hn_forms_subject_init(const hn_program *program, const hn_kernel *kernel,
                                const hn_ref_sizes *sizes, const hn_kernel_code *codes,
                                uint32_t count, hn_arena *arena, hn_forms_subject *out) {
    uint32_t most = 0;
    hn_bench_arg *args;
    *out = (hn_forms_subject){.program = program, .kernel = kernel, .sizes = *sizes};
    for (uint32_t c = 0; c < count; c++) most += codes[c].buffer_count;
    HN_NEW(arena, args, most + 1u);
    HN_NEW(arena, out->buffers, most + 1u);
    out->face.args = args;
    for (uint32_t c = 0; c < count; c++)
        for (uint32_t k = 0; k < codes[c].buffer_count; k++)
            HN_TRY(add_arg(out, &codes[c], k, args, arena));
    for (uint32_t k = 0; k < kernel->phases.count; k++)
        HN_TRY(limit_indices(out, &kernel->phases.items[k].body, args));
    return make_reference(out, arena);
}

hn_status hn_forms_subject_share(hn_forms_subject *s, hn_forms_over over) {
    const uint32_t result = arg_of(s, over.result), below = arg_of(s, over.over);
    hn_bench_arg *args = (hn_bench_arg *)s->face.args; /* our own */
    if (result >= s->face.arg_count || below >= s->face.arg_count || result == below)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a kernel has no such result in place");
    /* who shares names one in front of it */
    if (below < result) args[result].same_as = below + 1;
    else args[below].same_as = result + 1;
    return NULL;
}

/* ---- launches ---- */

static hn_status place_args(const hn_forms_subject *s, const hn_kernel_code *code,
                            hn_bench_place *places) {
    for (uint32_t k = 0; k < code->buffer_count; k++) {
        int64_t offset;
        places[k].arg = arg_of(s, code->buffers[k]);
        if (places[k].arg == s->face.arg_count)
            return HN_ERROR(HN_INTERNAL, "a form has an argument that the others do not know");
        HN_TRY(eval(s, code->offsets[k], &offset));
        places[k].offset_bytes =
            offset * (int64_t)hn_scalar_type_bytes(s->face.args[places[k].arg].type);
    }
    return NULL;
}

hn_status hn_forms_launch(const hn_forms_subject *s, const hn_kernel_code *code, hn_arena *arena,
                          hn_bench_launch *out) {
    hn_bench_place *places;
    long long *params;
    int64_t extent, value;
    HN_NEW(arena, places, code->buffer_count + 1u);
    HN_NEW(arena, params, code->size_count + 1u);
    HN_TRY(place_args(s, code, places));
    for (uint32_t k = 0; k < code->size_count; k++) {
        HN_TRY(eval(s, code->sizes[k], &value));
        params[k] = value;
    }
    HN_TRY(eval(s, code->extent, &extent));
    HN_TRY(eval(s, code->scratch_bytes, &value));
    if (extent < 0) extent = 0;
    *out = (hn_bench_launch){.symbol = code->name,
                             .places = places,
                             .place_count = code->buffer_count,
                             .params = params,
                             .param_count = code->size_count,
                             .extent = extent,
                             .grain = code->grain,
                             .shared_bytes = code->shared_bytes,
                             .scratch_bytes = value};
    if (!code->threads) return NULL;
    out->groups[0] = extent, out->groups[1] = out->groups[2] = 1;
    out->threads[0] = code->threads, out->threads[1] = out->threads[2] = 1;
    return NULL;
}

/* ---- the race ---- */

/* A form on its way through the compiler. */
typedef struct hn_forms_entry {
    const hn_forms_options *options;
    uint32_t number; /* of the options' forms */
    const hn_target *target;
    hn_future *future;
    hn_artifact *artifact;
    hn_bench_launch launch;
} entry;

static hn_status wait_for_code(void *user) {
    entry *e = user;
    hn_image image;
    HN_TRY(hn_future_wait(e->future, -1, &e->artifact));
    e->launch.code = hn_artifact_bytes(e->artifact, &e->launch.code_len);
    if (!e->target->architecture) return NULL;
    HN_TRY(hn_artifact_image_find(e->artifact, e->target->architecture, &image));
    e->launch.code = image.bytes;
    e->launch.code_len = image.len;
    return NULL;
}

static hn_status enter(hn_driver *d, const hn_target *target, const hn_forms_subject *s,
                       const hn_kernel_code *code, entry *e) {
    e->target = target;
    HN_TRY(hn_forms_launch(s, code, &d->arena, &e->launch));
    return hn_driver_submit_unit(d, target, &code, 1, &e->future);
}

static hn_status name_form(hn_driver *d, uint32_t k, const hn_form *form, const char **out) {
    *out = hn_arena_printf(&d->arena, "%u %s", k, form->shape ? form->shape : "form");
    return *out ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the name of a form");
}

static hn_status print_forms(hn_driver *d, const hn_target *target, const hn_forms_options *o,
                             hn_kernel_code *codes) {
    for (uint32_t k = 0; k < o->count; k++)
        HN_TRY(hn_target_print_form(target, o->forms[k], &d->arena, &d->scratch, &codes[k]));
    return NULL;
}

struct hn_forms_race {
    const hn_forms_options *options;
    hn_forms_subject subject;
    hn_bench_kernel *kernels;
    entry *entries;
};

/* As the kernel says of each argument of its segment. */
static bool may_be_over(const hn_kernel_code *code, uint32_t result, hn_buf below) {
    const uint32_t each = code->segment_arguments, first = each ? result / each * each : 0,
                   end = each ? first + each : code->buffer_count;
    bool found = false;
    for (uint32_t k = first; k < end; k++) {
        if (code->buffers[k] != below) continue;
        if (k - first >= 64 || !(code->over[result] >> (k - first) & 1)) return false;
        found = true;
    }
    return found;
}

/* A program has a result in place only if all of its forms allow it. */
static bool is_allowed(const hn_kernel_code *codes, uint32_t count, hn_forms_over over) {
    for (uint32_t c = 0; c < count; c++)
        for (uint32_t k = 0; k < codes[c].buffer_count; k++)
            if (codes[c].buffers[k] == over.result && codes[c].written[k] &&
                !may_be_over(&codes[c], k, over.over))
                return false;
    return true;
}

static hn_status begin(hn_driver *d, const hn_target *target, const hn_kernel *kernel,
                       hn_forms_race *race) {
    const hn_forms_options *o = race->options;
    hn_forms_subject *s = &race->subject;
    hn_kernel_code *codes;
    HN_NEW(&d->arena, codes, o->count);
    HN_NEW(&d->arena, race->entries, o->count);
    HN_NEW(&d->arena, race->kernels, o->count);
    HN_TRY(print_forms(d, target, o, codes));
    HN_TRY(hn_forms_subject_init(d->program, kernel, &o->sizes, codes, o->count, &d->arena, s));
    for (uint32_t k = 0; k < o->over_count; k++)
        if (is_allowed(codes, o->count, o->overs[k]))
            HN_TRY(hn_forms_subject_share(s, o->overs[k]));
    s->face.device = o->device;
    s->face.threads = o->threads;
    s->face.is_cold = o->is_cold;
    for (uint32_t k = 0; k < o->count; k++) {
        race->kernels[k] = (hn_bench_kernel){.launches = &race->entries[k].launch,
                                             .launch_count = 1,
                                             .build = wait_for_code,
                                             .user = &race->entries[k]};
        HN_TRY(name_form(d, k, o->forms[k], &race->kernels[k].name));
        race->entries[k].options = o;
        race->entries[k].number = k;
        if (o->count > 1 && !o->call_ns) HN_TRY(enter(d, target, s, &codes[k], &race->entries[k]));
    }
    return NULL;
}

hn_status hn_forms_race_begin(hn_driver *d, const hn_target *target, const hn_kernel *kernel,
                              const hn_forms_options *options, hn_forms_race **out) {
    if (!options->count) return HN_ERROR(HN_INVALID_ARGUMENT, "a race of forms needs one at least");
    HN_NEW(&d->arena, *out, 1);
    (*out)->options = options;
    return begin(d, target, kernel, *out);
}

void hn_forms_race_wait(hn_forms_race *race) {
    for (uint32_t k = 0; k < race->options->count; k++)
        if (race->entries[k].future)
            hn_status_free(hn_future_wait(race->entries[k].future, -1, NULL));
}

static hn_status ask(void *user, uint32_t calls, double *out_ns) {
    const entry *e = user;
    HN_TRY(e->options->call_ns(e->options->call_user, e->number, out_ns));
    *out_ns *= calls;
    return NULL;
}

/* Of times that somebody says. */
static hn_status run_asking(hn_forms_race *race, const hn_bench_options *bench,
                            hn_bench_report **out) {
    const uint32_t count = race->options->count;
    hn_bench_candidate *candidates = calloc(count, sizeof *candidates);
    if (!candidates) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a race of forms");
    for (uint32_t k = 0; k < count; k++)
        candidates[k] = (hn_bench_candidate){
            .name = race->kernels[k].name, .user = &race->entries[k], .run_timed = ask};
    hn_status status = hn_bench(bench, candidates, count, out);
    free(candidates);
    return status;
}

hn_status hn_forms_race_run(hn_forms_race *race, const hn_bench_options *bench,
                            hn_bench_report **out) {
    if (race->options->call_ns) return run_asking(race, bench, out);
    return hn_bench_kernels(bench, &race->subject.face, race->kernels, race->options->count, out);
}

void hn_forms_race_end(hn_forms_race *race) {
    for (uint32_t k = 0; race && race->entries && k < race->options->count; k++)
        hn_artifact_release(race->entries[k].artifact);
}

hn_status hn_forms_alone_begin(hn_driver *d, const hn_target *target, const hn_program *program,
                               const hn_kernel *kernel, const hn_kernel_code *code,
                               const hn_forms_options *options, hn_forms_alone *out) {
    hn_forms_subject *s = &out->subject;
    *out = (hn_forms_alone){.entry = NULL};
    HN_TRY(hn_forms_subject_init(program, kernel, &options->sizes, code, 1, &d->arena, s));
    s->face.device = options->device;
    s->face.threads = options->threads;
    HN_NEW(&d->arena, out->entry, 1);
    HN_TRY(enter(d, target, s, code, out->entry));
    out->kernel = (hn_bench_kernel){.name = code->name,
                                    .launches = &out->entry->launch,
                                    .launch_count = 1,
                                    .build = wait_for_code,
                                    .user = out->entry};
    return NULL;
}

void hn_forms_alone_end(hn_forms_alone *alone) {
    if (alone->entry) hn_artifact_release(alone->entry->artifact);
}

hn_status hn_forms_bench(hn_driver *d, const hn_target *target, const hn_kernel *kernel,
                         const hn_forms_options *o, hn_bench_report **out) {
    hn_forms_race *race = NULL;
    hn_status status = hn_forms_race_begin(d, target, kernel, o, &race);
    if (!status) status = hn_forms_race_run(race, o->bench, out);
    hn_forms_race_end(race);
    return status;
}
