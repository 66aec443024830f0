/* driver.h: the compile pipeline, the one place that sees everything. */
#ifndef HN_DRIVER_DRIVER_H
#define HN_DRIVER_DRIVER_H

#include "base/file.h"
#include "base/hash.h"
#include "base/map.h"
#include "codegen/codegen.h"
#include "driver/options.h"
#include "henry/program.h"
#include "ir/graph.h"
#include "metrics/metrics.h"
#include "metrics/tables.h"
#include "opt/pass.h"
#include "sched/sched.h"
#include "service/service.h"
#include "wrapper/to_bundle.h"
#include "wrapper/wrapper.h"

struct hn_compiled {
    hn_strbuf image;
    char *weights_path; /* of the model file; NULL when the weights are inside */
    hn_compile_stats stats;
    hn_metrics metrics;
    struct hn_tune_report *tuned; /* NULL: nothing was to be timed */
    /* What rows of metric tables begin with, of the program for each kind of device. */
    struct hn_compiled_rows {
        int64_t compilation; /* 0: no table was wanted */
        char target[32];
    } rows[HN_DEVICE_KIND_COUNT];
};

enum { HN_LEVELS_MAX = 8 };

/* A target with its kernels: a feature level of CPUs, or another kind of device. */
typedef struct hn_driver_level {
    hn_target target;
    /* per schedule step: the printed kernel (text shared by equal ones), also of an operation;
     * zeros for other steps */
    hn_kernel_code *step_kernels;
    struct {
        const hn_kernel_code **items;
        uint32_t count, cap;
    } unique;          /* one a distinct text */
    uint32_t *unit_of; /* per unique kernel */
} hn_driver_level;

/* A compilation that stops or leaves out rewrites on purpose, to find the one that is wrong
 * (src/bisect). */
typedef struct hn_driver_limits {
    uint32_t pass;  /* the last pass that runs: its number; passes behind it do not */
    hn_limit *last; /* rewrites of that pass; NULL: all */
    /* rewrites behind the passes, in this order: of lowering, scheduling, forms of kernels, lines
     * and their memory; NULL: all. Those of the program of weights count, too */
    hn_limit *behind;
} hn_driver_limits;

/* What a pass took and left. */
typedef struct hn_pass_stats {
    const char *name;
    int64_t ns;
    uint32_t nodes_before, nodes_after;
} hn_pass_stats;

enum { HN_PASSES_MAX = 16 };

/* The program of weights of a compilation: one of its own. */
typedef struct hn_driver_weights hn_driver_weights;

/* One compilation on its way. */
typedef struct hn_driver {
    hn_options options; /* read with HN_OPT */
    hn_option_marks marks;
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_graph *graph;
    hn_program *program;
    hn_schedule schedule;
    hn_work_record *work;                  /* per step of the schedule, of kernels and calls */
    hn_wrapper *wrapper;                   /* planned when the image is there */
    hn_driver_weights *weights_program;    /* NULL: the graph has none */
    hn_driver_level levels[HN_LEVELS_MAX]; /* what to compile for, the best first: of one kind */
    uint32_t level_count;
    const hn_target *targets[HN_LEVELS_MAX]; /* of the levels */
    hn_service *service;
    hn_compile_stats stats;
    hn_metrics metrics;
    hn_pass_stats passes[HN_PASSES_MAX]; /* of those that have run, by number */
    hn_tables tables;                    /* rows so far, of those that are wanted */
    const hn_driver_limits *limits;      /* NULL: the usual, all there is */
    struct hn_driver_picks *picks;       /* which forms kernels get: picked.h */
    struct hn_driver_fusion *fusion;     /* which fusions are left out: fusion.h */
    const struct hn_size_hints *hints;   /* sizes that the options name; once picks are there */
    const struct hn_tune_timer *timer;   /* who says how long forms take; NULL: this machine */
    hn_str known_tuning;                 /* records that this model was tuned with; borrowed */
    int64_t tune_begin_ns;               /* when tuning began, by its clock */
    struct hn_tune_report *tuned;        /* what was measured; owned */
    /* told what a tuning came to, before anything is made of it; NULL: nobody. `records`: its
     * text */
    hn_status (*on_tuned)(void *user, hn_str records, bool is_complete);
    void *tuned_user;
    hn_str key; /* what the image records of the key, or empty; borrowed */
    /* compilations in flight, of all levels */
    struct {
        hn_future **items;
        uint32_t count, cap;
    } units;
    hn_digest *unit_keys; /* of the compilations, once they are done */
    hn_strmap compiled;   /* keys of those that this program has waited for and no cache had */
    hn_scope *scope;
    /* the model file, when weights are referred to and not embedded */
    const char *weights_path;
    hn_file_map weights;
} hn_driver;

