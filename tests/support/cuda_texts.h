/* cuda_texts.h: texts in CUDA C++ that the CPU runs (cuda_on_cpu.c) for the stand-in of the driver
 * (cuda_standin.c): a library that it loads when a module is the name of a text. */
#ifndef HN_TESTS_CUDA_TEXTS_H
#define HN_TESTS_CUDA_TEXTS_H

#include "support/opencl_host.h"

/* Of cuda_on_cpu.c. How many arguments a kernel has; 0: there is no such kernel. */
uint32_t cuda_program_arguments(const opencl_program *program, const char *kernel);
/* Of each, in bytes; 0: it is no address. */
const unsigned *cuda_program_alignments(const opencl_program *program, const char *kernel);
/* A launch with the arguments at these addresses; of `launch` the memories and sizes are not
 * read. */
hn_status cuda_program_call(opencl_program *program, const opencl_launch *launch,
                            void **arguments) HN_MUST_USE;

/* What the library has, found by dlsym. They end the program, with a sentence, where something goes
 * wrong. Threads: one at a time. */
typedef void *(*cuda_texts_load_fn)(const char *path);
typedef uint32_t (*cuda_texts_arguments_fn)(void *text, const char *kernel);
typedef const unsigned *(*cuda_texts_alignments_fn)(void *text, const char *kernel);
typedef void (*cuda_texts_call_fn)(void *text, const char *kernel, void **arguments, size_t groups,
                                   size_t threads, size_t shared_bytes);
typedef void (*cuda_texts_free_fn)(void *text);

#endif
