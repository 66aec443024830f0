/* wrapper.h: wrapper IR, the only product of lowering. Typed lines over buffers, symbols and
 * kernels; no raw strings. The compiler fills a hn_wrapper with buffers and call lines in execution
 * order; the memory planner adds the memory lines; printers turn it into a bundle program, text,
 * JSON or C.
 *
 * Owns: everything lives in the arena given to hn_wrapper_create. */
#ifndef HN_WRAPPER_WRAPPER_H
#define HN_WRAPPER_WRAPPER_H

#include "base/arena.h"
#include "base/device.h"
#include "base/limit.h"
#include "base/str.h"
#include "henry/abi/extern_abi.h"
#include "ir/graph.h"
#include "sym/choice.h"

typedef uint32_t hn_wbuf;    /* index into buffers; 0: none */
typedef uint32_t hn_wkernel; /* index into kernels; 0: none */

typedef enum hn_wbuf_kind {
    HN_WBUF_INPUT,    /* user input number `source` */
    HN_WBUF_CONSTANT, /* graph storage number `source` (graph.h), from `byte_offset` */
    HN_WBUF_TEMP,     /* made and freed inside the call */
    HN_WBUF_OUTPUT,   /* fresh memory that is handed to the caller */
    HN_WBUF_VIEW,     /* a tensor in the memory of buffer `root`, from a VIEW line on */
    HN_WBUF_WORKSPACE /* scratch memory of one call: workspaces.h */
} hn_wbuf_kind;
enum { HN_WBUF_KIND_COUNT = HN_WBUF_WORKSPACE + 1 };

/* When a workspace is filled with zeros. A later one does for whoever wants an earlier one. */
typedef enum hn_wzeroed {
    HN_WZEROED_NEVER, /* its content is undefined */
    /* in front of the first line of a run. Calls leave zeros behind, and nothing else lies there */
    HN_WZEROED_ONCE,
    HN_WZEROED_EACH /* in front of each line that uses it */
} hn_wzeroed;
enum { HN_WZEROED_COUNT = HN_WZEROED_EACH + 1 };

/* Memory, and the tensor in it, whose first element is at the beginning. A size that turns out to
 * be 0 or less when the program runs means no elements. */
typedef struct hn_wbuffer {
    hn_wbuf_kind kind;
    hn_dtype dtype;
    hn_device_kind device;
    uint32_t rank;
    const hn_expr *sizes, *strides; /* elements; NULL for rank 0 only */
    uint32_t source;
    uint64_t byte_offset; /* of CONSTANT */
    hn_expr bytes;        /* storage size of TEMP, OUTPUT and WORKSPACE */
    hn_wzeroed zeroed;    /* of WORKSPACE */
    hn_wbuf root;         /* of VIEW: no view itself; 0: no line has said it */
    hn_expr offset_elems; /* of VIEW, of its own dtype; 0: it begins where the root does */
    hn_str name;
    /* of TEMP and OUTPUT: the node of the model whose value it holds, or ""; for debuggers only, no
     * part of the text form */
    hn_str node;
} hn_wbuffer;

/* A generated kernel: one function of one compiled object. */
typedef struct hn_wkernel_info {
    hn_str name;     /* symbol in the object */
    uint32_t object; /* which compiled object: index given by the driver */
    /* The function for each target but the first, for which the fields above stand; NULL when there
     * is only that. Printers for people leave them out. */
    const struct hn_wkernel_info *others;
} hn_wkernel_info;

/* How a KERNEL line calls a function: for one target, in one of its variants. */
typedef struct hn_wlaunch {
    uint32_t arg_count;
    const uint32_t *order; /* argument k of the function is operand order[k] of the line; NULL: k */
    hn_str form;           /* how the function goes about it, for people: "rows"; "": not known */
    uint32_t param_count;
    const hn_expr *params;
    hn_expr extent;
    int64_t grain;
    uint32_t threads, shared_bytes;
    hn_expr scratch_bytes;
} hn_wlaunch;

/* Another way to do what a KERNEL line does. */
typedef struct hn_wvariant {
    hn_wkernel kernel;
    const hn_wlaunch *launches; /* for each target, the first one too */
} hn_wvariant;

