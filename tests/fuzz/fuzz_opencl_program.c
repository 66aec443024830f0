/* fuzz_opencl_program.c: any bytes as an object for OpenCL. What is accepted is written again as
 * the same bytes. */
#include "base/opencl_program.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_opencl_program program;
    hn_strbuf again;
    hn_strbuf_init(&again);
    hn_status status = hn_opencl_program_parse((hn_str){(const char *)data, size}, &program);
    if (!status) {
        hn_opencl_program_write(&program, &again);
        if (again.failed || again.len != size || memcmp(again.ptr, data, size) != 0) abort();
    }
    hn_status_free(status);
    hn_strbuf_deinit(&again);
    return 0;
}
