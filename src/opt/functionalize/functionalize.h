/* functionalize.h: what functionalize.c and views.c share: the state of the walk and the
 * rules of view ops. Internal to opt. */
#ifndef HN_OPT_FUNCTIONALIZE_FUNCTIONALIZE_H
#define HN_OPT_FUNCTIONALIZE_FUNCTIONALIZE_H

#include "opt/pass.h"

/* Whether a result shares memory with an operand. */
typedef enum hn_alias {
    HN_ALIAS_NONE,   /* a tensor of its own */
    HN_ALIAS_SAME,   /* the operand itself */
    HN_ALIAS_VIEW,   /* another look at the operand's memory */
    HN_ALIAS_UNCLEAR /* symbolic strides do not tell: an error once either is written */
} hn_alias;

/* A view being written through: `base` is the current content of what is viewed, `source` the new
 * content of the view. */
typedef struct hn_view_write {
    hn_graph *g;
    const hn_node_info *view; /* the node that makes the view */
    uint32_t result_idx;
    hn_value base, source;
    hn_value_info base_info, view_info; /* as recorded */
} hn_view_write;

/* What the pass must know of a view op. */
typedef struct hn_view_rule {
    hn_op op;
    hn_alias (*alias)(const hn_graph *g, const hn_node_info *node); /* NULL: always a view */
    /* The new content of the base; 0 with an error latched in the graph. NULL: cannot be written
     * through. */
    hn_value (*scatter)(const hn_view_write *w);
} hn_view_rule;

/* The rule of `op`, NULL for ops that never share memory with an operand. */
const hn_view_rule *hn_view_rule_find(hn_op op);
/* Position of the viewed operand among the arguments. */
uint32_t hn_view_operand(hn_op op);
/* Makes the view anew over `base`: the node again, or for one piece of a split a slice. */
hn_value hn_view_regenerate(hn_graph *g, const hn_node_info *view, uint32_t result_idx,
                            hn_value base);
/* A node of one result like `like`, appended. */
hn_value hn_emit_like(hn_graph *g, hn_op op, const hn_arg *args, uint32_t count,
                      hn_value_info like);

#endif