typedef enum hn_line_kind {
    HN_LINE_COMMENT,
    HN_LINE_ALLOCATE, /* buffer */
    /* buffer takes the memory of `from`, which the line that follows may read for the last time */
    HN_LINE_REUSE,
    HN_LINE_FREE,   /* buffer */
    HN_LINE_VIEW,   /* buffer, a view, is a part of `from` or the same bytes as another type */
    HN_LINE_KERNEL, /* kernel call */
    HN_LINE_EXTERN, /* extern call */
    /* bytes of `from` into buffer; between the memories of a device and the host, too */
    HN_LINE_COPY,
    HN_LINE_ZERO,   /* buffer, a workspace, is filled with zeros */
    HN_LINE_WAIT,   /* the host waits until `device` has done all lines before */
    HN_LINE_ASSERT, /* operand 0 is a bool tensor of one element; message */
    /* operand 0 is a tensor of one whole number or bool: the value of `symbol` from here on */
    HN_LINE_DEFINE,
    /* operand 0 is the predicate; bodies then/otherwise are line ranges; see body fields */
    HN_LINE_COND,
    /* the lines of the body, `rounds` times; or, without rounds, the lines of the test, then those
     * of the body, until operand 0 is false behind the test */
    HN_LINE_LOOP
} hn_line_kind;

typedef struct hn_woperand {
    hn_wbuf buffer; /* 0: absent */
    hn_dtype dtype;
    hn_expr offset_elems; /* 0 (invalid id) means no offset */
    bool written;
    /* of a KERNEL's written operand, bit k: each byte is written after the last read of the same
     * byte of operand over_first + k, by any thread, so both may have the same memory */
    uint64_t over;
    uint32_t over_first; /* in a kernel of several segments: where its own begins */
} hn_woperand;

/* Whether the operand may lie where operand `k` of its line does. */
static inline bool hn_woperand_is_over(const hn_woperand *o, uint32_t k) {
    return k >= o->over_first && k - o->over_first < 64 && o->over >> (k - o->over_first) & 1;
}

/* What a KERNEL or EXTERN line is to compute, in loop IR. */
typedef struct hn_wmeaning {
    const struct hn_program *program;
    const struct hn_kernel *kernel; /* the loops of its group; NULL: it is a call, */
    const struct hn_extern *call;   /* this one, */
    /* of whose kernels the line is number `number`, where the call is several */
    uint32_t number, count;
    const uint32_t *buffers; /* per operand of the line: the program's buffer; 0: none */
} hn_wmeaning;

/* What a KERNEL or EXTERN line is made of (kernel/record.h), for tools and people. */
typedef struct hn_wrecord {
    const struct hn_work_record *work;
    const struct hn_form_record *const *forms; /* per target; NULL: Henry has not written it */
    uint32_t part; /* of a call that is several kernels: which; `work` is that of the first one */
} hn_wrecord;

/* An index that a kernel reads from memory and checks. */
typedef struct hn_wcheck {
    /* of the line: where the indices are; UINT32_MAX: they are computed in the kernel */
    uint32_t operand;
    hn_expr extent;  /* valid are 0 to extent - 1, */
    bool wraps;      /* and with this -extent to -1 as well */
    uint32_t origin; /* the node whose index it is */
} hn_wcheck;