/* Of what is done behind the passes. */
static inline hn_limit *hn_driver_limit(const hn_driver *d) {
    return d->limits ? d->limits->behind : NULL;
}

/* compile.c: the parts of a compilation. */
void hn_driver_init(hn_driver *d, const hn_compile_options *options, hn_service *service);
void hn_driver_deinit(hn_driver *d); /* the service and the graph are not the driver's */
/* The levels of `target`, "x86-64-v4,x86-64-v3"; none named: this machine's. Errors:
 * invalid-argument. */
hn_status hn_driver_targets(hn_driver *d) HN_MUST_USE;
/* Of the compile service, in which the kernels of all these levels are written. */
static inline const char *hn_driver_language(const hn_driver *d) {
    return d->levels[0].target.kind->language;
}
/* Loops and kernels of the graph that the passes left, in place of those that there are. */
hn_status hn_driver_schedule(hn_driver *d) HN_MUST_USE;
/* From the graph that the passes left to the text of every kernel; no compiler is needed. */
hn_status hn_driver_kernels(hn_driver *d) HN_MUST_USE;
/* ... to an image. */
hn_status hn_driver_build(hn_driver *d, hn_strbuf *image) HN_MUST_USE;
/* The time since *mark, which moves to now: a span of the trace. */
int64_t hn_driver_lap(int64_t *mark, const char *phase);
hn_status hn_compiled_create(const char *weights_path, hn_compiled **out) HN_MUST_USE;

/* pipeline.c: the passes, in order; NULL past the end. */
const char *hn_driver_pass_name(uint32_t k);
uint32_t hn_driver_pass_number(const char *name); /* past the last for an unknown name */
/* One pass on a graph, verified. Errors: invalid-argument for an unknown name; the pass's own. */
hn_status hn_driver_pass_run(hn_graph *graph, const char *name, hn_arena *scratch) HN_MUST_USE;
/* The number of the last pass. */
uint32_t hn_driver_last_pass(void);
/* All of them, or up to the last that the limits allow, verified after each. */
hn_status hn_driver_passes(hn_driver *d) HN_MUST_USE;
/* kernels.c: text of every kernel; then units to the compile service; then their objects. */
hn_status hn_driver_print_kernels(hn_driver *d) HN_MUST_USE;
/* In the forms that the model of costs puts in front, and without looking for equal ones: for lines
 * that are looked at before the program is made. */
hn_status hn_driver_print_planned(hn_driver *d) HN_MUST_USE;
hn_status hn_driver_submit(hn_driver *d) HN_MUST_USE;
/* The units without compiling them: the kernels know theirs. */
hn_status hn_driver_pack(hn_driver *d, uint32_t *out_units) HN_MUST_USE;
/* The kernels of a unit, in the order in which its text has them; none if it is another level's. */
hn_status hn_driver_unit_kernels(hn_driver *d, const hn_driver_level *level, uint32_t unit,
                                 const hn_kernel_code ***out, uint32_t *out_count) HN_MUST_USE;
hn_status hn_driver_submit_unit(hn_driver *d, const hn_target *target,
                                const hn_kernel_code *const *kernels, uint32_t count,
                                hn_future **out) HN_MUST_USE;
/* A whole text in the target's language, with these kernels. Behind hn_driver_submit. */
hn_status hn_driver_submit_text(hn_driver *d, const hn_target *target, hn_str text,
                                const char *const *entries, uint32_t count,
                                hn_future **out) HN_MUST_USE;
/* weights.c: the program of weights, if the graph has one. Its kernels go to the compile service
 * before those of the graph; then its image is waited for. */
hn_status hn_driver_weights_begin(hn_driver *d) HN_MUST_USE;
/* Empty: there is none. Owns: it lives as long as the driver. */
hn_status hn_driver_weights_end(hn_driver *d, hn_str *out_image) HN_MUST_USE;
/* Its compilation, which lives as long as the driver; NULL: there is none. */
const hn_driver *hn_driver_weights_get(const hn_driver *d);
void hn_driver_weights_deinit(hn_driver *d);
/* Without a module that could do so: its results are computed now, and are constants of the graph,
 * which has no such program then. */
hn_status hn_driver_weights_compute(hn_driver *d) HN_MUST_USE;
/* Counters of what the graph keeps. */
void hn_driver_weights_count(hn_driver *d);
/* fit.c: waits for units for GPUs, and replaces kernels that take more than the processor has by
 * other plans of the same. `*out_replaced`: the units are no longer those of the kernels. */
