/* texts.h: texts of kernels of operations, which are files of this folder, and the words that they
 * are written in. */
#ifndef HN_CODEGEN_CUDA_TEXTS_H
#define HN_CODEGEN_CUDA_TEXTS_H

#include "codegen/codegen.h"

/* The bytes of a file between `name` and `name`_end. CMake says where the folder is. */
#define HN_CUDA_TEXT(name, file) HN_CUDA_TEXT_OF(name, HN_CUDA_BYTES(file))
/* Of two files, one behind the other. */
#define HN_CUDA_TEXT_OF_TWO(name, file, end)                                                       \
    HN_CUDA_TEXT_OF(name, HN_CUDA_BYTES(file) HN_CUDA_BYTES(end))

#define HN_CUDA_BYTES(file) ".incbin \"" HN_CUDA_TEXTS file "\"\n"
#define HN_CUDA_TEXT_OF(name, bytes)                                                               \
    __asm__(".pushsection .rodata\n.hidden " #name "\n.globl " #name "\n" #name ":\n" bytes        \
            ".hidden " #name "_end\n.globl " #name "_end\n" #name                                  \
            "_end:\n.byte 0\n.popsection\n");                                                      \
    extern const char name[], name##_end[];

typedef struct hn_cuda_text {
    const char *begin, *end;
} hn_cuda_text;

#define HN_CUDA_SPAN(name)                                                                         \
    { name, name##_end }

/* Forgets the words that are defined in a text: a unit has several. */
void hn_cuda_put_undefs(hn_strbuf *text);

/* ---- operations that are several kernels (hn_kernel_code.next) ---- */

/* The kernels of a call so far. */
typedef struct hn_cuda_list {
    const hn_program *program;
    const hn_extern *call;
    hn_arena *arena;
    const char *words; /* lines that define what is used in all texts */
    hn_expr workspace_bytes;
    hn_kernel_code *first, *last; /* `last` is NULL while there is none */
} hn_cuda_list;

typedef struct hn_cuda_kernel {
    hn_cuda_text text;
    const uint8_t *operands; /* of the call: the first arguments */
    uint32_t operand_count;
    bool has_workspace; /* the next one */
    const hn_expr *params;
    uint32_t param_count;
    hn_expr groups;
    uint32_t threads, shared_bytes; /* dynamic shared memory */
} hn_cuda_kernel;

/* Errors: out-of-memory. */
hn_status hn_cuda_list_add(hn_cuda_list *list, const hn_cuda_kernel *kernel) HN_MUST_USE;
/* A kernel whose arguments are all operands and parameters of the call. */
hn_status hn_cuda_list_add_call(hn_cuda_list *list, hn_cuda_text text, hn_expr groups,
                                uint32_t threads) HN_MUST_USE;

/* Words of operations.c. */
void hn_cuda_put_words(hn_strbuf *text, hn_dtype dtype);
/* What a mask of a dtype (NONE: there is none) makes of a score of attention. */
void hn_cuda_put_mask(hn_strbuf *text, hn_dtype dtype);

/* The operations of sort.c, select.c, combine.c and attention_backward.c; `list` is empty and has no words. */
hn_status hn_cuda_sort(hn_cuda_list *list) HN_MUST_USE;
hn_status hn_cuda_nonzero(hn_cuda_list *list) HN_MUST_USE;
hn_status hn_cuda_nms(hn_cuda_list *list) HN_MUST_USE;
hn_status hn_cuda_combine_sorted(hn_cuda_list *list) HN_MUST_USE;
hn_status hn_cuda_attention_backward(hn_cuda_list *list) HN_MUST_USE;

#endif
