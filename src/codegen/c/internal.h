/* internal.h: what the printers of codegen/c share. */
#ifndef HN_CODEGEN_C_INTERNAL_H
#define HN_CODEGEN_C_INTERNAL_H

#include "codegen/c/c.h"
#include "kernel/cpu.h"

typedef struct printer {
    const hn_cpu_plan *plan;
    const hn_program *p; /* the plan's, as the next three */
    hn_sym *sym;
    const hn_kernel *k;
    uint32_t lanes;
    hn_arena *arena;
    hn_strbuf out;
    uint32_t indent;

    /* arguments, in order of first use */
    struct { hn_buf *items; uint32_t count, cap; } buffers;
    struct { hn_expr *items; uint32_t count, cap; } offsets; /* into the buffer; 0: none */
    struct { hn_expr *items; uint32_t count, cap; } sizes;
    hn_status failed; /* first error */

    /* where in the text */
    const hn_cpu_phase *at;       /* the phase being printed */
    const hn_cpu_phase *follower; /* the phase whose vectors follow those at hand; NULL: none */
    uint32_t copy;     /* which of the unrolled copies */
    bool tail;         /* only n of the lanes count */
    bool in_lane_loop; /* in an index for lane k of a loop over lanes */
    bool ahead;        /* in an index of a row ahead: indirect symbols that change with rows are f<s>, not t<s> */
    bool aligned;      /* where what is stored round the caches is known to begin at a vector's alignment */
    bool in_tile;      /* inside a whole square: strided loads come from its array */
} printer;

static inline hn_expr extent_of(const printer *pr, hn_expr var) { return hn_sym_symbol_extent(pr->sym, var); }

/* print_index.c */
void c_put_index(printer *pr, hn_expr e); /* a scalar C expression of type long long */
/* Of the argument, or of the local buffer, that an access at index `access` goes by. */
void c_put_base(printer *pr, hn_buf b, hn_expr access); /* "b3" or "l0" */
/* An index, counted from there. */
void c_put_element(printer *pr, hn_buf b, hn_expr access, hn_expr index);
/* "b3 + index" */
void c_put_address(printer *pr, hn_buf b, hn_expr index);

/* print_sop.c */
char c_lane_class(hn_dtype d); /* f d i l m */
const char *c_lane_type(hn_dtype d);
const char *c_result_type(const hn_kernel_reduce *r); /* of a reduction, when it is finished */
void c_put_sop(printer *pr, hn_sid s);
void c_put_store(printer *pr, uint32_t number);
void c_put_reduce_init(printer *pr, const hn_kernel_reduce *r, uint32_t copy);
void c_put_reduce_step(printer *pr, const hn_kernel_reduce *r);
void c_put_reduce_finish(printer *pr, const hn_kernel_reduce *r, uint32_t copies);

/* print_narrow.c: HN_REWRITE_NARROW_INDICES */
void c_put_of_indices(printer *pr, const hn_sop *op);

/* print.c, for the files beside it */
void c_put_rows(printer *pr, const char *row, uint32_t count);
void c_put_phase_inner(printer *pr, const hn_cpu_phase *ph);
void c_open_loops(printer *pr, uint32_t from, uint32_t to, bool with_levels);
void c_put_vector(printer *pr, const char *head, uint32_t first_level, uint32_t copy, bool tail);
void c_put_level_range(printer *pr, uint32_t first, uint32_t last);
void c_put_phase_effects(printer *pr);
void c_open_block(printer *pr, const char *text);
void c_close_block(printer *pr);

/* print_prefetch.c: those of the phase at hand */
void c_put_indices_ahead(printer *pr);
void c_put_prefetches(printer *pr);

/* print_streams.c */
void c_put_split_rows(printer *pr); /* leaves begin at the rows that remain */

/* print_pipelined.c */
void c_put_pipelined_rows(printer *pr); /* leaves a block open for the plain form */
void c_put_follower(printer *pr, const char *head, bool tail); /* one vector of pr->follower */

/* print_column.c */
void c_put_column_kernel(printer *pr);

/* print_tile.c */
void c_put_tile_kernel(printer *pr);
bool c_put_tile_load(printer *pr, hn_sid s, const hn_sop *op);

void c_put_line(printer *pr, const char *fmt, ...) HN_PRINTF(2, 3); /* indent + text + newline */
void c_put_begin(printer *pr); /* indent only */
void c_fail_with(printer *pr, hn_status status);

#endif
