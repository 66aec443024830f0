/* repro.c: see the header. */
#include "bisect/repro_impl.h"
#include "bisect/repro_texts.h"

#include "toolchain/toolchain.h"
#include "wrapper/names.h"

#include <inttypes.h>
#include <string.h>

REPRO_TEXT(hn_repro_check, "check.h");
REPRO_TEXT(hn_repro_main, "main.c");
REPRO_TEXT(hn_repro_cuda, "cuda.c");
REPRO_TEXT(hn_repro_opencl, "opencl.c");

/* --- what the kernel is given --- */

/* "k_71b22e4774f430de", "3", or "weights:3" for a step of the program of weights. */
static bool is_wanted(const hn_repro *r, const hn_step_info *step) {
    char number[32];
    snprintf(number, sizeof number, "%s%s%" PRIu32, step->program, *step->program ? ":" : "",
             step->index);
    return hn_str_eq(r->options->kernel, hn_str_of(step->name)) ||
           hn_str_eq(r->options->kernel, hn_str_of(number));
}

static hn_status keep_operand(hn_repro *r, const hn_step_info *step, uint32_t k) {
    hn_repro_operand *o = &r->operands[k];
    HN_TRY(hn_step_operand_get(step, k, &o->info));
    o->same_as = 0;
    while (o->same_as < k && r->operands[o->same_as].info.buffer != o->info.buffer) o->same_as++;
    if (o->same_as < k) {
        o->before = r->operands[o->same_as].before;
        o->expected = r->operands[o->same_as].expected;
        return NULL;
    }
    HN_NEW(&r->arena, o->before, o->info.bytes + 1);
    HN_NEW(&r->arena, o->expected.bytes, o->info.bytes + 1);
    o->expected.len = o->info.bytes;
    if (!o->info.data) return NULL;
    HN_TRY(hn_step_operand_read(step, k, o->before, (size_t)o->info.bytes));
    memcpy(o->expected.bytes, o->before, (size_t)o->info.bytes);
    return NULL;
}

static bool is_call(const hn_repro *r) { return r->line->kind == HN_LINE_EXTERN; }

/* All operands of a call, in order, and its parameters. */
static hn_wlaunch call_of(const hn_line *line) {
    return (hn_wlaunch){
        .arg_count = line->operand_count, .param_count = line->param_count, .params = line->params};
}

static hn_status check_step(const hn_repro *r, const hn_step_info *step) {
    const bool is_kernel = step->kind == HN_MODULE_STEP_KERNEL,
               is_extern = step->kind == HN_MODULE_STEP_EXTERN;
    if ((!is_kernel && !is_extern) || step->index >= r->lines->count)
        return HN_ERROR(HN_UNSUPPORTED, "step %u, '%s', is no kernel and no operation", step->index,
                        step->name);
    if (is_extern && step->device.kind != HN_DEVICE_CPU)
        return HN_ERROR(
            HN_UNSUPPORTED,
            "step %u, '%s', is an operation of a library of the device; a folder is made "
            "of operations on the CPU: leave out --device",
            step->index, step->name);
    const char *missing = hn_line_reference_missing(r->lines->items[step->index]);
    return missing ? HN_ERROR(HN_UNSUPPORTED, "step %u, '%s', has no reference to compare with: %s",
                              step->index, step->name, missing)
                   : NULL;
}

static hn_status before(void *user, const hn_step_info *step, uint64_t *note) {
    hn_repro *r = user;
    (void)note;
    if (r->line || !is_wanted(r, step)) return NULL;
    r->lines = hn_run_lines_of(r->programs, r->program_count, step);
    HN_TRY(check_step(r, step));
    r->line = r->lines->items[step->index];
    if (is_call(r)) r->launch = call_of(r->line);
    else r->launch = hn_line_launch(r->line, step->variant, 0);
    if (!is_call(r)) r->kernel = hn_line_kernel(r->line, step->variant);
    r->step = step->index;
    r->count = step->operand_count;
    HN_NEW(&r->arena, r->operands, r->count);
    for (uint32_t k = 0; k < r->count; k++) HN_TRY(keep_operand(r, step, k));
    return NULL;
}

