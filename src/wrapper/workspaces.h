/* workspaces.h: workspaces, the scratch memory of calls, as buffers of a program.
 *
 * A workspace is an operand of calls, or has the scratch memory of their groups
 * (hn_line.workspace). It belongs to one call, or to the kernels of one operation, which stand one
 * behind the other. The plan gives it a place for just these lines. */
#ifndef HN_WRAPPER_WORKSPACES_H
#define HN_WRAPPER_WORKSPACES_H

#include "wrapper/wrapper.h"

/* What a launch wants. */
typedef struct hn_workspace {
    hn_expr bytes; /* 0 id: none */
    hn_wzeroed zeroed;
} hn_workspace;

/* One that does for either of two launches, of which one runs, or one after the other: the larger
 * size, the stricter zeroing. */
hn_workspace hn_workspace_merge(hn_sym *sym, hn_workspace a, hn_workspace b);
/* The scratch memory of all groups of a call, on whatever target and in whatever variant. */
hn_workspace hn_workspace_of_groups(const hn_wrapper *w, const hn_line *line);
/* A buffer for it; 0 where nothing is wanted. */
hn_status hn_wrapper_add_workspace(hn_wrapper *w, hn_device_kind device, hn_workspace wanted,
                                   hn_wbuf *out) HN_MUST_USE;

/* The workspace that a line uses as operand k, or, behind the operands, for its groups; 0: none. */
hn_wbuf hn_line_workspace(const hn_wrapper *w, const hn_line *line, uint32_t k);

/* Workspaces are written by calls only, and used in one place each; lines in groups have theirs, of
 * enough bytes as far as that can be said before the sizes are known. */
hn_status hn_wrapper_workspaces_verify(const hn_wrapper *w, hn_arena *arena) HN_MUST_USE;

#endif
