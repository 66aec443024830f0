/* report.h: what a compilation did and what its program does, as one JSON object, and as one page
 * that opens from a disk.
 *
 * The object has `henry_report` (its version), `kind`, `path`, and what is known: `environment`,
 * `stats`, `metrics`, `program`, `nodes`, `kernels`, `picks`, `run`, `trace`. Keys are only added.
 *
 * Threads: functions may be called at the same time with different arguments. */
#ifndef HN_REPORT_REPORT_H
#define HN_REPORT_REPORT_H

#include "bundle/view.h"
#include "driver/driver.h"
#include "henry/module.h"
#include "henry/record.h"
#include "measure/roofline.h"

enum { HN_REPORT_VERSION = 1 };

/* Runs of a profiled module. */
typedef struct hn_report_run {
    hn_module *module; /* loaded with `profile`; its times are of all runs */
    uint32_t count;    /* runs that ended well, */
    uint32_t profiled; /* of which the module has times of steps: these, and perhaps others */
    int64_t first_ns;  /* the first of them, */
    int64_t median_ns; /* the others, or the first if it is the only one */
    hn_tensor *const *inputs; /* of these runs, as hn_module_run takes them: they give the sizes */
    uint32_t input_count;
    const char *problem; /* why there are none, or no more; NULL: nothing went wrong */
    bool is_random;      /* nobody gave the inputs */
    /* for each step, as a hook of these runs has them; a step whose name is NULL did not run. NULL:
     * they are those of the hints */
    const hn_step_record *records;
    const hn_roofline *roofline; /* of these runs; NULL: limits are not known */
} hn_report_run;

/* What there is to tell. All but `kind` and `path` may be missing; all is borrowed. */
typedef struct hn_report_source {
    const char *kind; /* "model", "bundle", "trace" */
    const char *path;
    const hn_bundle *bundle; /* the program */
    const hn_driver *driver; /* of hn_compile_kept */
    const hn_compiled *compiled;
    const hn_graph *graph;    /* as it is imported */
    const hn_report_run *run; /* NULL: it was not run */
    hn_str trace;             /* Chrome's format; empty: none */
} hn_report_source;

/* Appends the object. Errors: invalid-argument for a trace that is no JSON; out-of-memory. */
hn_status hn_report_data(const hn_report_source *source, hn_strbuf *out) HN_MUST_USE;

/* Appends a page of one object, or of two, an earlier and a later one, with what changed between
 * them. Errors: out-of-memory. */
hn_status hn_report_page(const hn_str *objects, uint32_t count, hn_strbuf *out) HN_MUST_USE;

/* Whether bytes may be an object, or a page of this or another version. */
bool hn_report_claims(hn_str bytes);
/* The object in the bytes, or the later one of a page with two. Borrowed from them. Errors:
 * corrupt; incompatible for a later version of the object. */
hn_status hn_report_read(hn_str bytes, hn_str *out_object) HN_MUST_USE;

#endif
