/* internal.h: what the printers of codegen/c share. */
#ifndef HN_CODEGEN_C_INTERNAL_H
#define HN_CODEGEN_C_INTERNAL_H

#include "codegen/c/c.h"

enum { MAX_UNROLL = 8, MAX_WANTED = 8 };

/* An element to ask memory for, in terms of the row and the lane at hand. */
typedef struct fetch {
    hn_buf buffer;
    hn_expr index, access; /* `access`: of the load or store that it is for */
    bool to_write;
} fetch;

/* Where an argument begins, and which accesses go by it: those that add `sizes` and a number from `first` to `last`. */
typedef struct base {
    hn_buf buffer;
    hn_expr sizes;
    int64_t first, last;
    hn_expr offset; /* elements; 0: none */
} base;

typedef struct printer {
    const hn_program *p;
    hn_sym *sym;
    const hn_kernel *k;
    uint32_t lanes;
    hn_arena *arena, *scratch;
    hn_strbuf out;
    uint32_t indent;

    /* arguments, in order of first use */
    struct { hn_buf *items; uint32_t count, cap; } buffers;
    struct { hn_expr *items; uint32_t count, cap; } offsets; /* into the buffer; 0: none */
    struct { bool *items; uint32_t count, cap; } written;
    struct { hn_expr *items; uint32_t count, cap; } sizes;
    struct { base *items; uint32_t count, cap; } bases;
    hn_status failed; /* first error */

    /* the phase being printed */
    const hn_kernel_phase *phase;
    hn_expr lane;     /* the variable that runs over lanes; 0: none */
    bool tail;        /* only n of the lanes count */
    bool in_lane_loop; /* printing an index for lane k of a loop over lanes */
    uint32_t copy;    /* which of the unrolled copies */
    bool column;      /* results are per copy */
    hn_expr tile;     /* of a tiled kernel: the outer variable that goes with the lanes; 0: none */
    uint32_t tile_block; /* and the width of its blocks */
    double written_bytes;
    bool may_stream;  /* the kernel writes more than the caches keep */
    fetch wanted[MAX_WANTED]; /* what the phase asks for ahead of its use */
    uint32_t wanted_count;
    int64_t rows_ahead;
    bool ahead;       /* printing an index of a row ahead: indirect symbols are f<s>, not t<s> */
    bool streaming;   /* and some of its stores go round them */
    bool checks_words; /* it collects indices that are outside in `outside` */
    uint32_t wide_bytes; /* scratch that sums of columns, or wide blocks, need */
    bool folds;       /* print_pipelined.c */
    bool aligned;     /* what is stored round the caches is known to begin at a vector's alignment */
    const hn_kernel_phase *folded; /* the phase whose vectors follow those at hand; NULL: none */
    bool repeats;     /* computes some elements twice: repeats_elements */
    bool in_tile;     /* inside a whole square: strided loads come from its array */
    uint8_t *live, *varying, *divisor;
    uint8_t *rounded; /* products that something is added to: rounded before that, as everywhere else */
    uint32_t *level;  /* innermost loop that a sop depends on: 0 none, d + 1 for inner variable d */
} printer;

/* print_index.c */
void put_index(printer *pr, hn_expr e); /* a scalar C expression of type long long */
bool uses_lane(printer *pr, hn_expr e); /* through the lane variable or a varying indirect index */
/* How an address moves over lanes. */
typedef enum lane_walk { WALK_FIXED, WALK_ONE, WALK_STRIDE, WALK_GATHER } lane_walk;
lane_walk walk_of(printer *pr, hn_expr e, hn_expr *out_step);
uint32_t size_argument(printer *pr, hn_expr symbol);
bool is_local(const printer *pr, hn_buf b);
/* Of the argument, or of the local buffer, that an access at index `access` goes by. */
void put_base(printer *pr, hn_buf b, hn_expr access, bool written); /* "b3" or "l0" */
/* An index, counted from there. */
void put_element(printer *pr, hn_buf b, hn_expr access, hn_expr index);
/* "b3 + index" */
void put_address(printer *pr, hn_buf b, hn_expr index, bool written);

/* bases.c */
hn_status find_bases(printer *pr) HN_MUST_USE;
/* How many elements into buffer `b` the argument begins that an access at this index goes by; 0: none. */
hn_expr base_of(printer *pr, hn_buf b, hn_expr access);

