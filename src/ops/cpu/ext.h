/* ext.h: the operations that the runtime does itself: contractions, convolutions, attention, sort,
 * top-k.
 *
 * What a call means is henry/abi/extern_abi.h: its operands, and its parameters by position. An
 * implementation is one row of table.c: three functions for one kind. Its life:
 *
 *   prepare   once for each execution context and bound shape, before the first run with that shape
 *   run       once for each call of the module
 *   release   when the bound shape is dropped
 *
 * Whatever does not depend on the shape (packed weights, engines) goes into hn_ext_shared: one
 * object for each module, shared by its contexts and shapes.
 *
 * A run may still make such an object, once: weights are packed at their second use.
 *
 * Threads: calls of different contexts run at the same time in different threads, also for the same
 * constant operands. A single hn_ext_call is used by one thread at a time. Work is cut into
 * call->threads tasks or is one, and call->team runs them (base/team.h): they may run one after
 * another on the calling thread. */
#ifndef HN_OPS_CPU_EXT_H
#define HN_OPS_CPU_EXT_H

#include "base/file.h"
#include "base/team.h"
#include "henry/abi/extern_abi.h"
#include "henry/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HN_EXT_MAX_OPERANDS = 9 };

typedef struct hn_ext_shared hn_ext_shared;
typedef struct hn_ext_impl hn_ext_impl;

/* Bytes of an operand's buffer in front of its address, and from there on. */
typedef struct hn_ext_room {
    int64_t before, behind;
} hn_ext_room;

/* What a caller chooses about how a call is computed; of what is 0 the operation does what the
 * sizes suggest. Results differ by the order of sums. Which forms there are: forms.h. */
typedef struct hn_ext_form {
    /* MATMUL: skinny, gemm. CONV: product, collected, depthwise, winograd, rows, gather. ATTENTION:
     * few-queries, blocks. Of another device: library. NULL: any. Static */
    const char *kind;
    bool repacks; /* MATMUL: constant weights are packed in each call, not once for the module */
    enum {
        HN_EXT_ROWS_ANY,
        HN_EXT_ROWS_IN_PLACE,      /* gemm: a is read where it lies, */
        HN_EXT_ROWS_PACKED,        /* is packed by all threads together, */
        HN_EXT_ROWS_PACKED_BY_EACH /* or by each thread for itself */
    } rows;
    int64_t pass;  /* gemm: of k in one pass of the tiles, at most */
    int64_t block; /* skinny: columns of a task; blocks: keys */
    int tasks;     /* into how many work is cut at most */
    int candidate; /* library: which one of its heuristic's list, from 2 on; what it has first it
                      takes without being asked */
} hn_ext_form;

/* One bound extern call. The runtime fills everything but `state`, `scratch_bytes` and `impl`. */
typedef struct hn_ext_call {
    hn_extern_kind kind;
    uint8_t dtypes[HN_EXT_MAX_OPERANDS];   /* hn_scalar_type of henry/tensor.h; 0: operand absent */
    bool is_constant[HN_EXT_MAX_OPERANDS]; /* never changes while the module lives: may be packed */
    /* Operand addresses with offsets applied. In prepare: set for constants, NULL for all others.
     * In run: all set. Aligned to the element size at least. */
    void *operands[HN_EXT_MAX_OPERANDS];
    const int64_t *params; /* of extern_abi.h, as many as the kind has; valid until release */
    uint32_t param_count;
    bool knows_rooms; /* `rooms` is set, and hn_ext_prepare compares the operands with it */
    hn_ext_room rooms[HN_EXT_MAX_OPERANDS];
    /* of an operand whose address is not there yet: where its buffer begins in memory that is
     * aligned to 64 bytes */
    int64_t begins[HN_EXT_MAX_OPERANDS];
    int threads;             /* into how many tasks work is cut at most, 1 or more */
    hn_team *team;           /* that runs them; NULL: the calling thread alone */
    const hn_ext_form *form; /* NULL: as the operation decides. Read by prepare alone */
    hn_ext_shared *shared;   /* of the module */
    void *state;             /* the implementation's own: set by prepare, freed by release */
    size_t scratch_bytes;    /* set by prepare: memory that run wants; 0 for none */
    const hn_ext_impl *impl;
} hn_ext_call;

