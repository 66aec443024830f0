/* codegen.h: kernels as source text, and the targets that they can be written for.
 *
 * A target is one row: what the planner and the printer need to know of it, how its text is
 * compiled, and what comes out. The driver knows targets through this table only; a level of CPUs
 * is a row as the architecture of a GPU will be. Kernel text is canonical: buffers, sizes and
 * variables are named by position, so equal kernels are equal bytes and are compiled once. */
#ifndef HN_CODEGEN_CODEGEN_H
#define HN_CODEGEN_CODEGEN_H

#include "base/device.h"
#include "base/hash.h"
#include "kernel/facts.h"
#include "kernel/form.h"
#include "kernel/record.h"
#include "sched/sched.h"
#include "sym/choice.h"

/* A printed kernel, and how it is called. */
typedef struct hn_kernel_code {
    hn_digest digest; /* of `text` */
    char name[24];    /* the function's name, from the digest */
    hn_str text;      /* the function; "KERNEL" stands for the name, everywhere */
    uint32_t buffer_count, size_count;
    const hn_buf *buffers;  /* arguments, in order */
    const hn_expr *offsets; /* per argument: how many elements into the buffer it points; 0: none */
    const bool *written;    /* per buffer */
    const uint64_t *over;   /* per buffer that is written: bit k: it may lie where argument k lies,
                               see kernel/cpu_in_place.c */
    /* of each segment, where there are several: `over` counts from the first one of its own; 0:
     * there are none */
    uint32_t segment_arguments;
    const hn_expr *sizes;  /* size symbols, in order; of segments what walk.h says */
    hn_expr extent;        /* parallel iterations, or groups */
    int64_t grain;         /* fewest iterations worth a thread */
    uint32_t threads;      /* of a group; 0: the kernel takes a range of iterations */
    uint32_t shared_bytes; /* of a group, which the launch adds to those that the text declares */
    hn_expr scratch_bytes; /* per thread, or per group; 0: none */
    uint32_t object;       /* that it was compiled into */
    /* Of an operation, which may be several kernels: the one that is launched behind this one;
     * NULL: this is the last one. */
    struct hn_kernel_code *next;
    /* Memory for what they leave to each other, of undefined content before the first one. It is
     * the last of `buffers`, where it is 0, of those that want it. The same in all; 0: none. */
    hn_expr workspace_bytes;
    hn_form_record record; /* of its form; zeros of an operation */
    const char *form;      /* what tells it from other forms of the kernel; NULL: its shape */
    /* Kernels of other forms that do the same, of a kernel of the schedule: `choice`, of one
     * variant more, says at which sizes which of them runs. 0: this one does at all sizes. Of a
     * call of an operation they are the forms that it is asked for, without a text; a kernel of it
     * is the same in all. */
    uint32_t variant_count;
    struct hn_kernel_code *variants;
    const hn_sym_choice *choice;
    /* records of tuning say that it is in this form, not the model of costs; its variants, too */
    bool is_picked;
    bool is_forced;  /* the user says that it is in this form */
    hn_digest tuned; /* what records know the kernel by */
} hn_kernel_code;

/* Sets `text`, and the digest and the name that follow from it. `text` ends with a NUL that is not
 * counted. */
void hn_kernel_code_name(hn_kernel_code *code, hn_str text);
/* The text with its name. */
void hn_kernel_code_put(const hn_kernel_code *code, hn_strbuf *out);

typedef struct hn_target hn_target;
typedef struct hn_language hn_language; /* codegen/walk.h */

/* How a kernel is called, and what it gets. */
typedef enum hn_kernel_abi {
    HN_ABI_RANGE, /* henry/abi/kernel_abi.h: a call takes a range of the iterations [0, extent) */
    HN_ABI_GROUPS /* a launch of `extent` groups of `threads` threads: the README of the language's
                     folder */
} hn_kernel_abi;

