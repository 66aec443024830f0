/* walk_internal.h: what the files of the walk share. */
#ifndef HN_CODEGEN_WALK_INTERNAL_H
#define HN_CODEGEN_WALK_INTERNAL_H

#include "codegen/walk.h"

/* How an index symbol stands in the text. */
typedef enum symbol_form {
    SYMBOL_NUMBER, /* "i3" */
    SYMBOL_LANES,  /* "i3" is the number of a vector's first lane; that of lane k is "(i3 + k)" */
    SYMBOL_ARRAY,  /* "i3[k]" */
    SYMBOL_NARROW_ARRAY /* ... of 32 bits */
} symbol_form;

/* An index symbol that is defined here, and its number in the text. */
typedef struct defined {
    hn_expr symbol;
    uint32_t number;
    symbol_form form;
} defined;

/* The step of LANES that is being printed. */
typedef struct lane_step {
    const hn_form_stmt *lanes; /* NULL: outside of LANES */
    uint32_t vectors;          /* side by side */
    bool is_masked;            /* the first `n` lanes of a vector count; */
    bool has_own_count;        /* each VECTOR has an `n` of its own */
    bool overlaps;             /* the vector ends where the loop does */
} lane_step;

typedef struct walk {
    const hn_form *f;
    const hn_language *l;
    hn_arena *arena, *scratch;
    hn_strbuf out;
    uint32_t depth;
    struct {
        defined *items;
        uint32_t count, cap;
    } defined;         /* innermost last */
    uint32_t *values;  /* per statement: the number of its value */
    uint32_t *vectors; /* per register: vectors of the widest LANES that works on it; at least 1 */
    uint32_t index_count,
        value_count;  /* numbers that are taken by the block at hand and those around it */
    const char *lane; /* the index being printed is that of this lane; NULL: of the first one */
    lane_step step;
    uint32_t copy;  /* in a VECTOR: which vector of the step */
    uint32_t loops; /* FORs around the statement at hand */
    bool in_vector;
    bool checks_narrow, streams; /* the function has such statements */
    hn_status failed;            /* the first error */
    uint32_t staged_bytes;       /* that the text takes */
} walk;

/* What stands for "$k" in a template: a text; or an index, of the first lane or of lane `lane`. */
typedef struct operand {
    const char *text;
    hn_expr index;
    const char *lane;
} operand;

enum { OPERANDS_MAX = 6 };

#define OPERANDS(...) ((const operand[OPERANDS_MAX]){__VA_ARGS__})
#define TEXT(t)                                                                                    \
    { .text = (t) }
#define INDEX(e)                                                                                   \
    { .index = (e) }
#define INDEX_OF_LANE(e, k)                                                                        \
    { .index = (e), .lane = (k) }

/* "v12" and the like. */
typedef struct name {
    char text[24];
} name;

static inline const hn_sop *walk_op_of(const walk *w, hn_fid value) {
    return &w->f->stmts.items[value].op;
}
static inline const char *walk_index_type(const walk *w) {
    return w->f->is_narrow && w->l->narrow_index_type ? w->l->narrow_index_type : w->l->index_type;
}
static inline bool walk_is_cluster(const walk *w) { return w->f->blocks > 1; }
static inline bool walk_is_masked(const walk *w) { return w->in_vector && w->step.is_masked; }

/* ---- walk_words.c: errors, templates, names, indices, literals ---- */

void walk_fail(walk *w, hn_status status);
void walk_begin_line(walk *w);
/* "#" is the letter of the dtype's class, "@" its name. `dtype` may be NONE where there is neither.
 */
void walk_put(walk *w, const char *text, hn_dtype dtype, const operand operands[OPERANDS_MAX]);
void walk_put_line(walk *w, const char *text, hn_dtype dtype, const operand operands[OPERANDS_MAX]);
/* The part of a template in front of "$0"; the part behind it is returned. NULL: both are empty. */
const char *walk_open(walk *w, const char *text, hn_dtype dtype);

hn_number_class walk_class(hn_dtype d);
name walk_name(char letter, uint32_t number);
name walk_number(uint32_t number); /* "12" */
name walk_memory(hn_fmem m);
/* Of the vector `copy` of a register; and of its position. */
name walk_register(const walk *w, hn_freg r, uint32_t copy);
name walk_position(const walk *w, hn_freg r, uint32_t copy);
name walk_value(const walk *w, hn_fid value);