typedef struct hn_line {
    hn_line_kind kind;
    hn_device_kind device; /* KERNEL, EXTERN: where it runs; WAIT. Of others see hn_line_device */
    hn_wbuf buffer, from;
    hn_str text;     /* COMMENT, ASSERT message, or a label for traces */
    uint32_t origin; /* hn_graph.origins index of the graph */
    /* COMMENT: the nodes that the lines up to the next one do; KERNEL, EXTERN: those that it does,
     * where they are not `origin` alone. Ascending */
    uint32_t origin_count;
    const uint32_t *origins;
    /* KERNEL and EXTERN */
    hn_wkernel kernel; /* EXTERN: does the call where the device's library does not; 0: none */
    hn_extern_kind extern_kind;
    uint32_t operand_count;
    const hn_woperand *operands;
    /* KERNEL: size values passed; EXTERN: parameters of extern_abi.h */
    uint32_t param_count;
    const hn_expr *params;
    /* KERNEL: parallel iterations, or groups of threads; this and what follows also of an EXTERN
     * with a kernel */
    hn_expr extent;
    /* KERNEL: fewest iterations worth a thread of their own; 0: never split */
    int64_t grain;
    uint32_t threads;      /* KERNEL: of a group; 0 on the CPU */
    uint32_t shared_bytes; /* KERNEL: dynamic shared memory of a group */
    hn_expr scratch_bytes; /* KERNEL: per thread, or per group; 0 id: none */
    /* KERNEL in groups: the WORKSPACE that has the scratch memory of all of them, on every target.
     * 0: none. Threads of the CPU have memory of their own, which is no part of a program */
    hn_wbuf workspace;
    /* KERNEL: for each target but the first; NULL when there is only that */
    const hn_wlaunch *others;
    /* KERNEL: as in hn_wlaunch; EXTERN on the CPU: the form that the call is to have
     * (ops/cpu/forms.h), empty: the operation decides */
    hn_str form;
    /* KERNEL that does not take all operands, in order: what its function takes, as in hn_wlaunch;
     * other variants take the rest. NULL: it does */
    uint32_t arg_count;
    const uint32_t *order;
    /* KERNEL, EXTERN: the line itself is variant 0; these are 1, 2, ... (variants.h). All compute
     * the same. Which one runs is said, for each target, by a table over sizes; NULL when a KERNEL
     * has only one, or an EXTERN has no form. Those of an EXTERN have nothing but forms */
    uint32_t variant_count;
    const hn_wvariant *variants;
    const hn_sym_choice *choices;
    uint32_t check_count; /* KERNEL: for messages only, no part of the text form */
    const hn_wcheck *checks;
    /* KERNEL and EXTERN of lowering: for references (src/interp), no part of any printed form;
     * NULL: not known */
    const hn_wmeaning *meaning;
    const hn_wrecord *record; /* likewise; NULL: there is none */
    hn_expr symbol;           /* DEFINE: a DATA symbol */
    hn_expr rounds;           /* LOOP: 0 or less is none; 0 id: as often as the test says so */
    /* COND: the lines of the two bodies follow this line directly; LOOP: those of the test (none
     * with rounds), then those of the body */
    uint32_t then_count, otherwise_count;
} hn_line;

/* A user input as the program expects it. */
typedef struct hn_winput {
    hn_str name;
    hn_dtype dtype;
    uint32_t rank;
    const hn_expr *sizes, *strides; /* strides never NULL here */
    bool is_scalar;                 /* a Python constant in the signature: checked, not used */
    /* the caller may give its memory up: behind its last use, others may lie there */
    bool is_donated;
    hn_arg scalar;
    hn_wbuf buffer;
} hn_winput;

typedef enum hn_woutput_kind {
    HN_WOUTPUT_TENSOR,
    HN_WOUTPUT_MUTATION,
    HN_WOUTPUT_SCALAR
} hn_woutput_kind;

typedef struct hn_woutput {
    hn_woutput_kind kind;
    hn_str name; /* of MUTATION: the target's name */
    /* may be an INPUT, CONSTANT or shared OUTPUT buffer: then it is copied for the caller. What
     * begins inside a buffer is a view of it */
    hn_wbuf buffer;
    hn_dtype dtype;
    uint32_t rank;
    const hn_expr *sizes, *strides;
    int32_t target_input; /* of MUTATION: user input index, or -1 for a buffer or parameter */
    hn_arg scalar;        /* of SCALAR: INT (an expression), FLOAT, BOOL, STRING or NONE */
} hn_woutput;

typedef struct hn_wrapper {
    hn_arena *arena;
    hn_sym *sym;
    const hn_graph *graph; /* for storages, origins; borrowed */
    hn_limit *limit;       /* of rewrites of lines and memory; NULL: all. No part of the program */
    uint32_t target_count; /* for each a function of every kernel: one more than `others` has */
    struct {
        hn_wbuffer *items;
        uint32_t count, cap;
    } buffers; /* [0] unused */
    struct {
        hn_wkernel_info *items;
        uint32_t count, cap;
    } kernels; /* [0] unused */
    struct {
        hn_line *items;
        uint32_t count, cap;
    } lines;
    struct {
        hn_winput *items;
        uint32_t count, cap;
    } inputs;
    struct {
        hn_woutput *items;
        uint32_t count, cap;
    } outputs;
} hn_wrapper;

