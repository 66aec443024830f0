/* opencl_program.h: what an object for OpenCL holds: the source, the options that it is built with,
 * and binaries that drivers made of it. A driver takes its own binary if there is one; any other
 * driver builds the source.
 *
 * Layout: the header below in the machine's byte order (little-endian), the options and the source,
 * each closed by a NUL that is not counted, then for each binary its header, the driver's identity
 * (opencl.h) without a NUL, and the bytes. Nothing is aligned. */
#ifndef HN_BASE_OPENCL_PROGRAM_H
#define HN_BASE_OPENCL_PROGRAM_H

#include "base/str.h"

#define HN_OPENCL_PROGRAM_MAGIC "HNCL"

typedef struct hn_opencl_program_header {
    char magic[4];
    uint32_t version; /* 1 */
    uint32_t options_len, source_len, binary_count;
} hn_opencl_program_header;

typedef struct hn_opencl_binary_header {
    uint32_t identity_len, binary_len;
} hn_opencl_binary_header;

enum { HN_OPENCL_BINARIES_MAX = 32 };

typedef struct hn_opencl_binary {
    hn_str identity, bytes;
} hn_opencl_binary;

typedef struct hn_opencl_program {
    hn_str options, source; /* a NUL follows each in what was parsed */
    uint32_t binary_count;
    hn_opencl_binary binaries[HN_OPENCL_BINARIES_MAX];
} hn_opencl_program;

/* Appends the program. Errors latch in `out`. */
void hn_opencl_program_write(const hn_opencl_program *program, hn_strbuf *out);
/* Parts of the result are borrowed from `bytes`, which may come from anywhere. Errors: corrupt;
 * incompatible for another version. */
hn_status hn_opencl_program_parse(hn_str bytes, hn_opencl_program *out) HN_MUST_USE;
/* The binary of a driver; NULL: none. */
const hn_opencl_binary *hn_opencl_program_binary(const hn_opencl_program *program, hn_str identity);

#endif