void walk_put_index(walk *w, hn_expr e);
/* As a text in the scratch arena. */
const char *walk_index_text(walk *w, hn_expr e);
/* The name by which `symbol` goes from here to the end of the block. */
name walk_define(walk *w, hn_expr symbol, symbol_form form);

void walk_put_int(walk *w, hn_dtype dtype, int64_t value);
void walk_put_float(walk *w, hn_dtype dtype, double value);

/* ---- walk_values.c ---- */

void walk_put_value(walk *w, hn_fid s);
/* A row of ops.def on operands of one dtype, as a number of `result`. */
void walk_put_op(walk *w, hn_op op, hn_dtype operand_dtype, hn_dtype result,
                 const operand operands[OPERANDS_MAX]);
/* "const float v7 = ", and the name. */
name walk_begin_value(walk *w, hn_dtype dtype);
void walk_put_store(walk *w, const hn_form_stmt *s);
/* The row by which a store combines. */
hn_op walk_store_op(hn_store_mode mode);

/* ---- walk_registers.c ---- */

void walk_put_registers(walk *w);
void walk_put_init(walk *w, hn_freg r);
void walk_put_step(walk *w, const hn_form_stmt *s);
void walk_put_set(walk *w, const hn_form_stmt *s);
void walk_put_across_lanes(walk *w, hn_freg r);
/* r = r combined with a value, or with the one at a position. */
void walk_put_combine(walk *w, const hn_form_register *reg, const char *r, const char *p,
                      const char *value, const char *position);
/* The text of a RESULT. */
void walk_put_result(walk *w, const hn_form_stmt *s);

/* ---- walk_threads.c: what the threads of a group do together ---- */

/* What rows exchange through, one for each ACROSS that needs it. */
void walk_put_exchanges(walk *w);
void walk_put_barrier(walk *w);
/* And those behind it that share its barriers. The last of them. */
hn_fid walk_put_across(walk *w, hn_fid s);
void walk_put_before(walk *w, hn_fid s);
void walk_put_move(walk *w, const hn_form_stmt *s);
void walk_put_await(walk *w, const hn_form_stmt *s);

/* ---- walk_vectors.c: loads, stores and loops over lanes, of languages with vectors ---- */

void walk_put_vector_load(walk *w, hn_fid s);
/* All of a VALUE that is such a load; false when it is not. */
bool walk_put_clamped_load(walk *w, hn_fid s);
void walk_put_vector_index(walk *w, hn_fid s);
void walk_put_vector_check(walk *w, hn_fid s);
/* What a store of `value` to a memory of `dtype` stores. A store rounds: so what was cast to the dtype
 * of a 16-bit float is stored as it was before. */
hn_fid walk_before_cast(const walk *w, hn_fid value, hn_dtype dtype);
void walk_put_vector_store(walk *w, const hn_form_stmt *s);
void walk_put_prefetch(walk *w, const hn_form_stmt *s);
void walk_put_transpose(walk *w, const hn_form_stmt *s);
hn_status walk_count_vectors(walk *w) HN_MUST_USE; /* w->vectors */
void walk_put_lanes(walk *w, const hn_form_stmt *s);
void walk_put_vector(walk *w, const hn_form_stmt *s);

/* ---- walk_segments.c ---- */

/* Behind the function of one segment, where arguments are fetched: the kernel. */
void walk_put_segment_calls(walk *w);
/* In the head, elsewhere: all memories, each with a comma behind it; all numbers, behind one. */
void walk_put_segment_memories(walk *w);
void walk_put_segment_numbers(walk *w);
/* The first lines: group and thread, and the arguments of the group's segment. */
void walk_put_segment_choice(walk *w);
/* What a launch gives for one segment becomes what it gives for all; nothing without segments. */
hn_status walk_repeat_segments(const hn_form *f, hn_arena *arena, hn_kernel_code *out) HN_MUST_USE;

/* ---- walk.c ---- */

/* Whether no other argument reaches what this one does; where both are only read, it does not
 * matter. */
bool walk_is_alone(const hn_form *f, hn_fmem memory);
/* The template of an argument. */
const char *walk_argument_text(const walk *w, hn_fmem m);

/* A block, indented; what is defined in it is not known behind it, and its numbers are free again.
 */
void walk_put_inner(walk *w, hn_fid first);

#endif
