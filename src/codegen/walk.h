/* walk.h: forms (kernel/form.h) as source text. One walk for all languages; a language is a table
 * of words and templates.
 *
 * The walk decides nothing: a statement of the form is a statement of the text. Names are
 * positions, so that equal kernels are equal bytes: m0, m1... are the memories of the form; n0...
 * its sizes; v0... values and i0... index symbols, numbered on from those of the
 * blocks around; r0... registers, p0... their positions, r0_1 that of the second vector of a step;
 * "group" and "thread", or "first" and "until", what form.h calls so. "KERNEL" stands for the
 * function's name.
 *
 * Arguments: one pointer for each memory of the program, in order; `scratch` when the form has such
 * memory, where each group has a part of its own, here or last; `status`, which a failed check of an
 * index sets; then the sizes. Or they are fetched from arrays in the function. Of several segments:
 * the memories of all, one segment behind the other; for each, the number of groups or iterations
 * that it and those before it have, then its sizes.
 *
 * In a template "$0" to "$4" are operands, "#" is the letter of their class and "@" the name of
 * their dtype. NULL: the language does not have it. */
#ifndef HN_CODEGEN_WALK_H
#define HN_CODEGEN_WALK_H

#include "codegen/codegen.h"
#include "codegen/index.h"
#include "kernel/form.h"

/* What numbers of a dtype are computed in; narrow ones are cut or rounded to their dtype by
 * `narrow`. */
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

/* One for a whole vector, and one for a vector of which the first `n` lanes count. */
typedef struct hn_vector_texts {
    const char *whole, *masked;
} hn_vector_texts;

/* What a language has for forms of ranges: all its values are vectors, whose lanes may be equal. */
typedef struct hn_vector_words {
    hn_class_texts splat;          /* a number in all lanes */
    const char *true_number;       /* of a bool, before it is splat */
    hn_class_texts rounded;        /* a product that something will be added to */
    const char *larger;            /* of two f32; a NaN may be lost */
    const char *of_bool, *to_bool; /* a bool as the number 0 or 1, and back */
    const char *live;              /* defines what only_live needs: the first `n` lanes count */
    hn_class_texts only_live;      /* $0: "a, b": a in lanes that count, b in the others */
    const hn_class_texts *across;  /* by op: the lanes of $0 combined, in all lanes; of one that
                                      keeps a position: the position, $1: those  of the lanes */

    /* INDEX. GATHER: $0: of lane k. Else $0: of the first lane, $1: from lane to lane */
    hn_class_texts indices[HN_ACCESS_GATHER + 1];
    /* INDIRECT defines $0 from $1 with extent $2: a number; silently; and an array of lanes, from
     * numbers of 64 and of 32 bits */
    const char *check, *check_wrapped, *check_quiet;
    hn_vector_texts checks, checks_wrapped, narrow_checks, narrow_checks_wrapped;
    const char
        *no_extent; /* $3: what ends a kernel when the extent is 0; it is "" when that cannot be */
    const char *narrow_begin, *narrow_end; /* of a function that checks in 32 bits */

    /* By walk. $0: memory; $1: index of the first lane, GATHER: of lane k; $2: elements from lane
     * to lane; store: $3: value */
    hn_vector_texts loads[HN_ACCESS_GATHER + 1], stores[HN_ACCESS_GATHER + 1];
    hn_vector_texts narrow_gather; /* of elements that are not as wide as a lane: $2: their type */
    const char *streams, *streams_aligned; /* stores of whole vectors, as CONTIGUOUS ones */
    const char *fence;                     /* at the end of a function with such */
    /* A store lane by lane, of y to where x is. $0: lanes, $1: type of elements, $2: memory, $3:
     * index of lane k, $4: type of vectors; what y is follows. Then $0: what is stored. */
    const char *in_order, *in_order_end;
    const char *prefetch[HN_FETCH_COUNT]; /* $0: memory, $1: index */
    /* $0: from, $1: index there, $2: stride; then $3 rows and $4 columns, or as many of both as a
     * vector has lanes. ", memory + index, pitch)" follows. */
    const char *transpose, *transpose_square;
    const char *is_aligned; /* a condition; $0: memory */
} hn_vector_words;

/* What a language has for groups of several blocks. */
typedef struct hn_cluster_words {
    const char *head, *numbers; /* as those of the language; $1: blocks of a group, and of `numbers`
                                   $2: threads of a block */
    const char *barrier;        /* of all threads of the group */
    const char *leave;          /* the same where a block ends: nobody reads what it wrote */
    const char *far;            /* shared memory $0[$1] of block $2 */
} hn_cluster_words;

/* What a language has for staged memory. */
typedef struct hn_stage_words {
    const char *begin, *part; /* all of it; $0 *$1: from piece $2 of 16 bytes on */
    const char *move;         /* to $0 + $1 from $2 + $3, 16 bytes */
    const char *settle;       /* waits for what private memory $0 of $1 words is read from */
    const char *await[HN_FORM_BATCHES_MOST + 1]; /* by how many batches may be under way */
} hn_stage_words;

