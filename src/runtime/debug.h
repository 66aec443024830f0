/* debug.h: what the files of the debugger share: debug.c looks at steps, debug_options.c reads what
 * is wanted, debug_line.c says what was seen, debug_files.c saves it. Internal to src/runtime. */
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

struct hn_debug {
    struct hn_debug *next; /* of the module */
    hn_module *m;
    hn_debug_options options; /* strings: of `texts` */
    char *texts[4];           /* owned: kernels, nodes, arguments, path */
    pthread_mutex_t lock;     /* of all below */
    hn_debug_call *calls;     /* one per context */
    hn_debug_seen *weights;   /* per buffer */
    int line_fd;              /* where lines go; -1: nowhere */
    int manifest_fd;          /* -1: there is none */
    uint64_t saved, entries;  /* files, and entries of the manifest, so far */
    int64_t manifest_end;     /* where the next entry goes */
};

/* A tensor that is looked at. */
typedef struct hn_debug_tensor {
    uint64_t call;
    hn_debug_when when;
    const hn_step_info *step;
    const hn_step_operand *operand;
    hn_debug_seen *seen;
    const void *data; /* on the host; NULL: no elements, or not needed */
} hn_debug_tensor;

/* debug_options.c */
/* Reads the text of henry/debug.h into options whose strings lie in `storage`. Errors:
 * invalid-argument. */
hn_status hn_debug_options_parse(const char *text, hn_strbuf *storage,
                                 hn_debug_options *out) HN_MUST_USE;
/* Whether one of the patterns, separated by '|', matches the whole name. NULL matches all. */
bool hn_debug_matches(const char *patterns, const char *name);

/* Whether the patterns match a node that the step does. NULL matches all. */
bool hn_debug_matches_step(const char *patterns, const hn_step_info *step);

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
/* Saves a tensor that was not saved yet, and writes it down in the manifest. With d->lock held. */
hn_status hn_debug_files_save(hn_debug *d, const hn_debug_tensor *t) HN_MUST_USE;
void hn_debug_files_close(hn_debug *d);

#endif
