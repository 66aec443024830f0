/* opencl_host.h: OpenCL C on a device of this machine, for tests of generated kernels without the
 * runtime. Of several drivers PoCL, which runs on the CPU, is taken before others. Programs that are
 * linked with cuda_on_cpu.c in place of opencl_host.c run CUDA C++, on the CPU.
 *
 * Threads: a host belongs to one thread at a time. */
#ifndef HN_TESTS_OPENCL_HOST_H
#define HN_TESTS_OPENCL_HOST_H

#include "henry/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct opencl_host opencl_host;
typedef struct opencl_program opencl_program;

/* The row of the table of targets whose kernels it runs. */
const char *opencl_host_target(void);

/* Errors: not-found when there is no loader, no platform or no device. */
hn_status opencl_host_open(opencl_host **out) HN_MUST_USE;
/* For main of a test: without a device, says so in the counts that it prints: one test is skipped,
 * or with CI=true fails. Returns the status to exit with; -1: there is a device, go on. */
int opencl_host_open_or_skip(opencl_host **out);
void opencl_host_close(opencl_host *host); /* after its programs; NULL will do */
const char *opencl_host_device(const opencl_host *host);
size_t opencl_host_local_bytes(const opencl_host *host);   /* of a group */
size_t opencl_host_group_threads(const opencl_host *host); /* the most */

/* Errors: toolchain, with the compiler's messages. */
hn_status opencl_program_build(opencl_host *host, const char *text, size_t len, const char *options,
                               opencl_program **out) HN_MUST_USE;
void opencl_program_free(opencl_program *program); /* NULL will do */

/* Memory of the test. The device works on a copy. */
typedef struct opencl_memory {
    void *bytes;
    size_t size;
    bool is_written; /* comes back */
} opencl_memory;

/* A call under the convention of src/codegen/opencl/README.md: memories, scratch, status, sizes. */
typedef struct opencl_launch {
    const char *kernel;
    const opencl_memory *memories;
    uint32_t memory_count;
    size_t scratch_bytes; /* of all groups; 0: the kernel takes none */
    size_t shared_bytes;  /* dynamic shared memory of a group; CUDA only */
    const int64_t *sizes;
    uint32_t size_count;
    size_t groups, threads; /* no group: nothing runs */
} opencl_launch;

/* Waits for the end. `*out_failed`: what the kernel has set its status to. Errors: device. */
hn_status opencl_program_run(opencl_program *program, const opencl_launch *launch,
                             int *out_failed) HN_MUST_USE;

#endif