hn_status hn_wrapper_create(hn_arena *arena, hn_sym *sym, const hn_graph *graph,
                            hn_wrapper **out) HN_MUST_USE;
hn_status hn_wrapper_add_buffer(hn_wrapper *w, hn_wbuffer buffer, hn_wbuf *out) HN_MUST_USE;
hn_status hn_wrapper_add_kernel(hn_wrapper *w, hn_wkernel_info kernel, hn_wkernel *out) HN_MUST_USE;
/* Lists of operands, parameters and nodes are copied. */
hn_status hn_wrapper_add_line(hn_wrapper *w, hn_line line) HN_MUST_USE;

/* How a line calls the function of a target in one of its variants; hn_line_kernel has the
 * function. Where the line has one target only, all of them are this one. Lists are the line's. */
hn_wlaunch hn_line_launch(const hn_line *line, uint32_t variant, uint32_t target);
static inline uint32_t hn_line_variants(const hn_line *line) { return 1 + line->variant_count; }
static inline hn_wkernel hn_line_kernel(const hn_line *line, uint32_t variant) {
    return variant ? line->variants[variant - 1].kernel : line->kernel;
}
/* Argument k of a function is this operand of the line. */
static inline uint32_t hn_wlaunch_operand(const hn_wlaunch *l, uint32_t k) {
    return l->order ? l->order[k] : k;
}

/* The buffer whose memory `b` is in: itself, unless it is a view. */
static inline hn_wbuf hn_wrapper_root(const hn_wrapper *w, hn_wbuf b) {
    return b < w->buffers.count && w->buffers.items[b].kind == HN_WBUF_VIEW
               ? w->buffers.items[b].root
               : b;
}
/* Where in the memory of its root a buffer begins, and there a place `offset_elems` (0: none)
 * behind it: in elements of `dtype`; 0: at the beginning. The verifier has seen that these are
 * whole. */
hn_expr hn_wrapper_offset(const hn_wrapper *w, hn_wbuf b, hn_dtype dtype, hn_expr offset_elems);
static inline hn_expr hn_woutput_offset(const hn_wrapper *w, const hn_woutput *o) {
    return hn_wrapper_offset(w, o->buffer, o->dtype, 0);
}
static inline hn_expr hn_woperand_offset(const hn_wrapper *w, const hn_woperand *o) {
    return hn_wrapper_offset(w, o->buffer, o->dtype, o->offset_elems);
}

/* Whether the memory of such a buffer begins and ends inside a run, and is nobody else's. */
static inline bool hn_wbuf_is_inner(hn_wbuf_kind kind) {
    return kind == HN_WBUF_TEMP || kind == HN_WBUF_WORKSPACE;
}

/* Whether the lines behind a line are its bodies. */
static inline bool hn_line_has_bodies(hn_line_kind kind) {
    return kind == HN_LINE_COND || kind == HN_LINE_LOOP;
}
/* The grain of a kernel's line in a printed program: 0 stands for a call that is never split. */
static inline int64_t hn_line_grain(int64_t grain) { return grain > 0 ? grain : INT64_MAX; }
/* Where a line that is a step runs: of ASSERT, DEFINE and COND it is the device that has the
 * operand, of ZERO the one that has the buffer, of COPY that of the two that is not the host. */
hn_device_kind hn_line_device(const hn_wrapper *w, const hn_line *line);
/* Whether a line does something when the program runs. Of memory lines the plan has said it all. */
bool hn_line_is_step(hn_line_kind kind);
/* How many of the lines [first, first + count) are steps. */
uint32_t hn_wrapper_count_steps(const hn_wrapper *w, uint32_t first, uint32_t count);
/* The origin in the graph; 0, the empty one, when the graph does not have it. */
uint32_t hn_wrapper_origin(const hn_wrapper *w, uint32_t origin);
/* All nodes that a line does: its list, or `origin` where it has none. */
const uint32_t *hn_line_origins(const hn_line *line, uint32_t *out_count);

/* Every use after a definition, of buffers and of DATA symbols; every buffer known, no use after
 * free, line kinds and operand counts right. Of each buffer: the device is known, an input's buffer
 * has its dtype, sizes and strides, and no tensor provably reaches beyond its memory. Of devices:
 * see verify_devices.h. */
hn_status hn_wrapper_verify(const hn_wrapper *w) HN_MUST_USE;

