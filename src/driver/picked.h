/* picked.h: which form a kernel gets: what was measured before, or the model of costs. */
#ifndef HN_DRIVER_PICKED_H
#define HN_DRIVER_PICKED_H

#include "driver/driver.h"
#include "driver/forced.h"
#include "driver/variants.h"
#include "picks/picks.h"

/* A kernel and what tuning records know of it: driver/variants.h. */
typedef struct hn_tunable {
    hn_variants_of of;
    hn_str name; /* of the node that it is named after */
    hn_kernel_identity id;
    hn_variant_sizes sizes; /* at which its forms are compared, without hints of the caller */
    hn_variants set;        /* the forms that are worth a look at any of these */
    hn_form_name names[HN_VARIANTS_MAX]; /* of the set */
    hn_variant
        planned; /* without records; at the sizes that are expected. It may be no part of the set */
} hn_tunable;

/* Without sizes and forms. Owns: lists live in `arena`. Errors: those of the planner. */
hn_status hn_tunable_identify(hn_driver *d, const hn_target *target, const hn_kernel *kernel,
                              hn_arena *arena, hn_tunable *out) HN_MUST_USE;
/* The same of a call of an operation. */
hn_status hn_tunable_identify_call(hn_driver *d, const hn_target *target, hn_item call,
                                   hn_arena *arena, hn_tunable *out) HN_MUST_USE;
/* Adds these. A kernel that is not tunable has the form that is expected to be the fastest, alone.
 * `t` stays where it is. */
hn_status hn_tunable_complete(hn_tunable *t, hn_arena *arena) HN_MUST_USE;
/* What records are looked for by: those at any sizes. Borrowed. */
void hn_tunable_want(const hn_tunable *t, hn_str device, hn_picks_wanted *out);

/* What a compilation knows of measurements. */
typedef struct hn_driver_picks {
    hn_tuning_list file;           /* of the user */
    hn_tuning_list used;           /* what decides, */
    hn_tuning_list decided;        /* and what of it has decided */
    hn_str devices[HN_LEVELS_MAX]; /* of records, per level, once they are asked for */
    hn_forced forced;              /* what the user names, which decides before all others */
} hn_driver_picks;

/* Reads the sizes, the forms and the records that the options name: these into `used`, unless
 * kernels are to be timed. Errors: invalid-argument for hints or forms that are none; those of
 * reading the file. */
hn_status hn_driver_picks_begin(hn_driver *d) HN_MUST_USE;
/* size_hints.c: the sizes that the options name. Errors: invalid-argument. */
hn_status hn_size_hints_parse(hn_driver *d, hn_size_hints *out) HN_MUST_USE;
/* Prints the kernel in the form that the user says; else in that which records say; or, where its
 * sizes differ from call to call, in those that they say, with a table (multi.h). `*out_is_known`
 * false: they say nothing. */
hn_status hn_driver_pick(hn_driver *d, const hn_driver_level *level, const hn_kernel *kernel,
                         hn_arena *scratch, hn_kernel_code *out, bool *out_is_known) HN_MUST_USE;
/* Says which form a call of an operation is to have at which sizes: `form`, `variants` and
 * `choice`, without text. Nothing where records say nothing, or that the operation shall decide by
 * itself. */
hn_status hn_driver_pick_call(hn_driver *d, const hn_driver_level *level, hn_item call,
                              hn_arena *scratch, hn_kernel_code *out) HN_MUST_USE;
/* picked_fill.c: adds to `times`, which are those of `records` for these forms, what is expected of
 * them at those of the kernel's sizes that are further from all records than a factor of four: a
 * budget may have ended before they were timed. Owns: lists live in `arena`. */
hn_status hn_picked_fill(const hn_tunable *t, const hn_tuning_list *records,
                         const hn_form_name *names, hn_arena *arena,
                         hn_choice_times *times) HN_MUST_USE;
/* Whether the model of costs decides, whatever was measured. */
bool hn_driver_picks_are_off(const hn_driver *d);
/* The device of the records of a level. */
hn_status hn_driver_picks_device(hn_driver *d, const hn_driver_level *level,
                                 hn_str *out) HN_MUST_USE;
/* Appends it; nothing for a device that this machine does not have. */
hn_status hn_driver_tuning_device(hn_driver *d, const hn_target *target,
                                  hn_strbuf *out) HN_MUST_USE;
/* Whether this machine can run kernels for the target. */
bool hn_driver_can_run(const hn_target *target);

#endif