static hn_status run_model(hn_repro *r) {
    const hn_step_hook hook = {.before = before, .user = r};
    HN_TRY(hn_run_lines_run(r->s, r->b, r->programs, r->program_count, &hook));
    return r->line ? NULL
                   : HN_ERROR(HN_NOT_FOUND,
                              "no step of the run calls '" HN_STR_FMT
                              "'; 'henry run --profile' lists the steps",
                              HN_STR_ARG(r->options->kernel));
}

static hn_status run_reference(hn_repro *r) {
    hn_line_memory *memory; /* per operand of the line */
    HN_NEW(&r->arena, memory, (size_t)r->line->operand_count + 1);
    for (uint32_t k = 0; k < r->count && k < r->launch.arg_count; k++)
        if (r->operands[k].info.buffer)
            memory[hn_wlaunch_operand(&r->launch, k)] = r->operands[k].expected;
    return hn_line_reference(
        r->line, &(hn_reference_how){.sizes = r->lines->sizes, .is_wide = true}, memory);
}

/* --- the files --- */

hn_status hn_repro_add_file(hn_repro *r, const char *name, const void *bytes, size_t len) {
    hn_str *part;
    HN_NEW(&r->arena, part, 1);
    char *copy = hn_arena_strndup(&r->arena, name, strlen(name));
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for '%s'", name);
    *part = (hn_str){bytes, len};
    return hn_project_add(&r->project, hn_str_of(copy), part, 1);
}