/* Gives lines that run on the host memory of the host, and writes the COPY and WAIT lines for it:
 * see host_memory.c. Right behind the lowering, whose buffers are all on the device of the
 * kernels. */
hn_status hn_wrapper_host_memory(hn_wrapper *w) HN_MUST_USE;

/* Writes the REUSE lines: a kernel's result takes the memory of a temporary of the same size that
 * the kernel is the last to read, where `over` allows it. Before the plan. See reuse.c. */
hn_status hn_wrapper_reuse(hn_wrapper *w) HN_MUST_USE;

/* What shares memory with what. Numbers are part of the key of programs. */
typedef enum hn_pool_mode {
    HN_POOL_INTERMEDIATES = 0, /* temporaries; each output has memory of its own */
    HN_POOL_NONE = 1,          /* nothing: no two temporaries ever have the same bytes */
    HN_POOL_OUTPUTS = 2,       /* temporaries; and outputs, one behind the other, in another pool */
    HN_POOL_COMBINED = 3       /* temporaries and outputs in one pool, which goes to the caller */
} hn_pool_mode;

typedef struct hn_plan_options {
    hn_pool_mode pool;
} hn_plan_options;

/* Memory in which outputs, and maybe temporaries, of one device lie. It lives until the last of the
 * outputs in it is released. */
typedef struct hn_wpool {
    hn_device_kind device;
    hn_wbuf input; /* that the caller may give up: then this is its memory; 0: fresh memory */
    hn_expr bytes;
} hn_wpool;

/* The memory plan: each TEMP buffer's place in the workspace of its device. Exact lifetimes from
 * first to last line that mentions it; best fit by offset; sizes symbolic in general, planned at
 * the hints and emitted so that any sizes are safe (equal-size-expression buffers share slots;
 * others are separate when not provably ordered). Temporaries whose size depends on a DATA symbol
 * are reserved at their upper bound when that is small; the others get slots, memory of their own
 * that grows when the size becomes known. */
typedef struct hn_memory_plan {
    /* per buffer: byte offset in the workspace or the pool; 0 id for others; 64-byte aligned */
    hn_expr *offsets;
    /* per buffer: 1 + the pool that a TEMP or OUTPUT lies in; 0: the workspace of its device, or
     * memory of its own */
    uint32_t *pools;
    struct {
        hn_wpool *items;
        uint32_t count, cap;
    } pool_list;
    /* per buffer: 1 + the slot of a temporary whose size only the data tells; 0: none */
    uint32_t *slots;
    uint32_t slot_count;
    hn_expr workspaces[HN_DEVICE_KIND_COUNT]; /* bytes */
    /* lower bound of what hn_memory_plan_bytes gives: for each workspace and pool the largest sum
     * of bytes live at one line (at hints for symbolic), added up */
    hn_expr live_bound_bytes;
} hn_memory_plan;
/* Also writes the ALLOCATE and FREE lines (REUSE lines that are there already are kept: both
 * buffers share memory), and makes OUTPUT buffers that only feed mutations temporaries. With
 * HN_POOL_NONE there must be no REUSE line. */
hn_status hn_wrapper_plan_with(hn_wrapper *w, const hn_plan_options *options,
                               hn_memory_plan *out) HN_MUST_USE;
/* The same with default options. */
hn_status hn_wrapper_plan(hn_wrapper *w, hn_memory_plan *out) HN_MUST_USE;
/* Bytes of all workspaces and pools that are not the caller's inputs, at the hints. */
int64_t hn_memory_plan_bytes(const hn_wrapper *w, const hn_memory_plan *plan);
/* No two buffers that are alive together share bytes, all lie in their workspace or pool, and what
 * lies in an input's memory begins behind its last use, at the hints and at some other values of
 * the symbols. Quadratic in the number of temporaries: for tests and
 * debugging. */
hn_status hn_wrapper_plan_verify(const hn_wrapper *w, const hn_memory_plan *plan) HN_MUST_USE;

void hn_wrapper_print(const hn_wrapper *w, hn_strbuf *out); /* text form */
hn_status hn_wrapper_parse(hn_arena *arena, hn_sym *sym, hn_str text, hn_wrapper **out) HN_MUST_USE;
void hn_wrapper_print_json(const hn_wrapper *w, hn_strbuf *out);

#endif
