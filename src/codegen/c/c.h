/* c.h: kernels as C source. Header-free GNU C with explicit vectors; canonical text: buffers, sizes and
 * variables are named by position, so equal kernels are equal bytes and are compiled once. The calling
 * convention is henry/abi/kernel_abi.h. Source of the choices: reference/performance.md 1.4 to 1.9. */
#ifndef HN_CODEGEN_C_C_H
#define HN_CODEGEN_C_C_H

#include "base/hash.h"
#include "sched/sched.h"

/* The CPU that kernels are written for. The feature set is part of every cache key. */
typedef struct hn_c_target {
    uint32_t vector_bytes; /* 16, 32 or 64 */
    char flags[128];       /* for the compiler: "-mavx2 -mfma ..." */
    char name[32];         /* "x86-64-v3" and the like; "generic" */
} hn_c_target;

/* What this machine's CPUID shows. */
void hn_c_target_host(hn_c_target *out);
/* By a name that hn_cpu_level_named takes. Errors: invalid-argument, listing the names. */
hn_status hn_c_target_named(hn_str name, hn_c_target *out) HN_MUST_USE;

typedef struct hn_c_kernel {
    hn_digest digest; /* of `text` */
    char name[24];    /* the function's name, from the digest */
    hn_str text;      /* the function; "KERNEL" stands for the name */
    uint32_t buffer_count, size_count;
    const hn_buf *buffers;    /* arguments, in order */
    const hn_expr *offsets;   /* per argument: how many elements into the buffer it points; 0: none */
    const bool *written;      /* per buffer */
    const uint64_t *over;     /* per buffer that is written: bit k: it may lie where argument k lies, see in_place.c */
    const hn_expr *sizes;     /* size symbols, in order */
    hn_expr extent;           /* parallel iterations */
    int64_t grain;            /* fewest iterations worth a thread */
    hn_expr scratch_bytes;    /* per thread; 0: none */
} hn_c_kernel;

/* Owns: lists and text in `arena`. Errors: unsupported when an op has no form for a dtype. */
hn_status hn_c_print(const hn_program *program, const hn_kernel *kernel, const hn_c_target *target, hn_arena *arena,
                     hn_arena *scratch, hn_c_kernel *out) HN_MUST_USE;

/* One translation unit: the prelude that these kernels need, then the kernels. */
hn_status hn_c_unit(const hn_c_kernel *const *kernels, uint32_t count, const hn_c_target *target, hn_strbuf *out) HN_MUST_USE;

#endif