hn_status hn_repro_add_text(hn_repro *r, const char *name, const hn_strbuf *text) {
    HN_TRY(hn_strbuf_status(text));
    const char *copy = hn_arena_strndup(&r->arena, text->ptr ? text->ptr : "", text->len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for '%s'", name);
    return hn_repro_add_file(r, name, copy, text->len);
}

static hn_status add_operands(hn_repro *r) {
    for (uint32_t k = 0; k < r->count; k++) {
        const hn_repro_operand *o = &r->operands[k];
        char name[32];
        if (!o->info.buffer) continue;
        snprintf(name, sizeof name, "operand_%u.bin", k);
        if (o->same_as == k) HN_TRY(hn_repro_add_file(r, name, o->before, (size_t)o->info.bytes));
        snprintf(name, sizeof name, "expected_%u.bin", k);
        if (o->info.is_written)
            HN_TRY(hn_repro_add_file(r, name, o->expected.bytes, (size_t)o->info.bytes));
    }
    return NULL;
}

static const hn_kernel_code *find_code(const hn_repro *r) {
    const hn_driver_level *level = &r->lines->d->levels[0];
    const hn_str name = r->lines->d->wrapper->kernels.items[r->kernel].name;
    for (uint32_t k = 0; k < level->unique.count; k++)
        if (hn_str_eq(name, hn_str_of(level->unique.items[k]->name))) return level->unique.items[k];
    return NULL;
}

/* "kernel.c" */
static hn_status name_source(hn_repro *r, const hn_target *target) {
    const hn_toolchain_row *row;
    HN_TRY(hn_toolchain_row_find(hn_str_of(target->kind->language), &row));
    snprintf(r->source, sizeof r->source, "kernel%s", row->suffixes[0]);
    return NULL;
}

static hn_status add_source(hn_repro *r, const hn_target *target) {
    const hn_kernel_code *code = find_code(r);
    hn_strbuf text;
    if (!code) return HN_ERROR(HN_INTERNAL, "the kernel of step %u has no text", r->step);
    hn_strbuf_init(&text);
    hn_status status = target->kind->unit(&code, 1, target, &text);
    if (!status) status = hn_repro_add_text(r, r->source, &text);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status eval(const hn_repro *r, hn_expr e, int64_t *out) {
    const hn_ref_sizes *s = &r->lines->sizes;
    *out = 0;
    if (!e || hn_sym_eval(r->lines->d->sym, e, s->symbols, s->values, s->count, out)) return NULL;
    return HN_ERROR(HN_UNSUPPORTED, "a size of the kernel is known only when the program runs");
}

static void print_operand(const hn_repro *r, uint32_t k, hn_strbuf *out) {
    const hn_repro_operand *o = &r->operands[k];
    const hn_dtype_info *facts = hn_dtype_facts((hn_dtype)o->info.type);
    if (!o->info.buffer) {
        hn_strbuf_printf(out, "    {0, 0, \"\", 1, 0, 0, %u}, /* there is none */\n", k);
        return;
    }
    hn_strbuf_printf(out, "    {\"operand_%u.bin\", ", o->same_as);
    if (o->info.is_written) hn_strbuf_printf(out, "\"expected_%u.bin\", ", k);
    else hn_strbuf_puts(out, "0, ");
    hn_strbuf_printf(out, "\"%s\", %u, %" PRId64 ", %" PRId64 ", %u}, /* ", facts->name,
                     facts->size_bytes, o->info.bytes, o->info.offset_bytes, o->same_as);
    hn_strbuf_clean(out, hn_str_of(o->info.name), true);
    hn_strbuf_putc(out, '[');
    for (uint32_t d = 0; d < o->info.rank; d++)
        hn_strbuf_printf(out, "%s%" PRId64, d ? ", " : "", o->info.sizes[d]);
    hn_strbuf_puts(out, "] */\n");
}

/* For the program that compiles the kernel itself. */
static void print_flags(const hn_repro *r, hn_strbuf *out) {
    const hn_target *target = &r->lines->d->levels[0].target;
    hn_strbuf words;
    if (target->kind->device == HN_DEVICE_CPU) return;
    hn_strbuf_init(&words);
    hn_target_put_flags(target, &words);
    hn_strbuf_printf(out, "#define REPRO_TARGET \"%s\"\nstatic const char *const flags[] = {",
                     target->name);
    for (const char *at = hn_strbuf_str(&words).ptr; *at;) {
        const size_t len = strcspn(at, " ");
        if (len) hn_strbuf_printf(out, "\"%.*s\", ", (int)len, at);
        at += len + (at[len] == ' ');
    }
    hn_strbuf_puts(out, "0};\n");
    if (words.failed) out->failed = true;
    hn_strbuf_deinit(&words);
}

static hn_status print_kernel_head(const hn_repro *r, hn_strbuf *out) {
    const hn_wlaunch *l = &r->launch;
    int64_t extent, scratch;
    HN_TRY(eval(r, l->extent, &extent));
    HN_TRY(eval(r, l->scratch_bytes, &scratch));
    hn_strbuf_puts(out, "#define REPRO_KERNEL ");
    const hn_str name = r->lines->d->wrapper->kernels.items[r->kernel].name;
    hn_strbuf_append(out, name.ptr, name.len);
    hn_strbuf_printf(out,
                     "\n#define REPRO_EXTENT %" PRId64 "LL\n#define REPRO_SCRATCH_BYTES %" PRId64
                     "LL\n#define REPRO_THREADS %u\n#define REPRO_SHARED_BYTES %u\n",
                     extent, scratch, l->threads, l->shared_bytes);
    print_flags(r, out);
    return NULL;
}

static hn_status print_head(const hn_repro *r, hn_strbuf *out) {
    const hn_wlaunch *l = &r->launch;
    int64_t size;
    hn_strbuf_puts(out, "/* repro.h: written by 'henry repro'. */\n");
    if (is_call(r)) hn_repro_call_head(r, out);
    else HN_TRY(print_kernel_head(r, out));
    hn_strbuf_puts(out, "static const long long sizes[] = {");
    for (uint32_t k = 0; k < l->param_count; k++) {
        HN_TRY(eval(r, l->params[k], &size));
        hn_strbuf_printf(out, "%" PRId64 ", ", size);
    }
    hn_strbuf_puts(out, "0};\n/* `begin`: bytes from the start of the memory to what the kernel is "
                        "given; `same_as`: the operand whose memory it is */\n"
                        "static const struct operand {\n"
                        "    const char *file, *expected, *type;\n"
                        "    int elem_bytes;\n"
                        "    long long bytes, begin;\n"
                        "    int same_as;\n"
                        "} operands[] = {\n");
    for (uint32_t k = 0; k < r->count; k++) print_operand(r, k, out);
    hn_strbuf_puts(out, "};\n");
    return NULL;
}

static hn_status add_head(hn_repro *r) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_status status = print_head(r, &text);
    if (!status) status = hn_repro_add_text(r, "repro.h", &text);
    hn_strbuf_deinit(&text);
    return status;
}

/* ---- the program beside it ---- */

static void make_for_cpu(const hn_target *target, hn_strbuf *out) {
    hn_strbuf_puts(out, "CC = cc\nCFLAGS = ");
    hn_target_put_flags(target, out);
    hn_strbuf_puts(out, "\n\nrun: repro\n\t./repro\n\n"
                        "repro: main.c kernel.c check.h repro.h\n"
                        "\t$(CC) -std=gnu17 $(CFLAGS) -c -o kernel.o kernel.c\n"
                        "\t$(CC) -std=gnu17 -O2 -o $@ main.c kernel.o -lm\n\n"
                        "clean:\n\trm -f repro kernel.o\n");
}

/* The kernel is compiled when the program runs. */
static void make_for_gpu(const hn_target *target, hn_strbuf *out) {
    (void)target;
    hn_strbuf_puts(out, "CC = cc\nCFLAGS = -O2\n\nrun: repro\n\t./repro\n\n"
                        "repro: main.c check.h repro.h\n"
                        "\t$(CC) -std=gnu17 $(CFLAGS) -o $@ main.c -lm -ldl\n\n"
                        "clean:\n\trm -f repro\n");
}

/* What the folder of a kernel for a kind of device has beside it. */
static const struct program {
    const char *text, *text_end;
    void (*put_makefile)(const hn_target *target, hn_strbuf *out);
    const char *what;
    const char *arguments; /* of the kernel; NULL: a C function, which main.c declares */
} programs[HN_DEVICE_KIND_COUNT] = {
    [HN_DEVICE_CPU] = {hn_repro_main, hn_repro_main_end, make_for_cpu,
                       "\n`make` builds it, runs it on one thread, compares and times it.\n"},
    [HN_DEVICE_CUDA] = {hn_repro_cuda, hn_repro_cuda_end, make_for_gpu,
                        "\n`make` builds a program that compiles the kernel by NVRTC (HENRY_NVRTC "
                        "names its library), runs it on the first GPU, compares and times it. Of "
                        "CUDA it needs nothing when it is built. A file kernel.cubin is taken in "
                        "place of kernel.cu: `nvcc -arch=ARCH -cubin kernel.cu`.\n",
                        "the operands, a pointer to an int that is 0 and becomes the number of a "
                        "check that fails, `sizes` as 64-bit numbers (without the 0 at the end), "
                        "and, unless it is 0, memory of REPRO_EXTENT times REPRO_SCRATCH_BYTES"},
    [HN_DEVICE_OPENCL] =
        {hn_repro_opencl, hn_repro_opencl_end, make_for_gpu,
         "\n`make` builds a program that has the driver of the first OpenCL device "
         "build the kernel, runs it there, compares and times it. Of OpenCL it "
         "needs nothing when it is built; `./repro 1e-4 1` takes the second "
         "device.\n",
         "the operands, unless it is 0 memory of REPRO_EXTENT times "
         "REPRO_SCRATCH_BYTES, memory of an int that is 0 and becomes the number "
         "of a check that fails, each as an object and a `long`, the bytes from "
         "its start to what is meant; then `sizes` as `long` (without the 0 at "
         "the end)"},
};

static void print_readme(const hn_repro *r, const hn_target *target, hn_strbuf *out) {
    const struct program *program = &programs[target->kind->device];
    const hn_origin *origin = &r->lines->d->graph->origins.items[r->line->origin];
    hn_strbuf_printf(
        out,
        "# One kernel of a model\n\nStep %u of the program%s, for '%s', node '" HN_STR_FMT
        "' (" HN_STR_FMT ").\n\n- `%s`: its text\n"
        "- `operand_K.bin`: what it was given; `expected_K.bin`: what its reference "
        "writes there\n- `repro.h`: types, sizes and the launch\n",
        r->step, *r->lines->program ? " of weights" : "", target->name, HN_STR_ARG(origin->node),
        HN_STR_ARG(origin->source), r->source);
    hn_strbuf_puts(out, program->what);
    hn_strbuf_puts(out, "What the program does in place (a result over an operand) has memory "
                        "of its own here.\n");
    if (!program->arguments) return;
    hn_strbuf_puts(out, "\nCompile it with: `");
    hn_target_put_flags(target, out);
    hn_strbuf_printf(out,
                     "`.\nLaunch REPRO_EXTENT groups of REPRO_THREADS threads with "
                     "REPRO_SHARED_BYTES of dynamic shared memory.\nArguments: %s.\n",
                     program->arguments);
}

static void print_call_readme(const hn_repro *r, hn_strbuf *out) {
    const hn_origin *origin = &r->lines->d->graph->origins.items[r->line->origin];
    hn_strbuf_printf(
        out,
        "# One operation of a model\n\nStep %u of the program%s, node '" HN_STR_FMT "' (" HN_STR_FMT
        "), on the CPU: %s.\n\n- `lib`: its sources\n"
        "- `operand_K.bin`: what it was given; `expected_K.bin`: what its reference "
        "writes there\n- `repro.h`: types, sizes and parameters, as lib/henry/abi/extern_abi.h says\n\n"
        "`make` builds it, runs it, compares and times it.\n",
        r->step, *r->lines->program ? " of weights" : "", HN_STR_ARG(origin->node),
        HN_STR_ARG(origin->source), hn_wextern_names[r->line->extern_kind]);
}

static hn_status add_call_readme(hn_repro *r) {
    hn_strbuf readme;
    hn_strbuf_init(&readme);
    print_call_readme(r, &readme);
    hn_status status = hn_repro_add_text(r, "README.md", &readme);
    hn_strbuf_deinit(&readme);
    return status;
}

static hn_status add_printed(hn_repro *r, const hn_target *target) {
    const struct program *program = &programs[target->kind->device];
    hn_strbuf readme, makefile;
    hn_strbuf_init(&readme);
    hn_strbuf_init(&makefile);
    print_readme(r, target, &readme);
    program->put_makefile(target, &makefile);
    hn_status status = hn_repro_add_text(r, "README.md", &readme);
    if (!status)
        status = hn_repro_add_file(r, "main.c", program->text,
                                   (size_t)(program->text_end - program->text));
    if (!status)
        status = hn_repro_add_file(r, "check.h", hn_repro_check,
                                   (size_t)(hn_repro_check_end - hn_repro_check));
    if (!status) status = hn_repro_add_text(r, "Makefile", &makefile);
    hn_strbuf_deinit(&makefile);
    hn_strbuf_deinit(&readme);
    return status;
}

static hn_status write(hn_repro *r) {
    const hn_target *target = &r->lines->d->levels[0].target;
    r->project = (hn_project){.arena = &r->arena};
    if (!is_call(r)) HN_TRY(name_source(r, target));
    if (!is_call(r)) HN_TRY(add_source(r, target));
    HN_TRY(add_head(r));
    HN_TRY(add_operands(r));
    if (is_call(r)) {
        HN_TRY(add_call_readme(r));
        HN_TRY(hn_repro_add_file(r, "check.h", hn_repro_check,
                                 (size_t)(hn_repro_check_end - hn_repro_check)));
        HN_TRY(hn_repro_call_add(r));
    } else {
        HN_TRY(add_printed(r, target));
    }
    return hn_project_write(&r->project, r->options->dir, r->options->report, r->options->context);
}

hn_status hn_repro_write(hn_subject *s, hn_build *whole, const hn_repro_options *options) {
    hn_repro r = {.s = s, .b = whole, .options = options};
    hn_arena_init(&r.arena);
    hn_status status = hn_run_lines_init(s, whole, &r.arena, r.programs, &r.program_count);
    if (!status) status = run_model(&r);
    if (!status) status = run_reference(&r);
    if (!status) status = write(&r);
    hn_arena_deinit(&r.arena);
    return status;
}
