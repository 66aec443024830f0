/* forms.h: the forms of a kernel of the schedule beside each other on this machine: what they have
 * in common as a subject of the benchmarker (henry/bench.h), how each is called, and their race. */
#ifndef HN_DRIVER_FORMS_H
#define HN_DRIVER_FORMS_H

#include "driver/driver.h"
#include "henry/bench.h"
#include "ir/loop_interp.h"

/* A result that lies over what the kernel reads (hn_kernel_code.over), where the program has it
 * so. */
typedef struct hn_forms_over {
    hn_buf result, over;
} hn_forms_over;

typedef struct hn_forms_subject {
    hn_bench_subject face;
    const hn_program *program;
    const hn_kernel *kernel;
    hn_ref_sizes sizes;
    hn_buf *buffers;    /* per argument; 0: the workspace of an operation of several kernels */
    int64_t *arg_bytes; /* per argument: from element 0 to behind the last one */
    hn_line line;       /* what the kernel is to compute, for its reference */
} hn_forms_subject;

/* What `count` printed forms of a kernel have in common, for one set of sizes. Device, threads and
 * caches are the caller's to set in `face`. The reference takes small sizes. Owns: lists live in
 * `arena`; `sizes`, the program and the kernel are borrowed. Errors: unsupported when a size is
 * known only as the program runs. */
hn_status hn_forms_subject_init(const hn_program *program, const hn_kernel *kernel,
                                const hn_ref_sizes *sizes, const hn_kernel_code *codes,
                                uint32_t count, hn_arena *arena, hn_forms_subject *out) HN_MUST_USE;
/* The result and what it lies over become one memory. Errors: invalid-argument when one of them is
 * none of the subject's. */
hn_status hn_forms_subject_share(hn_forms_subject *s, hn_forms_over over) HN_MUST_USE;
/* How a form is called for these sizes: all but its code. */
hn_status hn_forms_launch(const hn_forms_subject *s, const hn_kernel_code *code, hn_arena *arena,
                          hn_bench_launch *out) HN_MUST_USE;

typedef struct hn_forms_options {
    hn_ref_sizes sizes;
    const hn_form *const *forms; /* the one that is expected to be the fastest in front */
    uint32_t count;
    const hn_forms_over *overs; /* those that one of the forms does not allow are left out */
    uint32_t over_count;
    hn_device device; /* that has the target */
    int threads;      /* as in hn_bench_subject, as is `is_cold` */
    bool is_cold;
    const hn_bench_options *bench; /* may be NULL */
    /* In place of compiling forms and calling them: how long a call of form number `form` takes. An
     * error takes it out of the race. NULL: forms are timed */
    hn_status (*call_ns)(void *user, uint32_t form, double *out_ns);
    void *call_user;
} hn_forms_options;

/* A race on its way: its forms are printed, and with the compilers. */
typedef struct hn_forms_race hn_forms_race;

/* Prints the forms and submits each to the scope of the driver; with one form nothing is submitted.
 * Owns: `*out` lives in the arena of the driver, and borrows the options' lists; hn_forms_race_end.
 * Errors: as hn_forms_subject_init; those of printing. */
hn_status hn_forms_race_begin(hn_driver *d, const hn_target *target, const hn_kernel *kernel,
                              const hn_forms_options *options, hn_forms_race **out) HN_MUST_USE;
/* Waits for the compilers of this race. Whether they succeeded is told by the race. */
void hn_forms_race_wait(hn_forms_race *race);
/* Lets the forms race. `bench` may be NULL. Results have the forms' numbers and shapes as names: "0
 * rows". A form that the compiler refuses is out of the race. With one form nothing is run. Owns:
 * the caller destroys the report. Errors: as hn_bench_kernels. */
hn_status hn_forms_race_run(hn_forms_race *race, const hn_bench_options *bench,
                            hn_bench_report **out) HN_MUST_USE;
void hn_forms_race_end(hn_forms_race *race); /* NULL is allowed */

/* A kernel in one form, for a comparison with other kernels: henry/bench.h wants `subject.face` and
 * `kernel`. */
typedef struct hn_forms_alone {
    hn_forms_subject subject;
    hn_bench_kernel kernel;
    struct hn_forms_entry *entry;
} hn_forms_alone;

/* Submits the printed kernel to the scope of the driver. Of the options sizes, device and threads
 * count. Owns: lists live in the arena of the driver; hn_forms_alone_end. Errors: as
 * hn_forms_subject_init. */
hn_status hn_forms_alone_begin(hn_driver *d, const hn_target *target, const hn_program *program,
                               const hn_kernel *kernel, const hn_kernel_code *code,
                               const hn_forms_options *options, hn_forms_alone *out) HN_MUST_USE;
void hn_forms_alone_end(hn_forms_alone *alone);

/* All of these. Errors: as theirs. */
hn_status hn_forms_bench(hn_driver *d, const hn_target *target, const hn_kernel *kernel,
                         const hn_forms_options *options, hn_bench_report **out) HN_MUST_USE;

#endif
