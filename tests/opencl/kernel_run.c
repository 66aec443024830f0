/* kernel_run.c: see the header. */
#include "opencl/kernel_run.h"

#include <stdlib.h>

enum { MAX_ARGUMENTS = 256, MAX_SIZES = 64 };

hn_status kernel_target(hn_target *out) {
    return hn_target_named(hn_str_of(opencl_host_target()), out);
}

hn_status kernel_build(opencl_host *host, const hn_kernel_code *const *kernels, uint32_t count,
                       opencl_program **out) {
    hn_strbuf text, flags;
    hn_target target;
    HN_TRY(kernel_target(&target));
    hn_strbuf_init(&text);
    hn_strbuf_init(&flags);
    hn_target_put_flags(&target, &flags);
    hn_status status = target.kind->unit(kernels, count, &target, &text);
    if (!status) status = hn_strbuf_status(&flags);
    if (!status) status = opencl_program_build(host, text.ptr, text.len, flags.ptr, out);
    if (text.ptr && getenv("HENRY_TEST_TEXT")) fputs(text.ptr, stderr);
    hn_strbuf_deinit(&flags);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status evaluate(const kernel_env *env, hn_expr e, int64_t *out) {
    if (hn_sym_eval(env->program->sym, e, env->symbols, env->values, env->symbol_count, out))
        return NULL;
    return HN_ERROR(HN_INTERNAL, "an expression of a kernel's call has no value");
}

/* From the argument's first element to the end of its buffer. */
static hn_status memory_of(const hn_kernel_code *kernel, uint32_t k, const kernel_env *env,
                           opencl_memory *out) {
    const kernel_memory *buffer = &env->buffers[kernel->buffers[k]];
    int64_t offset = 0;
    if (kernel->offsets[k]) HN_TRY(evaluate(env, kernel->offsets[k], &offset));
    size_t skip = (size_t)offset *
                  hn_dtype_facts(env->program->buffers.items[kernel->buffers[k]].dtype)->size_bytes;
    if (offset < 0 || skip > buffer->size)
        return HN_ERROR(HN_INTERNAL, "an argument begins outside of its buffer");
    *out = (opencl_memory){(char *)buffer->bytes + skip, buffer->size - skip, kernel->written[k]};
    return NULL;
}

hn_status kernel_run(opencl_program *program, const hn_kernel_code *kernel, const kernel_env *env) {
    opencl_memory memories[MAX_ARGUMENTS];
    int64_t sizes[MAX_SIZES], groups, scratch = 0;
    int failed = 0;
    if (kernel->buffer_count > MAX_ARGUMENTS || kernel->size_count > MAX_SIZES)
        return HN_ERROR(HN_UNSUPPORTED, "too many arguments for the test");
    for (uint32_t k = 0; k < kernel->buffer_count; k++)
        HN_TRY(memory_of(kernel, k, env, &memories[k]));
    for (uint32_t k = 0; k < kernel->size_count; k++)
        HN_TRY(evaluate(env, kernel->sizes[k], &sizes[k]));
    HN_TRY(evaluate(env, kernel->extent, &groups));
    if (kernel->scratch_bytes) HN_TRY(evaluate(env, kernel->scratch_bytes, &scratch));
    HN_TRY(opencl_program_run(program,
                              &(opencl_launch){.kernel = kernel->name,
                                               .memories = memories,
                                               .memory_count = kernel->buffer_count,
                                               .scratch_bytes = (size_t)(scratch * groups),
                                               .shared_bytes = kernel->shared_bytes,
                                               .sizes = sizes,
                                               .size_count = kernel->size_count,
                                               .groups = (size_t)groups,
                                               .threads = kernel->threads},
                              &failed));
    return failed ? HN_ERROR(HN_INVALID_ARGUMENT, "an index is out of bounds") : NULL;
}

hn_status kernel_run_form(opencl_host *host, const hn_form *form, const kernel_env *env) {
    hn_kernel_code code;
    opencl_program *program = NULL;
    hn_target target;
    HN_TRY(kernel_target(&target));
    HN_TRY(hn_target_print_form(&target, form, form->arena, form->arena, &code));
    HN_TRY(kernel_build(host, (const hn_kernel_code *const[]){&code}, 1, &program));
    hn_status status = kernel_run(program, &code, env);
    opencl_program_free(program);
    return status;
}
