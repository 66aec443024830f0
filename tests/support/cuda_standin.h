/* cuda_standin.h: a libcuda.so.1 for tests on machines without a GPU. Memory of its devices is the
 * host's, at addresses that fault when they are touched, and an address does not come again. Work
 * of a stream is done when somebody waits for it, not before, so that a wait that is missing shows.
 * It ends the program, with a sentence, for what a real driver would not forgive: an address that
 * is no memory or not any more, a handle that was destroyed, a copy that overlaps, an argument that
 * is not aligned as its kernel reads it.
 *
 * A module is a text of lines, or a cubin:
 *
 *     standin
 *     NAME ARGUMENTS STATIC_SHARED THREADS_MAX [ALIGNMENT,...]
 *
 * with -1 arguments if their number is not to be told. An argument with an alignment is an address
 * that a launch must give as a multiple of so many bytes; of a text they follow from the types.
 * Kernels of a few names compute (run_launch in cuda_standin.c); others do nothing. Or it is one line, "standin text FILE.cu": then
 * the kernels are those of this file, which the CPU runs (cuda_texts.h); HENRY_CUDA_TEXTS names the
 * library for that.
 *
 * HENRY_CUDA_STANDIN sets numbers for whole programs: "devices=2,arch=80,driver=12040,fail=7,code=2".
 * With "tell=1" a program says at its end how often it has waited, and what was copied to the host.
 *
 * Threads: as of the driver, any. */
#ifndef HN_TESTS_CUDA_STANDIN_H
#define HN_TESTS_CUDA_STANDIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CUDA_STANDIN_LOG = 64 };

typedef struct cuda_standin {
    /* what there is */
    atomic_int devices, arch, driver;
    atomic_bool has_pools;
    atomic_size_t memory_max; /* bytes of each device; 0: no limit */
    /* The `fail_at`th call from now on, counted from 1, fails with `code`; 0: none. With `is_lost`
     * those behind it fail, too. Calls that release something work even then. */
    atomic_long calls, fail_at;
    atomic_int code;
    atomic_bool is_lost;
    _Atomic(const char *) fails;  /* the next call of this function fails with `code`; NULL: none */
    _Atomic(const char *) failed; /* the first call that failed so */
    /* the names of the calls since `logged` was set to 0; more than CUDA_STANDIN_LOG are counted
     * only */
    atomic_long logged;
    _Atomic(const char *) log[CUDA_STANDIN_LOG];
    /* what is there now */
    atomic_long memories, pinned, streams, events, modules, pools, contexts, graphs;
    atomic_long execs;    /* of the graphs: those that can be launched */
    atomic_size_t memory; /* bytes */
    /* what has happened */
    atomic_long launches, waits, copies, pageable; /* pageable: copies that made the host wait */
    atomic_long fetches;                           /* of the copies: those to the host ... */
    atomic_size_t fetched_bytes;                   /* ... and what they have brought */
    /* of graphs; patches: of one node */
    atomic_long graph_launches, captures, instantiations, updates, patches;
} cuda_standin;

/* Gives a stream work of another library that stands in (cublaslt_standin.c): `run` is called when
 * the stream comes to it, with a copy of `user`, and finds with `bytes_at` what is behind an
 * address. */
typedef unsigned char *(*cuda_standin_bytes_fn)(uint64_t address, size_t size);
typedef void (*cuda_standin_run_fn)(const void *user, cuda_standin_bytes_fn bytes_at);
typedef int (*cuda_standin_give_fn)(void *stream, cuda_standin_run_fn run, const void *user,
                                    size_t bytes);

/* Of the library, found by dlsym: cuda_standin_get, and cuda_standin_give. */
typedef cuda_standin *(*cuda_standin_get_fn)(void);

/* The stand-in that this program has loaded in place of the driver; NULL: it is another driver. */
cuda_standin *cuda_standin_find(void);
void cuda_standin_reset(cuda_standin *s); /* nothing fails, and counting begins anew */

#endif