hn_status hn_driver_fit(hn_driver *d, bool *out_replaced) HN_MUST_USE;
/* image.c: the schedule as wrapper IR. */
hn_status hn_driver_wrapper(hn_driver *d, hn_wrapper **out) HN_MUST_USE;
/* memory.c: the order of its lines, and memory for them. Errors: not-found and unsupported for
 * inputs that the options name and whose memory cannot be given up. */
hn_status hn_driver_plan(hn_driver *d, hn_wrapper *wrapper, hn_memory_plan *out) HN_MUST_USE;
/* Its first part: the order of the lines, and which memory is taken over by whom. */
hn_status hn_driver_reuse(hn_driver *d, hn_wrapper *wrapper) HN_MUST_USE;
/* metrics.c: counters of the schedule and its kernels into d->metrics. */
hn_status hn_driver_count(hn_driver *d) HN_MUST_USE;
/* What the statistics of a program say, into its counters. */
void hn_compiled_count(hn_compiled *c);
/* The jobs of a compilation that has ended, into counters. */
void hn_service_count(hn_service *service, hn_metrics *out);
/* image.c: waits for the objects of all units, as many as both lists have. Owns: the artifacts have
 * the bytes; the caller releases those that are there, also after an error. */
hn_status hn_driver_objects(hn_driver *d, hn_artifact **artifacts,
                            hn_bundle_object *objects) HN_MUST_USE;
/* The bytes of an artifact, or of one with images those of the target; borrowed. Errors:
 * not-found. */
hn_status hn_driver_object_take(const hn_artifact *artifact, const hn_target *target,
                                hn_bundle_object *out) HN_MUST_USE;
/* source.c: a C project into options->source_dir, in place of objects and an image. */
hn_status hn_driver_source(hn_driver *d) HN_MUST_USE;
/* image.c: waits for the objects and makes the bundle image. */
hn_status hn_driver_image(hn_driver *d, hn_wrapper *wrapper, hn_strbuf *out) HN_MUST_USE;
/* The same for a program of weights. */
hn_status hn_driver_image_of_weights(hn_driver *d, hn_wrapper *wrapper, hn_strbuf *out) HN_MUST_USE;

/* compile_file.c: a program and what it came from, for tools that look at it line by line. */
typedef struct hn_kept hn_kept;
/* hn_compile_file for one kind of device, past the cache of graphs. Owns: the caller, each of the
 * two by itself; `*out_kept` has the model file open. Errors: as hn_compile_file. */
hn_status hn_compile_kept(const char *path, const hn_compile_options *options, hn_compiled **out,
                          hn_kept **out_kept) HN_MUST_USE;
/* The planned program, its schedule and loops; they live as long as `kept`. */
const hn_driver *hn_kept_driver(const hn_kept *kept);
void hn_kept_destroy(hn_kept *kept); /* NULL is allowed */

/* Everything after the graph exists, for tests and fuzzers that build their own: passes to image.
 * `graph`, its arena and sym are the caller's; `service` is borrowed. */
hn_status hn_compile_graph(hn_graph *graph, hn_service *service, const hn_compile_options *options,
                           hn_compiled **out) HN_MUST_USE;

/* tables.c: rows of metric tables; nothing where none is wanted. */
/* Which are wanted. Errors: invalid-argument. */
hn_status hn_driver_tables_open(hn_driver *d) HN_MUST_USE;
/* When the graph is there: rows belong to this program. */
void hn_driver_tables_begin(hn_driver *d);
hn_status hn_driver_tables_pass(hn_driver *d, const char *name, uint32_t number, int64_t ns,
                                uint32_t nodes_before) HN_MUST_USE;
hn_status hn_driver_tables_plan(hn_driver *d, const hn_wrapper *w,
                                const hn_memory_plan *plan) HN_MUST_USE;
/* At the end: everything else, and all rows go to their files. `image`: NULL or empty: there is
 * none. */
hn_status hn_driver_tables_end(hn_driver *d, const hn_strbuf *image) HN_MUST_USE;
/* Tells what the rows began with, for rows that are added after the compilation. */
void hn_driver_tables_note(const hn_driver *d, hn_compiled *out);

/* Text for --dump-after; nothing when `stage` is not the one asked for. */
void hn_driver_dump_graph(hn_driver *d, const char *stage);
/* Gives `text` (taken) to the caller when the stage is asked for. */
void hn_driver_dump_text(hn_driver *d, const char *stage, hn_strbuf *text);
void hn_driver_dump_program(hn_driver *d, const char *stage);

#endif
