/* source_impl.h: what the files that print C share: texts, numbers, addresses. Internal to
 * src/wrapper. */
#ifndef HN_WRAPPER_SOURCE_IMPL_H
#define HN_WRAPPER_SOURCE_IMPL_H

#include "wrapper/to_source.h"

typedef struct source_printer {
    const hn_to_source *source;
    const hn_wrapper *w;
    const hn_wnumbering *numbering;
    const hnb_node *nodes;
    hn_strbuf *out;
    uint32_t node_count, first_late; /* the first symbol that a step defines */
    /* per node: 1 + the last symbol that a step defines in it, counted from first_late; 0: none */
    uint32_t *stages;
    uint32_t *owns; /* per storage: 1 + its number among those that the program changes */
    /* per buffer: its number among the blocks, of which pools come first */
    uint32_t *blocks;
    uint32_t own_count, block_count, slot_count, extern_count;
    uint8_t *is_size;         /* per node: must be known and not negative */
    uint32_t *symbol_numbers; /* per symbol: its place among the numbers */
    uint32_t depth;           /* of the block being printed */
    uint32_t next_extern;
    uint32_t next_call; /* kernels and operations, each variant */
    /* among the numbers, behind those of symbols: which variant runs, of each line that has
     * variants */
    uint32_t first_pick, next_pick;
    /* of a device, HN_DEVICE_CPU: there is none; and per storage, where its copy of weights that
     * stay as they are lies in its memory */
    hn_device_kind device;
    uint64_t *device_offsets;
    uint64_t device_bytes;
    uint32_t operation_count; /* of the device */
    uint32_t next_operation, next_launch, next_element;
} source_printer;

/* "..." with escapes. */
void hn_source_string(hn_strbuf *out, hn_str text);
/* For the inside of a comment: no comment ends or begins in it, and no line. */
void hn_source_comment(hn_strbuf *out, hn_str text);
/* "{0, 64}" or "{7, 0}": a `dim` of support.h. */
void hn_source_dim(source_printer *p, hn_expr e);
/* A literal or "n[7]"; 0 for no expression. */
void hn_source_number(source_printer *p, hn_expr e);
void hn_source_int(hn_strbuf *out, int64_t value);
/* Whether an expression is a number. */
bool hn_source_const(const source_printer *p, hn_expr e, int64_t *out_value);
/* The address of an element of a buffer. `offset`: elements, or 0. */
void hn_source_address(source_printer *p, hn_wbuf buffer, hn_expr offset, uint32_t elem_bytes);
/* The origin of a line in the graph; empty texts when it has none. */
hn_origin hn_source_origin(const hn_wrapper *w, uint32_t origin);
/* "node 'x' (file:3)" as a literal. */
void hn_source_where(source_printer *p, uint32_t origin);
void hn_source_indent(source_printer *p);
/* "[s0, 64]" of a tensor; nothing else has a shape. */
void hn_source_shape(const hn_wnumbering *numbering, const hn_wvalue *v, hn_strbuf *out);
/* Of a number: the type of its array. */
uint32_t hn_source_type(const hn_wvalue *v);
/* A weight that the program changes. */
bool hn_source_is_state(const hn_woutput *o);
bool hn_source_is_mutation(const hn_woutput *o);

/* The expression of a node, for comments and messages. */
void hn_source_node(const hn_wnumbering *numbering, uint32_t node, hn_strbuf *out);

/* source_tables.c: tables of inputs and outputs, of the blocks that outputs lie in alone, and of
 * the states. */
void hn_source_tables(source_printer *p);

/* source_steps.c: the walk over the steps. */
hn_status hn_source_steps(source_printer *p) HN_MUST_USE;

/* "void *const b[] = {...};": the addresses of the operands that a launch takes. */
void hn_source_buffers(source_printer *p, const hn_line *line, const hn_wlaunch *launch);
/* "const long long p[] = {...};", and nothing of none. */
void hn_source_params(source_printer *p, const hn_expr *params, uint32_t count, const char *type);
/* Both, of a call of an operation, and "static const extern_facts f = {...};", with the form that
 * it is asked for. */
void hn_source_extern_facts(source_printer *p, const hn_line *line, uint32_t number);

/* source_variants.c: which variant of a call runs. */
/* Numbers that say it. */
uint32_t hn_source_pick_count(const hn_wrapper *w);
/* Sets those that are known when the numbers of a stage are. */
void hn_source_picks(source_printer *p, uint32_t stage);
/* Around the C of a variant, for all of a line in turn; nothing where the line has only one. */
void hn_source_variant_begin(source_printer *p, const hn_line *line, uint32_t variant);
void hn_source_variant_end(source_printer *p, const hn_line *line, uint32_t variant);

/* source_device.c: what a device has and does. */

/* Whether the device has the memory of a buffer. */
bool hn_source_is_remote(const source_printer *p, hn_wbuf buffer);
/* Whether it has the content of an output behind the steps; of an input and of a weight that stays
 * as it is the host has it, too. */
bool hn_source_output_is_remote(const source_printer *p, const hn_woutput *o);
/* Numbers that the lines of the device need. */
void hn_source_device_count(source_printer *p);
/* Tables. */
void hn_source_device_tables(source_printer *p);
/* A call on the device. */
void hn_source_device_kernel(source_printer *p, const hn_line *line);
void hn_source_device_extern(source_printer *p, const hn_line *line);

/* source_debug.c: marks around a step, and the table that belongs to them. */
void hn_source_debug_begin(source_printer *p, const hn_line *line);
/* `pick`: the number that says which variant of the line runs. */
void hn_source_debug_end(source_printer *p, const hn_line *line, uint32_t pick);
/* Both, in front of a step that writes to no tensor, in a block of their own. */
void hn_source_debug_mark(source_printer *p, const hn_line *line);
hn_status hn_source_debug_table(source_printer *p) HN_MUST_USE;

#endif
