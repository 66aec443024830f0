/* support.h: what the generated model.c is written with. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include "model.h"

#include "base/team.h"

#include <stdbool.h>

/* --- numbers: sizes, offsets and the like, worked out from the sizes of the inputs --- */

/* An overflow, a division by zero, or something that is not known yet. Whatever uses it is that
 * too. */
#define UNDEFINED INT64_MIN

static inline int64_t n_add(int64_t a, int64_t b) {
    int64_t r;
    return a == UNDEFINED || b == UNDEFINED || __builtin_add_overflow(a, b, &r) ? UNDEFINED : r;
}
static inline int64_t n_mul(int64_t a, int64_t b) {
    int64_t r;
    return a == UNDEFINED || b == UNDEFINED || __builtin_mul_overflow(a, b, &r) ? UNDEFINED : r;
}
static inline int64_t n_div(int64_t a, int64_t b) { /* towards minus infinity */
    if (a == UNDEFINED || b == UNDEFINED || b == 0) return UNDEFINED;
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t n_mod(int64_t a, int64_t b) { /* the sign is the divisor's */
    if (a == UNDEFINED || b == UNDEFINED || b == 0) return UNDEFINED;
    if (b == -1) return 0;
    int64_t r = a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t n_min(int64_t a, int64_t b) {
    return a == UNDEFINED || b == UNDEFINED ? UNDEFINED : a < b ? a : b;
}
static inline int64_t n_max(int64_t a, int64_t b) {
    return a == UNDEFINED || b == UNDEFINED ? UNDEFINED : a > b ? a : b;
}

/* A literal, or number `n` of the model when that is not 0. */
typedef struct dim {
    uint32_t n;
    int64_t value;
} dim;

/* --- the program's tables --- */

typedef struct symbol {
    const char *name, *text; /* "s0"; what the dimension must be: "2*s0 + 1" */
    int64_t low, high, coeff;
    int input, dimension; /* -1: the input is the number itself */
} symbol;

typedef struct input_facts {
    const dim *sizes, *strides;
    dim value;     /* of INT */
    uint64_t bits; /* of FLOAT and BOOLEAN: the recorded constant */
} input_facts;

typedef struct output_facts {
    int output;         /* number among the caller's outputs; -1: a mutation */
    uint8_t kind, type; /* model_kind, model_type */
    /* the content lies in an input or in a weight: a mutation may be about to change it */
    uint8_t in_place;
    uint8_t is_block; /* it lies in memory made for outputs */
    uint32_t rank;
    const dim *sizes, *strides;
    dim value;     /* of INT */
    uint64_t bits; /* of FLOAT and BOOLEAN */
    /* of a mutation: the input or the changing weight that it writes, else -1 */
    int target_input, target_own;
    int64_t target_offset;     /* bytes */
    const dim *target_strides; /* of target_own */
} output_facts;

/* A weight that the program changes: the model has a copy of its own. */
typedef struct own_facts {
    uint64_t offset, bytes; /* in the file */
} own_facts;

typedef struct program {
    uint64_t weights_bytes, weights_id;
    uint32_t inputs, outputs, numbers, blocks, slots, owns, externs;
    const input_facts *input;
    const output_facts *output; /* the outputs, then the mutations, in the order of the signature */
    const own_facts *own;
    const int *block_output; /* per block: the entry of `output` that lies at its start, or -1 */
    const int *state_output; /* per state: its entry */
    const char *const *features; /* of the CPU, that the kernels use; NULL at the end */
    /* numbers and memory that the inputs' sizes tell */
    int (*begin)(model *m, const model_array *inputs);
    int (*steps)(model *m);
    uint8_t *(*content)(model *m, uint32_t output); /* where an output lies after the steps */
    void (*externs_close)(model *m);                /* NULL without externs */
    const struct device_calls *device;              /* NULL: the host does everything ... */
    const struct device_places *places;             /* ... and has all memory */
    const struct debug_device_calls *debug_device;  /* NULL but with DEBUG=1 */
} program;
extern const program model_program;

/* --- a model --- */

typedef struct memory {
    uint8_t *bytes; /* 64-byte aligned */
    size_t size;
} memory;

struct model {
    char error[600];
    int threads; /* into how many parts work is cut */
    hn_team team;
    uint8_t *weights; /* content of the file, behind its head */
    void *map;
    size_t map_bytes; /* 0: `map` was read, not mapped */
    int64_t *numbers;
    uint8_t **inputs;     /* per input: as the program wants it laid out */
    int64_t *input_bytes; /* per input: the extent of that */
    memory *laid_out;     /* per input: a copy, when the caller's layout is another */
    uint8_t **blocks;     /* per block: where it is in this run */
    memory *own_blocks, *slots, *owns, *results, *staged; /* results and staged: per output_facts */
    const model_array *given; /* inputs of the call; NULL where they are not at hand */
    model_array *wanted;      /* outputs, likewise */
    memory workspace, scratch;
    struct externs *externs;
    uint64_t calls;      /* so far */
    struct debug *debug; /* debug.c */
    /* of a project for a device: */
    struct device *device;
    memory device_workspace, device_weights, *device_inputs; /* per input; its memory */
    memory *fetched; /* per output_facts: the content that the device had */
    uint8_t **homes; /* and where the host has it in this run */
    memory patch;    /* what the host changes in memory of the device */
    memory seen;     /* what debug.c looks at */
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (call) return 1;                                                                        \
    } while (0)

/* Sets the message; returns 1. */
int fail(model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* At least `bytes` bytes; the content is lost when it grows. */
int reserve(model *m, memory *memory, int64_t bytes);

/* --- used by `begin` --- */

/* A symbol from the dimension (or value) of its input: (dimension - rest) / coeff, exactly, within
 * its range. */
int solve(model *m, const symbol *s, const model_array *inputs, int64_t rest, int64_t *out);
/* All sizes of all inputs against the numbers. */
int check_inputs(model *m, const model_array *inputs);
int check_sizes(model *m, const uint32_t *numbers, uint32_t count); /* known and not negative */
enum { GUARD_EQ, GUARD_NE, GUARD_LT, GUARD_LE };
/* Memory for outputs: the caller's when the output lies in it as it should, else the model's. */
int take_block(model *m, uint32_t block, int64_t bytes);
/* Memory in which others lie: that of an input which the caller gives up, else the model's. */
int input_block(model *m, uint32_t block, uint32_t input, int64_t bytes);
/* A part of another block; of an output on the host, the caller's memory as in take_block. */
int share_block(model *m, uint32_t block, uint32_t pool, int64_t offset, int64_t bytes);
int guard(model *m, int relation, int64_t a, int64_t b, const char *text);

/* --- used by `steps` --- */

typedef int kernel(void *const *buffers, const long long *sizes, long long begin, long long end,
                   void *scratch);

/* Splits [0, extent) over the threads when each gets `grain` iterations or more. */
int kernel_run(model *m, kernel *run, void *const *buffers, const long long *params,
               uint32_t param_count, int64_t extent, int64_t grain, int64_t scratch_bytes,
               const char *where);
/* An element as a number. */
int64_t number_at(const void *element, model_type type);
/* Gives a symbol that depends on data its value. `*out_known`: it had this value already. */
int define(model *m, const symbol *s, int64_t value, int64_t *number, bool *out_known,
           const char *where);

enum { MAX_OPERANDS = 9 }; /* of an operation */

/* An operation of externs.c. Masks have a bit for each operand. */
typedef struct extern_facts {
    uint32_t index, kind, operands, params, constants;
    uint8_t types[MAX_OPERANDS]; /* model_type; 0: absent */
    const char *where;
    const char *form; /* that it is asked for; "": it decides by itself */
} extern_facts;

/* --- device.c: of a project for a GPU. Addresses of its memory are of no use to the host. --- */

/* What support.c asks of it. Copies go on when a function returns; `wait` and `read` wait for all
 * before. What the host has must stay until then. */
typedef struct device_calls {
    int (*open)(model *m); /* with the weights */
    void (*close)(model *m);
    int (*begin)(model *m); /* a run: the inputs go there */
    int (*wait)(model *m);  /* also tells which kernel has found an index out of bounds */
    void (*end)(model *m);
    int (*copy_in)(model *m, void *to, const void *from, int64_t bytes);
    int (*copy_out)(model *m, void *to, const void *from, int64_t bytes);
    int (*copy)(model *m, void *to, const void *from, int64_t bytes);
    int (*read)(model *m, void *to, const void *from, int64_t bytes);
} device_calls;
extern const device_calls device_cuda;

/* kernels.c: the machine code. */
typedef struct device_code {
    const char *name;
    const unsigned char *begin, *end;
} device_code;
extern const device_code device_codes[];

typedef struct device_kernel {
    const char *name;
    uint32_t code;
} device_kernel;

/* A weight that stays as it is. */
typedef struct device_storage {
    uint64_t offset, at, bytes; /* in the file; on the device */
} device_storage;

typedef struct device_places {
    const char *const *targets;   /* "sm_90a": what the code is for; NULL at the end */
    const device_kernel *kernels; /* of the first target, then of the next */
    uint32_t kernel_count;        /* of one target */
    uint32_t code_count, steps, operations;
    const device_storage *storages; /* without bytes at the end */
    uint64_t weights_bytes;         /* all of them together */
    /* whether the device has it: per input, block, slot, changing weight; the content of each
     * output behind the steps */
    const uint8_t *inputs, *blocks, *slots, *owns, *outputs;
} device_places;

typedef struct launch_facts {
    uint32_t step, kernel, args, params, threads, shared_bytes;
    const char *where;
} launch_facts;

/* As `reserve` and `take_block`, of the device's memory. */
int device_reserve(model *m, memory *memory, int64_t bytes);
int device_block(model *m, uint32_t block, int64_t bytes);
/* Waits for what may use it. */
int device_release(model *m, memory *memory);
/* Around calls of those below by others than model_run: the thread's context is the device's. */
int device_enter(model *m);
void device_leave(model *m);
/* That of the device's copy of an input. */
int device_input_block(model *m, uint32_t block, uint32_t input, int64_t bytes);
/* Which target's code is used. */
uint32_t device_target(const model *m);
/* What all of this is given to. */
struct hn_queue *device_queue(const model *m);
/* `scratch`: memory of the device for all groups; NULL: they want none. */
int device_launch(model *m, const launch_facts *facts, void *const *args, const long long *params,
                  int64_t groups, void *scratch);
/* By a library. `*out_for_kernel`: none does it, and a kernel is to be launched; NULL: there is no
 * such kernel. */
int device_operation(model *m, const extern_facts *facts, void *const *operands,
                     const int64_t *params, bool *out_for_kernel);
int device_wait(model *m);
int device_zero(model *m, void *to, int64_t bytes);
int device_copy_in(model *m, void *to, const void *from, int64_t bytes);
int device_copy_out(model *m, void *to, const void *from, int64_t bytes);
int device_copy(model *m, void *to, const void *from, int64_t bytes);
int device_read(model *m, void *to, const void *from, int64_t bytes);

/* --- debug.c: looking at tensors, in a project that is built with DEBUG=1 --- */

typedef struct debug_operand {
    uint32_t buffer;         /* its number in the program; 0: the call has no such operand */
    const char *name, *node; /* of an input, weight or output; of the node whose value it is; "" */
    uint32_t type, rank;
    bool is_written, is_partial;  /* is_partial: a later call writes to it, too */
    bool is_weight;               /* that no call changes */
    bool is_remote;               /* the device has it */
    dim dims[2 * MODEL_MAX_RANK]; /* sizes, then strides */
} debug_operand;

typedef struct debug_step {
    const char *name, *node, *source; /* node: the last one that it does */
    uint32_t number, first, operands; /* among the steps of the program; of debug_operands */
    uint32_t first_node, nodes;       /* of debug_nodes: all that it does */
    const char *kind;                 /* "kernel ", "extern "; of others the name says it */
    const char *form;                 /* of a step with several variants: this one's; "" */
    bool is_remote;                   /* the device runs it */
} debug_step;

/* Around each step: its number, and where the tensors of its operands begin. */
#ifdef MODEL_DEBUG
extern const debug_operand debug_operands[];
extern const debug_step debug_steps[];
extern const char *const debug_nodes[];
extern const uint32_t debug_inputs[]; /* the buffer of each input; 0: no call reads it */
extern const uint32_t debug_buffers;  /* numbers are below it */
int debug_begin(model *m, uint32_t step, void *const *data);
int debug_end(model *m, uint32_t step, void *const *data);
int debug_finish(model *m); /* behind the last step of a run that went well */
void debug_close(model *m);
extern const device_code debug_codes[]; /* of stats.cu: one per target */
extern const struct debug_device_calls debug_device_cuda;
#define STEP_BEGIN(step, ...)                                                                      \
    void *const debug_data[] = {__VA_ARGS__};                                                      \
    TRY(debug_begin(m, step, debug_data))
#define STEP_END(step) TRY(debug_end(m, step, debug_data))
#else
#define STEP_BEGIN(step, ...) (void)0
#define STEP_END(step)        (void)0
#define debug_finish(m)       0
#define debug_close(m)        (void)0
#endif

int extern_run(model *m, const extern_facts *facts, void *const *operands, const int64_t *params);
void externs_close(model *m);

#endif
