/* variants.h: the forms that a kernel of the schedule may have, by name, with the time that the
 * model of costs expects of each at some sizes; and the sizes at which forms are compared.
 *
 * A form has a kind and parameters: hn_form_name (tune/record.h), "rows" and "stores=streaming
 * ahead=4". The name says all that the planner decided by the sizes that it expected, so that a
 * name gives the same form whatever it expects; what a name leaves out follows from the kernel.
 *
 * Kinds, CPU: flat, rows, rows-pipelined, rows-split, slabs-of-rows, columns, strips-of-columns,
 * tiles, wide-tiles. GPU: elements, rows, rows-kept, rows-over-blocks, tiles, scatter,
 * slabs-of-rows.
 *
 * Parameters, CPU, each only where the kind has such a thing:
 *   stores=cached|streaming   results pass through the caches, or bypass them
 *   ahead=none|N              rows that prefetches are ahead (flat: elements)
 *   vectors=N                 side by side, in loops over lanes and in narrow columns
 *   width=N                   columns of a strip; of a flat kernel elements of an iteration
 *   grain=N|never             fewest iterations worth a thread of their own. No part of the text: forms
 *                             that differ in it alone are compiled once
 * GPU: threads, rows, vector, unroll, blocks, slabs, stages, tile, parts, resident, and words: the
 * layout (kernel/gpu_names.h). Which of them fit the kernel and the processor does not depend on
 * what sizes are expected.
 *
 * Who tunes (a record for a kernel):
 *
 *     hn_kernel_identity id;                     // digest and symbols of the record
 *     hn_variant_sizes sizes;                    // where to compare
 *     hn_variants set;                           // set.items[k].name: the record's forms, predicted_ns
 *     HN_TRY(hn_kernel_identify(&of, arena, &id));
 *     HN_TRY(hn_variant_sizes_list(&of, &id, &hints, arena, &sizes));
 *     HN_TRY(hn_variants_over(&of, &sizes, 0, arena, &set));
 *     for each set of sizes k:
 *         // hn_forms_bench wants the expected best in front:
 *         HN_TRY(hn_variants_order(&set, k, order));
 *         HN_TRY(hn_forms_bench(d, target, kernel, &(hn_forms_options){.sizes = .., .forms = ..}, ..));
 *     // descent: from the winner to its neighbours, as long as one is better
 *     HN_TRY(hn_variants_around(&of, &name, 1, arena, &names, &count));
 *     HN_TRY(hn_variant_named(&of, &name, arena, &variant));
 *
 * Who makes a line of several kernels, without a record: multi.h. */
#ifndef HN_DRIVER_VARIANTS_H
#define HN_DRIVER_VARIANTS_H

#include "driver/driver.h"
#include "ir/loop_interp.h"
#include "tune/choice.h"

enum {
    HN_VARIANTS_MAX = 32, /* of one list */
    HN_VARIANT_SYMBOLS_MAX = HN_TUNING_SIZES_MAX,
    HN_VARIANT_SAMPLES_MAX = 64, /* sets of sizes */
    HN_VARIANT_SAMPLES = 24      /* ... unless told otherwise */
};

/* A form is worth a look if the model expects at most so many times the time of the best one. */
#define HN_VARIANT_MARGIN 2.0

/* Whose forms. Borrowed. */
typedef struct hn_variants_of {
    const hn_program *program;
    const hn_kernel *kernel;
    const hn_extern *call; /* in place of the kernel: call_forms.h; NULL: there is a kernel */
    const hn_target *target;
    uint32_t
        threads; /* of the CPU, that a call will have; 0: those that the kernel is planned for */
} hn_variants_of;

typedef struct hn_variant {
    hn_form_name name;
    hn_form *form;
    double ns; /* expected of a call, at the sizes that it was asked for, or first was */
} hn_variant;

typedef struct hn_variants {
    hn_variant items[HN_VARIANTS_MAX];
    uint32_t count; /* 1 or more */
    /* of hn_variants_over: ns[sample * count + k] */
    const struct hn_variant_sizes *sizes;
    double *ns;
} hn_variants;

/* What a tuning record knows a kernel by: a digest that is independent of its form, of what sizes
 * are expected and of names; and the size symbols that it depends on, in the order of the digest.
 * Kernels with the same digest have the same forms. */
typedef struct hn_kernel_identity {
    hn_digest digest;
    hn_expr symbols[HN_VARIANT_SYMBOLS_MAX];
    uint32_t symbol_count;
    bool is_tunable; /* false: more symbols than that, or sizes known only as the program runs */
} hn_kernel_identity;
hn_status hn_kernel_identify(const hn_variants_of *of, hn_arena *arena,
                             hn_kernel_identity *out) HN_MUST_USE;

/* ---- forms ---- */

/* The best `most` forms (0: HN_VARIANTS_MAX) at these sizes, best first, that are within the
 * margin; symbols that `sizes` does not have are at their hints. NULL: all are. The first one is
 * what the planner makes by itself, if it expects these sizes. Owns: forms and names live in
 * `arena`. */
hn_status hn_variants_list(const hn_variants_of *of, const hn_ref_sizes *sizes, uint32_t most,
                           hn_arena *arena, hn_variants *out) HN_MUST_USE;
/* What records of tuning call a form. Owns: the name lies in `arena`, parameters are the form's. */
hn_status hn_variant_name(const hn_form *form, hn_arena *arena, hn_form_name *out) HN_MUST_USE;
/* The form of that name. Errors: not-found when the kernel has no such form, with the kinds that it
 * has; invalid-argument for a parameter that the kind does not have, or out of its range. */
