/* subject.h: a model that is compiled and run again and again, each time with fewer rewrites, to
 * find the one that turns a right result wrong. */
#ifndef HN_BISECT_SUBJECT_H
#define HN_BISECT_SUBJECT_H

#include "driver/driver.h"
#include "front/importer.h"
#include "henry/module.h"
#include "ir/interp.h"

/* Weights of a graph that the interpreter takes a few seconds for. */
enum { HN_INTERPRETED_BYTES = 32 << 20 };

/* What a run of the model gives: one tensor for each output of the graph, in its order; dtype NONE
 * for scalars. In the arena of who asked. */
typedef struct hn_results {
    hn_ref_tensor *items;
    uint32_t count;
} hn_results;

typedef struct hn_subject_options {
    const hn_compile_options *compile; /* model, caches, threads, target; borrowed */
    const hn_module_options *load;     /* device, threads; borrowed */
    double rtol, atol;                 /* negative: those of the dtype */
} hn_subject_options;

typedef struct hn_subject {
    const char *path; /* borrowed; NULL: no file */
    hn_subject_options options;
    hn_model_file *file;
    hn_service *service;
    hn_arena arena;
    /* of a call, as hn_module_run takes them; borrowed. Runs work on copies */
    hn_tensor *const *inputs;
    uint32_t input_count;
    /* What PyTorch gave for the first user outputs; borrowed. NULL: the reference decides */
    const hn_ref_tensor *expected;
    uint32_t expected_count;
    /* What PyTorch computed at a node of the imported graph; NULL: nobody knows. `*out_found`
     * false: not known of this node */
    hn_status (*saved)(void *user, hn_str node, hn_arena *arena, hn_ref_tensor *out,
                       bool *out_found);
    void *saved_user;
    hn_results oracle; /* of the reference; count 0: not known yet */
    /* Graphs of large models are run as programs without fusion: the interpreter takes minutes for
     * what these do in a second */
    bool runs_programs;
} hn_subject;

/* Errors: those of opening the model and of the compile service. */
hn_status hn_subject_init(hn_subject *s, const char *path,
                          const hn_subject_options *options) HN_MUST_USE;
/* The same with an open model, which the subject takes over. */
hn_status hn_subject_init_file(hn_subject *s, hn_model_file *file,
                               const hn_subject_options *options) HN_MUST_USE;
void hn_subject_deinit(hn_subject *s);

/* One compilation of the subject. */
typedef struct hn_build {
    hn_driver d;
    hn_strbuf image;
    hn_module *module;
} hn_build;

/* The graph after the passes that `limits` allow (borrowed until deinit). deinit also after an
 * error. */
hn_status hn_build_graph(hn_subject *s, const hn_driver_limits *limits, hn_build *b) HN_MUST_USE;
/* The same, with an output more for each node of the imported graph whose value `saved` knows,
 * named as the node. */
hn_status hn_build_watched(hn_subject *s, const hn_driver_limits *limits, hn_build *b) HN_MUST_USE;
/* From there to a module that is loaded. */
hn_status hn_build_module(hn_subject *s, hn_build *b) HN_MUST_USE;
void hn_build_deinit(hn_build *b);

/* Runs the graph by the reference interpreter, or the module, on copies of the inputs. _evaluate:
 * the graph, in the way of the subject; compiled with what the limits allow of fusion. */
hn_status hn_build_interpret(hn_subject *s, hn_build *b, hn_arena *arena,
                             hn_results *out) HN_MUST_USE;
hn_status hn_build_run(hn_subject *s, hn_build *b, hn_arena *arena, hn_results *out) HN_MUST_USE;
hn_status hn_build_evaluate(hn_subject *s, hn_build *b, hn_arena *arena,
                            hn_results *out) HN_MUST_USE;

/* How far a tensor may be from its reference, which rounds once, by the largest element: others sum
 * in another order, and a cancelled sum keeps the error of its parts. Faults are far beyond it. */
double hn_subject_tolerance(hn_dtype dtype, double largest);
/* Whether the results are those that are expected; `why` gets a line about the first that is
 * not. */
bool hn_subject_judge(const hn_subject *s, const hn_graph *graph, const hn_results *results,
                      hn_strbuf *why);

#endif