/* What a language has for forms of several segments. */
typedef struct hn_segment_words {
    /* where arguments are fetched: the head of the function of one segment, and the function behind
     * it that calls it. $0: segments, $1: memories and $2: numbers of each */
    const char *head, *calls;
    /* elsewhere: defines group, which changes, and thread; $0: type of indices */
    const char *numbers;
    /* defines a pointer, without a value; $0: type of elements, $1: name; the others as in the
     * language */
    const char *read, *write, *read_alone, *write_alone;
    const char *take; /* it becomes the argument $1 */
} hn_segment_words;

struct hn_language {
    const char *name;                 /* for messages */
    const hn_vector_words *vectors;   /* NULL: forms of groups only */
    const hn_cluster_words *clusters; /* NULL: a group is one block */
    const hn_stage_words *stages;     /* NULL: there is no staged memory */
    const hn_segment_words *segments; /* of every language that targets have */

    /* the function */
    const char *head; /* up to its arguments; $0: threads of a block, $2: behind it a comma and how
                                 many groups a multiprocessor is to hold, or nothing */
    const char *read, *write; /* an argument: memory that is only read, or written; $0: type of
                                 elements, $1: name, $2: number */
    /* the same, of memory whose elements no other argument reaches, unless both are only read; NULL:
     * no other text */
    const char *read_alone, *write_alone;
    const char *scratch, *status;
    bool scratch_is_last; /* among the arguments; else it stands before `status` */
    /* a line for each of these: goes to where it begins in its memory; $0: name; may be NULL */
    const char *begin;
    const char *size; /* an argument; $0: name, $1: number */
    bool fetches; /* arguments are not in the head but in lines of their own; scratch and status are
                     in the head */
    const char *numbers; /* the first line: defines group and thread; $0: type of indices */
    const char *end;     /* the last line; may be NULL */
    const char *shared;  /* defines shared memory; $0: type of elements, $1: name, $2: elements */
    const char *part;    /* defines a pointer; $0, $1 likewise, $2: bytes from `scratch` */
    const char *barrier;
    const char *private_array; /* as `shared`, for a thread's own registers */
    const char *move; /* $0: memory, $1: index, $2: from this memory, $3: index, $4: elements, $5:
                         their type; more than one of them */
    /* So many threads read each other's registers: $0 of the thread whose number is one's own xor
     * $1, and $2 are the threads that there are, as bits. 1: none do, all exchange through shared memory */
    uint32_t shuffle_threads;
    const char *shuffle,
        *shuffle_up; /* the second: of the thread that is $1 before; where there is none,
                                      anything */
    /* Atomic stores that are one instruction: $0: memory, $1: index, $2: value. For others `swapped`:
     * whether $0[$1] was what the variable $2 says and is $3 now; else $2 says what it is. NULL:
     * there are none of the dtype */
    const char *atomic[HN_STORE_MAX + 1][HN_DTYPE_COUNT];
    const char *swapped[HN_DTYPE_COUNT];
    const char *exp_not_positive; /* of an f32 that is not above 0, or NaN; NULL: as of any */
    const char *one_plus_erf;     /* of an f32, in place of the two ops; NULL: as them */
    const char *unroll;           /* in front of a loop; $0: how often; may be NULL */

    /* index symbols */
    const char *index_type,
        *narrow_index_type; /* the second: of 32 bits, where they fit; may be NULL */
    hn_index_words index_words;
    const char *check,
        *check_wrapped; /* $0: index, $1: extent; the second takes negative ones from the end */

    /* numbers */
    hn_class_texts types;
    hn_class_texts infinity, nan; /* of floats */
    const char *float_suffix, *long_suffix;
    hn_class_texts casts[HN_NUMBER_COUNT]; /* from each class to each */
    hn_class_texts random[HN_RANDOM_BITS +
                          1]; /* $0: seed, $1: element, $2: stream, $3: bits of a uniform number */
    const char *elements[HN_DTYPE_COUNT]; /* types in memory */
    const char *loads[HN_DTYPE_COUNT],
        *stores[HN_DTYPE_COUNT]; /* an element as a number, and back; NULL: they are the same */
    const char *narrow[HN_DTYPE_COUNT]; /* a number of the class as one of the dtype; NULL: they are
                                           the same */
    const char *bits_of[HN_DTYPE_COUNT], *of_bits[HN_DTYPE_COUNT]; /* BITCAST from and to a float */
    /* Rows of ir/ops.def. ARGMAX, ARGMIN, CUMMAX and CUMMIN are statements: $0 and $1 a register
     * and its position, $2 and $3 the new ones. The other reductions are the element-wise row that
     * combines two numbers. */
    const hn_class_texts *ops;
};

/* `text`, `digest`, `name`, arguments, grid and threads of a kernel. Owns: lists and text in
 * `arena`. Errors: unsupported when the language has no text for an op and dtype, or for shared
 * memory whose extent is not known. */
hn_status hn_form_text(const hn_form *f, const hn_language *language, hn_arena *arena,
                       hn_arena *scratch, hn_kernel_code *out) HN_MUST_USE;

#endif
