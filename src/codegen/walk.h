/* walk.h: forms (kernel/form.h) as source text. One walk for all languages; a language is a table of words and templates.
 *
 * The walk decides nothing: a statement of the form is a statement of the text. Names are positions, so that equal kernels are equal
 * bytes: m0, m1... are the memories of the form; n0... sizes, v0... values and i0... index symbols in order of appearance; r0... registers,
 * p0... their positions; "group" and "thread" the two numbers. "KERNEL" stands for the function's name.
 *
 * Arguments: one pointer for each memory of the program, in order; `scratch` when the form has such memory, where each group has a part of
 * its own; `status`, which a failed check of an index sets; then the sizes.
 *
 * In a template "$0" to "$3" are operands, and "#" is the letter of their class. NULL: the language does not have it. */
#ifndef HN_CODEGEN_WALK_H
#define HN_CODEGEN_WALK_H

#include "codegen/codegen.h"
#include "codegen/index.h"
#include "kernel/form.h"

/* What numbers of a dtype are computed in; narrow ones are cut or rounded to their dtype by `narrow`. */
typedef enum hn_number_class {
    HN_NUMBER_F32,  /* f: f32, f16, bf16 */
    HN_NUMBER_F64,  /* d */
    HN_NUMBER_I32,  /* i: i32 and narrower */
    HN_NUMBER_I64,  /* l */
    HN_NUMBER_BOOL, /* m: 0 or 1 */
    HN_NUMBER_COUNT
} hn_number_class;

typedef struct hn_class_texts {
    const char *of[HN_NUMBER_COUNT];
} hn_class_texts;

typedef struct hn_language {
    const char *name; /* for messages */

    /* the function */
    const char *head;         /* up to its arguments; $0: threads of a group */
    const char *read, *write; /* an argument: memory that is only read, or written; $0: type of elements, $1: name */
    const char *scratch, *status;
    const char *size;         /* an argument; $0: name */
    const char *numbers;      /* defines group and thread */
    const char *shared;       /* defines shared memory; $0: type of elements, $1: name, $2: elements */
    const char *part;         /* defines a pointer; $0, $1 likewise, $2: bytes from `scratch` */
    const char *barrier;
    const char *unroll;       /* in front of a loop; $0: how often; may be NULL */

    /* index symbols */
    const char *index_type;
    hn_index_words index_words;
    const char *check, *check_wrapped; /* $0: index, $1: extent; the second takes negative ones from the end */

    /* numbers */
    hn_class_texts types;
    hn_class_texts infinity, nan;        /* of floats */
    const char *float_suffix, *long_suffix;
    hn_class_texts casts[HN_NUMBER_COUNT];         /* from each class to each */
    hn_class_texts random[HN_RANDOM_BITS + 1];     /* $0: seed, $1: element, $2: stream, $3: bits of a uniform number */
    const char *elements[HN_DTYPE_COUNT];          /* types in memory */
    const char *loads[HN_DTYPE_COUNT], *stores[HN_DTYPE_COUNT]; /* an element as a number, and back; NULL: they are the same */
    const char *narrow[HN_DTYPE_COUNT];            /* a number of the class as one of the dtype; NULL: they are the same */
    const char *bits_of[HN_DTYPE_COUNT], *of_bits[HN_DTYPE_COUNT]; /* BITCAST from and to a float */
    /* Rows of ir/ops.def. ARGMAX, ARGMIN, CUMMAX and CUMMIN are statements: $0 and $1 a register and its position, $2 and $3 the new
     * ones. The other reductions are the element-wise row that combines two numbers. */
    const hn_class_texts *ops;
} hn_language;

/* `text`, `digest`, `name`, arguments, grid and threads of a kernel. Owns: lists and text in `arena`. Errors: unsupported when the language
 * has no text for an op and dtype, or for shared memory whose extent is not known. */
hn_status hn_form_text(const hn_form *f, const hn_language *language, hn_arena *arena, hn_arena *scratch, hn_kernel_code *out) HN_MUST_USE;

/* `text` with operands in its places. */
void hn_template_put(const char *text, char letter, const char *const operands[4], hn_strbuf *out);

#endif
