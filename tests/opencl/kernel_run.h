/* kernel_run.h: printed kernels of a program on an OpenCL device. */
#ifndef HN_TESTS_OPENCL_KERNEL_RUN_H
#define HN_TESTS_OPENCL_KERNEL_RUN_H

#include "codegen/codegen.h"
#include "support/opencl_host.h"

/* Memory of a buffer of the program. */
typedef struct kernel_memory {
    void *bytes;
    size_t size;
} kernel_memory;

/* What a kernel runs on. */
typedef struct kernel_env {
    const hn_program *program;
    const kernel_memory *buffers; /* by hn_buf */
    const hn_expr *symbols;       /* sizes and their values */
    const int64_t *values;
    uint32_t symbol_count;
} kernel_env;

/* The row of the table of targets that all this is by: its printer, its units, its flags, its
 * facts. */
hn_status kernel_target(hn_target *out) HN_MUST_USE;

/* One text of these kernels, built. */
hn_status kernel_build(opencl_host *host, const hn_kernel_code *const *kernels, uint32_t count,
                       opencl_program **out) HN_MUST_USE;

/* Errors: invalid-argument when a check of an index fails; internal when memory is too small for
 * the offsets. */
hn_status kernel_run(opencl_program *program, const hn_kernel_code *kernel,
                     const kernel_env *env) HN_MUST_USE;

/* A form as text, built and run. */
hn_status kernel_run_form(opencl_host *host, const hn_form *form,
                          const kernel_env *env) HN_MUST_USE;

#endif
