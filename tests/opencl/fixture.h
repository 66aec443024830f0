/* fixture.h: programs of a few buffers, and forms over them that run on OpenCL. */
#ifndef HN_TESTS_OPENCL_FIXTURE_H
#define HN_TESTS_OPENCL_FIXTURE_H

#include "opencl/kernel_run.h"
#include "unit/harness.h"

#include <stdlib.h>

enum { FIXTURE_BUFFERS = 16 };

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph;
    hn_program *program;
    kernel_memory memory[FIXTURE_BUFFERS];
} fixture;

static opencl_host *host; /* of the test program */

static inline hn_status fixture_init(fixture *x) {
    *x = (fixture){0};
    hn_arena_init(&x->arena);
    HN_TRY(hn_sym_create(&x->arena, &x->sym));
    HN_TRY(hn_graph_create(&x->arena, x->sym, &x->graph));
    return hn_program_create(x->graph, &x->arena, &x->program);
}

static inline void fixture_deinit(fixture *x) {
    if (x->graph) hn_graph_deinit(x->graph);
    hn_arena_deinit(&x->arena);
}

static inline hn_expr num(fixture *x, int64_t value) { return hn_sym_int(x->sym, value); }

/* A vector over `bytes`, which may be NULL: zeros. */
static inline hn_buf add_vector(fixture *x, hn_buffer_kind kind, hn_dtype dtype, hn_expr elems,
                                int64_t count, void *bytes) {
    hn_buf b = 0;
    hn_expr *sizes = hn_arena_alloc(&x->arena, 2 * sizeof *sizes);
    sizes[0] = elems, sizes[1] = num(x, 1);
    EXPECT_OK(hn_program_add_buffer(x->program,
                                    (hn_buffer){.kind = kind,
                                                .dtype = dtype,
                                                .rank = 1,
                                                .sizes = sizes,
                                                .strides = sizes + 1,
                                                .extent = elems},
                                    &b));
    size_t size = (size_t)count * hn_dtype_facts(dtype)->size_bytes;
    x->memory[b] = (kernel_memory){bytes ? bytes : hn_arena_alloc(&x->arena, size), size};
    return b;
}

static inline hn_buf add_input(fixture *x, hn_dtype dtype, int64_t count, void *bytes) {
    return add_vector(x, HN_BUFFER_INPUT, dtype, num(x, count), count, bytes);
}

static inline hn_buf add_output(fixture *x, hn_dtype dtype, int64_t count) {
    return add_vector(x, HN_BUFFER_OUTPUT, dtype, num(x, count), count, NULL);
}

/* Of values: shorter than writing the statement. */
static inline hn_fid load(hn_form *f, hn_fmem m, hn_expr index) {
    return hn_form_value(f, (hn_sop){.kind = HN_SOP_LOAD,
                                     .dtype = f->memories.items[m].dtype,
                                     .buffer = m,
                                     .index = index});
}

static inline hn_fid elem(hn_form *f, hn_op op, hn_dtype dtype, hn_fid a, hn_fid b, hn_fid c) {
    return hn_form_value(
        f, (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = dtype, .args = {a, b, c}});
}

static inline hn_fid cast(hn_form *f, hn_dtype dtype, hn_fid a) {
    return hn_form_value(f, (hn_sop){.kind = HN_SOP_CAST, .dtype = dtype, .args = {a}});
}

static inline hn_fid index_value(hn_form *f, hn_expr e) {
    return hn_form_value(f, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = e});
}

/* Opens the loop of one element for each thread over [0, count); returns the element's number. */
static inline hn_expr open_elements(hn_form *f, hn_expr count) {
    hn_expr at = hn_form_symbol(f, count),
            first = hn_sym_mul(f->sym, f->group, hn_sym_int(f->sym, f->threads));
    hn_expr threads = hn_sym_int(f->sym, f->threads);
    hn_form_for(f, at, hn_sym_add(f->sym, first, f->thread),
                hn_sym_min(f->sym, count, hn_sym_add(f->sym, first, threads)), f->threads);
    return at;
}

static inline hn_status begin_elements(fixture *x, uint32_t threads, hn_expr count, hn_form **out,
                                       hn_expr *out_at) {
    HN_TRY(hn_form_create(x->program, &x->arena, threads,
                          hn_sym_ceildiv(x->sym, count, hn_sym_int(x->sym, threads)), out));
    *out_at = open_elements(*out, count);
    return NULL;
}

static inline hn_status end_elements(hn_form *f) {
    hn_form_close(f);
    return hn_form_end(f);
}

static inline hn_status run_form(fixture *x, const hn_form *f) {
    return kernel_run_form(host, f, &(kernel_env){.program = x->program, .buffers = x->memory});
}

static inline int opencl_test_main(int argc, char **argv) {
    int code = opencl_host_open_or_skip(&host);
    if (code >= 0) return code;
    printf("device: %s\n", opencl_host_device(host));
    code = hn_test_main(argc, argv);
    opencl_host_close(host);
    return code;
}

#endif
