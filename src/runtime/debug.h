/* debug.h: what the files of the debugger share. Internal to src/runtime.
 *
 *   debug.c          the hook, what is kept of a run, the life of a debugger
 *   debug_options.c  reads what is wanted, and compares steps and tensors with it
 *   debug_look.c     looks at a tensor
 *   debug_later.c    on a device, makes CHECK read many tensors' statistics at once
 *   debug_check.c    finds who is to blame for an element
 *   debug_line.c     what was seen, as text
 *   debug_say.c      gives it to the file and to the sink
 *   debug_files.c    saves tensors */
#ifndef HN_RUNTIME_DEBUG_H
#define HN_RUNTIME_DEBUG_H

#include "base/str.h"
#include "henry/debug.h"
#include "runtime/module_impl.h"

/* What was seen of the tensor in a buffer, which has not changed since. */
typedef struct hn_debug_seen {
    uint64_t mark; /* of a weight the id of its set, else the call; 0: nothing was seen */
    hn_tensor_stats stats;
    char *file; /* owned; NULL: it was not saved */
} hn_debug_seen;

/* What was seen in the present call of a context. */
typedef struct hn_debug_call {
    struct hn_debug_call *next;
    const hn_context *context;
    uint64_t call;
    hn_debug_seen *seen; /* per buffer */
} hn_debug_call;

/* Where a debugger writes. */
typedef struct hn_debug_out {
    pthread_mutex_t lock;    /* of the rest, and of what its debuggers have seen */
    int line_fd;             /* where lines go; -1: nowhere */
    int manifest_fd;         /* -1: there is none */
    uint64_t saved, entries; /* files, and entries of the manifest, so far */
    int64_t manifest_end;    /* where the next entry goes */
} hn_debug_out;

struct hn_debug {
    struct hn_debug *next; /* of the module */
    hn_module *m;
    hn_debug_options options; /* strings: of `texts` */
    char *texts[4];           /* owned: kernels, nodes, arguments, path */
    hn_debug_out *out;        /* own_out, or that of the debugger around it */
    hn_debug_out own_out;
    hn_debug_call *calls;   /* one per context. With out->lock held */
    hn_debug_seen *weights; /* per buffer. With out->lock held */
    hn_debug *of_weights;   /* looks at the program of weights; owned; NULL: there is none */
};

/* A tensor that is looked at. */
typedef struct hn_debug_tensor {
    uint64_t call;
    hn_debug_when when;
    const hn_step_info *step;
    const hn_step_operand *operand;
    hn_debug_seen *seen;
    hn_queue *queue;  /* of the device that has the tensor; NULL: the host can read it */
    const void *data; /* on the host; NULL: no elements, or not needed */
    void *own;        /* what `data` is, when it is a copy; owned */
} hn_debug_tensor;

/* A copy of what memory had before a step: on the device that has it, until the host needs it. */
typedef struct hn_debug_copy {
    void *host;      /* owned; NULL: there is none */
    void *remote;    /* owned; NULL: there is none */
    hn_queue *queue; /* of `remote` */
} hn_debug_copy;

/* debug_options.c */
/* Reads the text of henry/debug.h into options whose strings lie in `storage`. Errors:
 * invalid-argument. */
hn_status hn_debug_options_parse(const char *text, hn_strbuf *storage,
                                 hn_debug_options *out) HN_MUST_USE;
/* Whether one of the patterns, separated by '|', matches the whole name. NULL matches all. */
bool hn_debug_matches(const char *patterns, const char *name);

/* Whether the patterns match a node that the step does. NULL matches all. */
bool hn_debug_matches_step(const char *patterns, const hn_step_info *step);

/* Whether the numbers and patterns of the options are for the step, and for a tensor of it. */
bool hn_debug_wants_step(const hn_debug *d, const hn_step_info *step);
bool hn_debug_wants_tensor(const hn_debug *d, const hn_step_info *step, const hn_step_operand *o);

/* debug_look.c */
/* Looks at an operand of a step. `before`: what memory had before the step; NULL: all is to be
 * looked at. */
hn_status hn_debug_look(hn_debug *d, hn_debug_call *call, hn_debug_when when,
                        const hn_step_info *step, uint32_t k, hn_debug_copy *before) HN_MUST_USE;
/* Looks at the inputs of the model, before the first step. */
hn_status hn_debug_look_at_inputs(hn_debug *d, hn_debug_call *call,
                                  const hn_step_info *step) HN_MUST_USE;

/* debug_later.c */
/* Of CHECK: the device makes the statistics, and they are judged later. `*out_done` false: the
 * tensor has to be looked at now. Errors: of tensors before it. */
hn_status hn_debug_look_later(hn_debug *d, const hn_debug_tensor *t, bool *out_done) HN_MUST_USE;

/* debug_check.c */
bool hn_debug_has_bad(hn_scalar_type type); /* whether there are elements that CHECK looks for */
/* Whether hn_debug_check reads the elements of a tensor with these statistics. */
bool hn_debug_check_reads(const hn_debug *d, const hn_tensor_stats *stats, bool has_before);
/* The error of CHECK, when the tensor has an element that is the fault of the step. `before`: what
 * the memory had before the step; NULL: all elements count. */
hn_status hn_debug_check(const hn_debug *d, const hn_debug_tensor *t,
                         const void *before) HN_MUST_USE;

/* debug_say.c */
/* Says a line. Takes over `text`. With d->out->lock held, as the others. Errors: the sink's. */
hn_status hn_debug_say(hn_debug *d, hn_debug_event *event, hn_strbuf *text) HN_MUST_USE;
hn_status hn_debug_say_step(hn_debug *d, const hn_step_info *step) HN_MUST_USE;
hn_status hn_debug_say_tensor(hn_debug *d, const hn_debug_tensor *t) HN_MUST_USE;
/* That a tensor cannot be looked at, and why; the run goes on. Takes over `why`. */
hn_status hn_debug_say_trouble(hn_debug *d, const hn_debug_tensor *t, hn_status why) HN_MUST_USE;

/* debug_line.c */
/* "call 1 step 3 kernel k, nodes add mul, model.py:12" */
void hn_debug_print_step(const hn_step_info *step, hn_strbuf *out);
/* "b12 'x'" */
void hn_debug_print_name(const hn_step_operand *o, hn_strbuf *out);
void hn_debug_print_tensor(const hn_debug_tensor *t, bool has_stats, hn_strbuf *out);
void hn_debug_print_index(const hn_step_operand *o, int64_t index, hn_strbuf *out); /* "[0, 3]" */

/* debug_files.c */
/* Makes the folder of SAVE and its manifest, or opens the file that lines go to. `may_rename`: when
 * the folder is in use, "DIR.2" and so on are tried. */
hn_status hn_debug_files_open(hn_debug *d, bool may_rename) HN_MUST_USE;
/* Saves a tensor that was not saved yet, and writes it down in the manifest. With d->out->lock
 * held. */
hn_status hn_debug_files_save(hn_debug *d, const hn_debug_tensor *t) HN_MUST_USE;
void hn_debug_files_close(hn_debug *d);

#endif