hn_status hn_variant_named(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                           hn_variant *out) HN_MUST_USE;
/* The form that a kernel has where nobody chooses, at the hints. */
hn_status hn_variant_planned(const hn_variants_of *of, hn_arena *arena,
                             hn_variant *out) HN_MUST_USE;
/* The time expected of a form at these sizes, ns. */
hn_status hn_variant_cost(const hn_variants_of *of, const hn_form_name *name,
                          const hn_ref_sizes *sizes, double *out_ns) HN_MUST_USE;
/* Names of the forms that differ in one parameter by one step: 2 times as many vectors, half of the
 * distance. Of a CPU not all of them need fit the kernel. Owns: in `arena`. */
hn_status hn_variant_neighbours(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                                hn_form_name **out, uint32_t *out_count) HN_MUST_USE;

/* Names that so many such steps lead to, at most HN_VARIANTS_AROUND_MAX: the nearest first. */
enum { HN_VARIANTS_AROUND_MAX = 255 };
hn_status hn_variants_around(const hn_variants_of *of, const hn_form_name *name, uint32_t radius,
                             hn_arena *arena, hn_form_name **out, uint32_t *out_count) HN_MUST_USE;

/* What a name of a CPU's form stands for, and the name of that. Errors: as hn_variant_named;
 * out-of-memory. Owns: the text lives in `arena`. */
struct hn_cpu_choice;
hn_status hn_variant_choice(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                            struct hn_cpu_choice *out) HN_MUST_USE;
hn_status hn_variant_choice_name(const struct hn_cpu_choice *choice, hn_arena *arena,
                                 hn_form_name *out) HN_MUST_USE;

/* ---- sizes ---- */

/* What symbols were expected to be, while something is asked for other sizes. */
typedef struct hn_variant_hints {
    hn_sym *sym;
    hn_expr symbols[HN_VARIANT_SYMBOLS_MAX];
    int64_t values[HN_VARIANT_SYMBOLS_MAX];
    bool had[HN_VARIANT_SYMBOLS_MAX];
    uint32_t count;
} hn_variant_hints;
/* From here on these are expected. NULL: those that are. Errors: invalid-argument for too many. */
hn_status hn_variant_hints_begin(hn_sym *sym, const hn_ref_sizes *sizes,
                                 hn_variant_hints *out_was) HN_MUST_USE;
void hn_variant_hints_end(const hn_variant_hints *was);

/* Values of one symbol: "s0" and 64, 256, 4096. */
typedef struct hn_size_hint {
    hn_str symbol; /* as the program names it */
    const int64_t *values;
    uint32_t count;
} hn_size_hint;

typedef struct hn_size_hints {
    const hn_size_hint *items; /* symbols that are not there have the default */
    uint32_t count;
    uint32_t samples_max; /* 0: HN_VARIANT_SAMPLES; at most HN_VARIANT_SAMPLES_MAX */
} hn_size_hints;

/* Sets of values of symbols. */
typedef struct hn_variant_sizes {
    const hn_expr *symbols;
    uint32_t symbol_count, count;
    const int64_t *values; /* [count][symbol_count], the recorded sizes first */
} hn_variant_sizes;

/* By default a symbol has the value that is expected, and the powers of four within its range that
 * make no loop of the kernel larger than HN_VARIANT_BYTES_MAX; divisors that are known are kept. Of
 * several symbols: combinations. Behind the recorded sizes come the corners, each symbol as small
 * or as large as it may be; then each set is the one that is the farthest from all before it, by
 * the sum of the differences of log2. So the first few of them cover all sizes. Without symbols:
 * one set, of no values. `hints` may be NULL. Owns: in `arena`; borrows `id`. Errors:
 * invalid-argument for a value out of its symbol's range. */
#define HN_VARIANT_BYTES_MAX ((int64_t)1 << 28)
hn_status hn_variant_sizes_list(const hn_variants_of *of, const hn_kernel_identity *id,
                                const hn_size_hints *hints, hn_arena *arena,
                                hn_variant_sizes *out) HN_MUST_USE;
/* The sum of the differences of log2; of 0 and less it is -1. */
double hn_variant_distance(const int64_t *a, const int64_t *b, uint32_t count);
/* Set number k, for those functions that take one. Borrows. */
hn_ref_sizes hn_variant_sizes_at(const hn_variant_sizes *sizes, uint32_t k);

/* The forms that are among the best `most` (0: 4) at any of the sizes, each once, with the times
 * that are expected of each at all of them. Where these are more than HN_VARIANTS_MAX, those go
 * that are the best at no size, and at few sizes among the best. The first is the best at the first
 * set. Owns: in `arena`; borrows `sizes`. */
hn_status hn_variants_over(const hn_variants_of *of, const hn_variant_sizes *sizes, uint32_t most,
                           hn_arena *arena, hn_variants *out) HN_MUST_USE;
/* The forms of such a set in the order that is expected at set k of its sizes: numbers of items,
 * `count` of them. */
void hn_variants_order(const hn_variants *set, uint32_t k, uint32_t *out);
/* The expected times, for hn_choice_make. Owns: in `arena`; borrows the set. */
hn_status hn_variants_times(const hn_variants *set, hn_arena *arena,
                            hn_choice_times *out) HN_MUST_USE;

#endif