/* print_sop.c */
char lane_class(hn_dtype d); /* f d i l m */
const char *lane_type(hn_dtype d);
void put_sop(printer *pr, hn_sid s);
void put_store(printer *pr, const hn_kernel_store *store);
void put_reduce_init(printer *pr, const hn_kernel_reduce *r, uint32_t copy);
void put_reduce_step(printer *pr, const hn_kernel_reduce *r);
void put_reduce_finish(printer *pr, const hn_kernel_reduce *r, uint32_t copies);
uint32_t sop_cost(const hn_sop *op);
bool is_narrow_index(const printer *pr, hn_sid s); /* whether indirect symbol t<s>, when it varies, is an array of int */

/* print_simplified.c */
/* Whether a division is done as a product with a reciprocal that is taken outside of the loop. */
bool divides_once(const printer *pr, const hn_sop *op);
/* Of x * sigmoid(x), which is printed as one op, x; else 0. */
hn_sid gated_by_sigmoid(const printer *pr, const hn_sop *op);
/* Whether the operand of an exponential cannot be above 0. */
bool is_below_largest(const printer *pr, const hn_sop *op);
/* Whether an op compares indices, or casts one to f32, that fit lanes of 32 bits: its operands are printed with it. */
bool is_of_indices(printer *pr, const hn_sop *op);
void put_of_indices(printer *pr, const hn_sop *op);
/* Whether a reduction may lose NaN on the way. */
bool nan_comes_back(const printer *pr, const hn_kernel_reduce *r);

/* print.c, for the files beside it */
/* Work below this many elements times cost is not worth waking a thread (about 20 us). Source: performance.md 2.4. */
enum { GRAIN_WORK = 40000 };
hn_expr extent_of(printer *pr, hn_expr var);
int64_t known(printer *pr, hn_expr e); /* -1: not a number */
uint32_t phase_cost(const hn_kernel_phase *phase);
void put_rows(printer *pr, const char *row, uint32_t count);
int64_t local_bytes(printer *pr, uint32_t k); /* of local buffer k, padded */
hn_status put_phase_inner(printer *pr, const hn_kernel_phase *phase) HN_MUST_USE;
void open_loops(printer *pr, uint32_t from, uint32_t to, bool with_levels);
void put_vector(printer *pr, const char *head, uint32_t first_level, uint32_t copy, bool tail);
hn_status analyse_phase(printer *pr) HN_MUST_USE;
void put_level_range(printer *pr, uint32_t first, uint32_t last);
void put_phase_effects(printer *pr);
void open_block(printer *pr, const char *text);
void close_block(printer *pr);

/* print_prefetch.c: prefetches */
void choose_fetches(printer *pr); /* of the phase that was analysed */
void put_indices_ahead(printer *pr);
void put_fetches(printer *pr);

/* print_streams.c */
bool reads_in_quarters(printer *pr);
hn_status put_quarters(printer *pr) HN_MUST_USE; /* leaves begin at the rows that remain */

/* print_pipelined.c */
bool folds_last_pass(printer *pr);
hn_status put_folded_rows(printer *pr) HN_MUST_USE; /* leaves a block open for the plain form */
void put_last_pass(printer *pr, const char *head, bool tail); /* one vector of pr->folded */

/* print_column.c */
hn_status put_column_kernel(printer *pr) HN_MUST_USE;
uint32_t column_width(printer *pr); /* rows (lanes) of a parallel iteration */

/* print_tile.c */
/* The variable to tile with the lanes when loads are strided; 0: the plain form does. */
hn_expr tile_variable(printer *pr);
hn_status put_tile_kernel(printer *pr) HN_MUST_USE;
void choose_tile_block(printer *pr);
hn_expr tile_extent(printer *pr); /* parallel iterations */
bool put_tile_load(printer *pr, hn_sid s, const hn_sop *op);

/* in_place.c */
/* Sets out->over. After the text: it needs the arguments. */
hn_status find_in_place(printer *pr, hn_kernel_code *out) HN_MUST_USE;

void put_line(printer *pr, const char *fmt, ...) HN_PRINTF(2, 3); /* indent + text + newline */
void put_begin(printer *pr); /* indent only */
void fail_with(printer *pr, hn_status status);

#endif
