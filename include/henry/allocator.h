/* henry/allocator.h: memory of the caller's for modules (henry/module.h). */
#ifndef HENRY_ALLOCATOR_H
#define HENRY_ALLOCATOR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates a module's large memory: outputs, intermediates, scratch, states, inputs copied into
 * another layout, and replaced weights. Descriptions, tables and packed weights come from malloc.
 * Both functions are called by the threads that call the module or release its outputs, by several
 * at the same time. In a program for CUDA, the module's context may be the current one of the thread
 * then; a function that uses another one pushes and pops it. */
typedef struct hn_allocator {
    void *context;
    /* Units: bytes. `alignment` is a power of two, at least 64. `bytes` is at least 1. If it
     * returns NULL, the call of the module fails with out-of-memory. */
    void *(*alloc)(void *context, size_t bytes, size_t alignment);
    void (*free)(void *context, void *memory);
} hn_allocator;

/* Allocates all memory that a module takes on a CUDA device: weights, intermediates, scratch, states,
 * copies of inputs and outputs, outputs that stay there. Code and CUDA graphs are the driver's, and
 * pinned memory of the host comes from the driver, too.
 * `stream`: a CUstream of the module's device. What `alloc` gives may be used when the work is done
 * that the stream has by then; Henry waits for that before it uses it in any stream. What `free` gets
 * may be used again when the work is done that the stream has by then. The stream is Henry's own: it
 * lives as long as the module and its outputs, and nothing but this order is in it.
 * Context: while either function runs, the module's context is the current one of the thread. They
 * leave it as it was.
 * Threads: both functions are called by the threads that call the module or release its outputs, by
 * several at the same time. They must not call the module, nor release its outputs. */
typedef struct hn_device_allocator {
    void *context;
    /* Units: bytes, at least 1. The address is a multiple of 256. If it returns NULL, or another
     * address, the call of the module fails with out-of-memory. */
    void *(*alloc)(void *context, size_t bytes, void *stream);
    /* `bytes`: what `alloc` was asked for. */
    void (*free)(void *context, void *memory, size_t bytes, void *stream);
} hn_device_allocator;

#ifdef __cplusplus
}
#endif
#endif