/* What all targets of one language and one kind of device share. */
typedef struct hn_target_kind {
    const char *language; /* of the compile service */
    const char *const
        *flags; /* of every unit, NULL at the end; the target's own come behind them */
    hn_kernel_abi abi;
    hn_device_kind device; /* that runs the kernels; bundles have its kind of objects */
    /* Translation units are closed when their kernels' text has this many bytes: a compiler run has
     * a fixed cost, and units compile side by side. It does not depend on the machine, so that a
     * model gives the same bytes everywhere. */
    size_t unit_bytes;
    /* What the scheduler knows: those of the facts, which all targets of a kind have in common. */
    const hn_sched_limits *limits;
    /* The forms of a kernel that are expected to be the fastest: at most `most` of them, the best
     * first. Owns: the forms live in `arena`. */
    hn_status (*plan)(const hn_program *program, const hn_kernel *kernel, const hn_target *target,
                      uint32_t most, hn_arena *arena, hn_arena *scratch, hn_form **out,
                      uint32_t *out_count);
    /* A kernel that does a call of an operation as `limits` say that the device has it, for where
     * its library does not: arguments are the operands and the parameters of the call. Or several
     * (`next`), of an operation that no library has: arguments are what each wants of the operands
     * and sizes. Without `text` there is none. NULL: none of any operation. Owns: lists and text in
     * `arena`. */
    hn_status (*operation)(const hn_program *program, const hn_extern *call, hn_arena *arena,
                           hn_kernel_code *out);
    const hn_language *words; /* how forms are written */
    /* One translation unit of several kernels. */
    hn_status (*unit)(const hn_kernel_code *const *kernels, uint32_t count, const hn_target *target,
                      hn_strbuf *out);
} hn_target_kind;

struct hn_target {
    const hn_target_kind *kind;
    const char *name;  /* "x86-64-v3" */
    const char *flags; /* of the compiler, with blanks between: "-mavx2 -mfma" */
    /* What the compile service is told to compile for, and the name of the image in its artefact;
     * NULL: the flags say it, and the artefact is the object. */
    const char *architecture;
    /* What the planner knows of the processor: one of the two. */
    const hn_cpu_facts *cpu;
    const hn_gpu_facts *gpu;
    uint32_t device; /* number of the GPU of this machine that it was named by; else 0 */
    uint32_t
        rank; /* of two targets that a machine can run, the one with the higher rank is better */
    /* of CPUs */
    uint16_t machine;      /* base/cpu.h */
    const char *ops;       /* the variant of ops/cpu/kernels_*.c that fits: "avx2" */
    uint32_t vector_bytes; /* 16, 32 or 64 */
};

/* A kernel as text, in the form that is expected to be the fastest. Owns: lists and text in
 * `arena`. Errors: unsupported when the language has no text for an op and dtype. */
hn_status hn_target_print(const hn_target *target, const hn_program *program,
                          const hn_kernel *kernel, hn_arena *arena, hn_arena *scratch,
                          hn_kernel_code *out) HN_MUST_USE;
/* A form as it is, likewise. */
hn_status hn_target_print_form(const hn_target *target, const hn_form *form, hn_arena *arena,
                               hn_arena *scratch, hn_kernel_code *out) HN_MUST_USE;

/* What this machine's CPUID shows. */
hn_target hn_target_host(void);
/* By name, or of a CPU by what base/cpu.h takes; "cuda", "cuda:1": what is best for this NVIDIA GPU
 * of the machine. Errors: invalid-argument, listing the names; of "cuda" those of base/cuda.h. */
hn_status hn_target_named(hn_str name, hn_target *out) HN_MUST_USE;
/* The names of those for a kind of device that is no CPU: "sm_80, sm_86, compute_80". */
void hn_target_put_names(hn_device_kind device, hn_strbuf *out);
/* Whose threads the scheduler has to keep busy: multiprocessors, or those that the caller has. */
uint32_t hn_target_threads(const hn_target *target, uint32_t of_caller);
/* All flags of the compiler, with blanks between. */
void hn_target_put_flags(const hn_target *target, hn_strbuf *out);
/* What a machine must have to run the target's code, each name closed by a NUL: "avx2\0fma\0". */
void hn_target_features(const hn_target *target, hn_strbuf *out);

#endif