struct hn_ext_impl {
    const char *name; /* for traces and inspection: "reference", "gemm" */
    /* Errors: unsupported means "not this case": the runtime tries the reference. Others fail the
     * module's run. */
    hn_status (*prepare)(hn_ext_call *call);
    /* `scratch` is call->scratch_bytes bytes, 64-byte aligned, undefined content, NULL when 0.
     * Allocates nothing, but where only the run knows the sizes (gemm/grouped.c). */
    hn_status (*run)(const hn_ext_call *call, void *scratch);
    /* Frees `state`; called exactly once after a prepare that returned NULL. May be NULL. */
    void (*release)(hn_ext_call *call);
};

/* table.c: a row for each kind; [HN_EXTERN_NONE] is NULL. */
extern const hn_ext_impl *const hn_ext_impls[HN_EXTERN_KIND_COUNT];
/* reference.c: plain loops for every kind and dtype; the reference of the tests, and the last
 * resort.
 *
 * A source project has the files that the calls of its program can need (driver/source_parts.c).
 * For others HN_EXT_WITHOUT_<NAME> is defined, and the headers let the reference stand for what
 * those files define: where it is one of several ways, a row that takes no call. */
extern const hn_ext_impl hn_ext_reference;
extern const hn_ext_impl hn_ext_absent;

/* Number of operands and parameters of a kind (0 for an unknown one). A bound call always has
 * exactly these. */
uint32_t hn_ext_operand_count(hn_extern_kind kind);
uint32_t hn_ext_param_count(hn_extern_kind kind);

/* The call's parameters: sizes not negative, operands there and inside their rooms, dtypes known.
 * It reads no operand, so it is for calls of any device. */
hn_status hn_ext_check(const hn_ext_call *call) HN_MUST_USE;
/* "operation 'matmul'" in front of what went wrong. NULL stays NULL. */
hn_status hn_ext_annotate(const hn_ext_call *call, hn_status status);
/* Checks the call, then prepares it with the row of its kind, or with the reference when that says
 * unsupported. Errors: unsupported when the caller names a kind of form that the call cannot
 * have. */
hn_status hn_ext_prepare(hn_ext_call *call) HN_MUST_USE;
/* Into how many tasks the call may be cut. */
static inline int hn_ext_tasks(const hn_ext_call *call) {
    const int most = call->form ? call->form->tasks : 0;
    return most > 0 && most < call->threads ? most : call->threads;
}
static inline hn_status hn_ext_run(const hn_ext_call *call, void *scratch) {
    return call->impl->run(call, scratch);
}
void hn_ext_release(hn_ext_call *call);

/* For prepare: a copy of `state` becomes the state of the call. For release: the state is freed. */
hn_status hn_ext_state_keep(hn_ext_call *call, const void *state, size_t bytes) HN_MUST_USE;
void hn_ext_state_free(hn_ext_call *call);

/* ---- what all calls of a module share (shared.c) ---- */

hn_status hn_ext_shared_create(hn_ext_shared **out) HN_MUST_USE;
void hn_ext_shared_destroy(hn_ext_shared *shared); /* frees every entry; NULL is allowed */

/* An entry under construction: `make` fills it. */
typedef struct hn_ext_entry {
    void *value;
    void (*free_value)(void *value); /* NULL: nothing to free */
    size_t bytes;                    /* memory held, for the module's statistics */
} hn_ext_entry;

/* The entry with this key, made by `make` when it is not there yet. The key must hold all that the
 * content depends on: what kind of entry it is, the address of the constant, sizes, dtype,
 * blocking. Equal keys are made once; threads that want the same one wait for it. The value lives
 * until the module is released. */
hn_status hn_ext_shared_get(hn_ext_shared *shared, const void *key, size_t key_bytes,
                            hn_status (*make)(void *user, hn_ext_entry *out), void *user,
                            void **out_value) HN_MUST_USE;
size_t hn_ext_shared_bytes(hn_ext_shared *shared);

/* Names a mapped file that holds constants (at most two; before the first prepare), which outlives
 * `shared`. An empty map is none. */
void hn_ext_shared_add_file(hn_ext_shared *shared, const hn_file_map *map);
/* Bytes of a constant that are wanted once: read from the named file into `buffer` (returned),
 * which takes no pages into the process, or `bytes` itself when they are in no such file or the
 * file cannot be read. Threads: any. */
const void *hn_ext_shared_read(const hn_ext_shared *shared, const void *bytes, size_t len,
                               void *buffer);
/* This constant is hardly read from now on: its pages leave the process when a named file holds
 * them, and come back from the file when they are read after all. Constants in other memory
 * stay. */
void hn_ext_shared_drop(const hn_ext_shared *shared, const void *bytes, size_t len);

#endif
