/* memory.h: the memory of a program that the interpreter runs. Internal to src/interp.
 *
 * By a plan: temporaries lie where the plan puts them, in one workspace for each device, in slots,
 * or with outputs in pools, which may be the memory of donated inputs: an input is gone when
 * something begins there. Whatever begins or ends its life is filled with a pattern first, so that
 * buffers that share bytes while both are alive spoil each other. Without a plan every buffer has
 * memory of its own. */
#ifndef HN_INTERP_MEMORY_H
#define HN_INTERP_MEMORY_H

#include "interp/reference.h"
#include "ir/interp_impl.h"

/* GIVEN: to another buffer, by REUSE; the line behind may still read it. */
typedef enum hn_imem_state {
    HN_IMEM_NONE,
    HN_IMEM_LIVE,
    HN_IMEM_GIVEN,
    HN_IMEM_FREED
} hn_imem_state;

typedef struct hn_imem_buffer {
    hn_imem_state state;
    hn_line_memory memory;
    bool is_own; /* to be freed */
} hn_imem_buffer;

typedef struct hn_imem {
    const hn_wrapper *w;
    const hn_memory_plan *plan; /* NULL: none */
    const hn_ref_bindings *at;
    bool has_lines;          /* the program has memory lines */
    hn_imem_buffer *buffers; /* per buffer */
    hn_line_memory workspaces[HN_DEVICE_KIND_COUNT], *slots;
    hn_line_memory *pools; /* per pool; empty where it is the memory of an input */
} hn_imem;

/* Sizes of inputs are bound in `at`, which is read later, too. Owns: memory, until hn_imem_deinit;
 * lists live in `arena`. Errors: those of the graph's storages; out-of-memory. */
hn_status hn_imem_init(hn_imem *m, const hn_wrapper *w, const hn_memory_plan *plan,
                       const hn_ref_bindings *at, hn_arena *arena) HN_MUST_USE;
void hn_imem_deinit(hn_imem *m);
/* The input's buffers get its elements, as the program expects them laid out. */
hn_status hn_imem_set_input(hn_imem *m, uint32_t input, const hn_ref_tensor *given) HN_MUST_USE;

/* ALLOCATE, FREE, REUSE. Errors: internal for what has memory already, or has none, and for places
 * outside of their workspace or pool. */
hn_status hn_imem_line(hn_imem *m, const hn_line *line) HN_MUST_USE;
/* A size that the data gives is known: memory in slots that waited for it begins. */
hn_status hn_imem_defined(hn_imem *m, hn_expr symbol) HN_MUST_USE;
/* The memory of a buffer, of a view that of its whole root; that of one in a program without memory
 * lines is made when it is first asked for. Errors: internal when it has none at this place. */
hn_status hn_imem_get(hn_imem *m, hn_wbuf b, hn_line_memory *out) HN_MUST_USE;
/* Every temporary was freed, but for those that outputs or copies of a device still use. */
hn_status hn_imem_check_freed(const hn_imem *m) HN_MUST_USE;

#endif
