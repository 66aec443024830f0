/* kernels.c: kernels as candidates: their code, their launches, and whether they are right. */
#include "tune/chains.h"
#include "tune/subject.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/require.h"
#include "base/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Content is good if no more of the results than this is NaN or infinite. */
#define BAD_SHARE 0.0625

/* A launch of a form, as the device takes it. */
typedef struct loaded {
    hn_device_program *program;
    hn_device_launch launch;
    hn_kernel_fn direct; /* what is called in place of a launch; NULL: nothing */
} loaded;

/* A form in the race. */
typedef struct entrant {
    hn_trial *trial;
    const hn_bench_kernel *kernel;
    loaded *launches;
    uint32_t count;
    void **args; /* of `run` */
    bool is_tried, is_started, is_restored;
    hn_status error; /* of the first start */
} entrant;

/* ---- start ---- */

static hn_status bad_launch(const char *what) {
    return HN_ERROR(HN_INVALID_ARGUMENT, "a launch %s", what);
}

static hn_status place_args(entrant *e, const hn_bench_launch *from, void **args) {
    const hn_trial *t = e->trial;
    for (uint32_t k = 0; k < from->place_count; k++) {
        const hn_bench_place *p = &from->places[k];
        int64_t at;
        if (p->arg >= t->subject->arg_count) return bad_launch("has an argument that is none");
        if (!hn_add_i64(t->subject->args[p->arg].offset_bytes, p->offset_bytes, &at) || at < 0 ||
            (size_t)at > t->memories[t->owner[p->arg]].bytes)
            return bad_launch("has an argument outside of its memory");
        args[k] = (uint8_t *)t->memories[t->owner[p->arg]].at + at;
    }
    return NULL;
}

/* As the runtime shares out iterations. */
static uint32_t parts_of(const hn_trial *t, const hn_bench_launch *from) {
    const long long parts = from->grain > 0 ? from->extent / from->grain : 1;
    return parts < 2 ? 1 : parts < t->threads ? (uint32_t)parts : (uint32_t)t->threads;
}

static bool is_of_groups(const hn_bench_launch *from) { return from->threads[0] != 0; }

static hn_status count_groups(const hn_bench_launch *from, int64_t *out) {
    *out = 1;
    for (int d = 0; d < 3; d++)
        if (from->groups[d] < 0 || !hn_mul_i64(*out, from->groups[d], out))
            return bad_launch("has too many groups");
    return NULL;
}

static hn_status make_scratch(entrant *e, const hn_bench_launch *from, hn_device_launch *l) {
    const hn_trial *t = e->trial;
    int64_t count = l->parts, bytes, stride;
    if (from->scratch_bytes < 0 || !hn_add_i64(from->scratch_bytes, 63, &stride))
        return bad_launch("has scratch memory of a size that cannot be");
    stride = is_of_groups(from) ? from->scratch_bytes : stride / 64 * 64;
    if (is_of_groups(from)) HN_TRY(count_groups(from, &count));
    if (!hn_mul_i64(count, stride, &bytes)) return bad_launch("has too much scratch memory");
    if (!bytes) return NULL;
    l->scratch = hn_dev_alloc(t->dev, (size_t)bytes);
    if (!l->scratch)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no scratch memory of %lld bytes", (long long)bytes);
    l->scratch_stride = (size_t)stride;
    return t->dev->ops->fill(t->queue, l->scratch, 0, (size_t)bytes);
}

static hn_status load_code(entrant *e, const hn_bench_launch *from, loaded *to) {
    const hn_device_ops *ops = e->trial->dev->ops;
    if (from->fn) {
        if (!ops->direct) return bad_launch("has a function of the CPU, for another device");
        memcpy(&to->launch.kernel, &from->fn, sizeof from->fn);
    } else {
        if (!from->code || !from->symbol) return bad_launch("has no code");
        HN_TRY(ops->load(e->trial->dev, from->code, from->code_len, e->kernel->name, &to->program));
        HN_TRY(ops->find(to->program, from->symbol, &to->launch.kernel));
    }
    if (ops->direct && to->launch.parts == 1) to->direct = ops->direct(to->launch.kernel);
    return NULL;
}

static hn_status load_launch(entrant *e, const hn_bench_launch *from, loaded *to) {
    void **args = calloc(from->place_count + 1u, sizeof *args);
    if (!args) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a launch");
    to->launch = (hn_device_launch){.args = args,
                                    .arg_count = from->place_count,
                                    .params = from->params,
                                    .param_count = from->param_count,
                                    .extent = from->extent,
                                    .parts = parts_of(e->trial, from),
                                    .shared_bytes = from->shared_bytes};
    memcpy(to->launch.groups, from->groups, sizeof from->groups);
    memcpy(to->launch.threads, from->threads, sizeof from->threads);
    HN_TRY(place_args(e, from, args));
    HN_TRY(make_scratch(e, from, &to->launch));
    return load_code(e, from, to);
}

static hn_status start_launches(entrant *e) {
    const hn_bench_kernel *kernel = e->kernel;
    if (!kernel->launch_count || !kernel->launches) return bad_launch("is missing");
    e->launches = calloc(kernel->launch_count, sizeof *e->launches);
    if (!e->launches) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for launches");
    while (e->count < kernel->launch_count) {
        const uint32_t k = e->count++;
        HN_TRY(load_launch(e, &kernel->launches[k], &e->launches[k]));
    }
    return hn_trial_finish(e->trial);
}

static hn_status start_run(entrant *e) {
    const hn_bench_subject *s = e->trial->subject;
    if (!e->trial->dev->facts.is_host)
        return HN_ERROR(HN_UNSUPPORTED, "a function of the host does not run on another device");
    e->args = calloc(s->arg_count + 1u, sizeof *e->args);
    if (!e->args) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for arguments");
    for (uint32_t k = 0; k < s->arg_count; k++) e->args[k] = hn_trial_address(e->trial, k);
    return NULL;
}

static hn_status start_once(entrant *e) {
    if (e->kernel->build) HN_TRY(e->kernel->build(e->kernel->user));
    return e->kernel->run ? start_run(e) : start_launches(e);
}

/* Choosing the content may have started it. */
static hn_status start(void *user) {
    entrant *e = user;
    if (e->is_tried) {
        hn_status error = e->error;
        e->error = NULL;
        return error;
    }
    e->is_tried = true;
    return start_once(e);
}

static void end(entrant *e) {
    for (uint32_t k = 0; k < e->count; k++) {
        loaded *l = &e->launches[k];
        if (l->launch.scratch) hn_dev_free(e->trial->dev, l->launch.scratch);
        hn_dev_unload(e->trial->dev, l->program);
        free((void *)l->launch.args);
    }
    hn_status_free(e->error);
    free(e->launches);
    free(e->args);
}

/* ---- calls ---- */

static bool is_empty(const hn_device_launch *l) {
    if (l->threads[0]) return !l->groups[0] || !l->groups[1] || !l->groups[2];
    return l->extent <= 0;
}

static hn_status run_launch(const entrant *e, const loaded *l) {
    const hn_trial *t = e->trial;
    hn_device_fault fault = {.is_set = false};
    if (is_empty(&l->launch)) return NULL;
    if (l->direct)
        fault.is_set = l->direct(l->launch.args, l->launch.params, 0, l->launch.extent,
                                 l->launch.scratch) != 0;
    else HN_TRY(t->dev->ops->launch(t->queue, &l->launch, &fault));
    return HN_LIKELY(!fault.is_set) ? NULL
                                    : HN_ERROR(HN_INVALID_ARGUMENT, "an index is out of bounds");
}

static hn_status give(void *user) {
    const entrant *e = user;
    if (e->kernel->run) return e->kernel->run(e->kernel->user, e->args);
    for (uint32_t k = 0; k < e->count; k++) HN_TRY(run_launch(e, &e->launches[k]));
    return NULL;
}

/* Of a form that failed nothing is left for the others. */
static hn_status clean_up(const entrant *e, hn_status error) {
    if (!error) return NULL;
    hn_status_free(hn_trial_restore(e->trial, true));
    hn_status_free(hn_trial_repair(e->trial));
    return error;
}

/* By the clock of the host. */
static hn_status run(void *user) {
    const entrant *e = user;
    hn_status status = give(user);
    if (!status && !e->trial->dev->facts.is_host) status = hn_trial_finish(e->trial);
    return clean_up(e, status);
}

/* By the clock of the device. */
static hn_status run_timed(void *user, uint32_t calls, double *out_ns) {
    const entrant *e = user;
    return clean_up(e, hn_trial_time(e->trial, give, user, calls, out_ns));
}

/* Before the first call: what an earlier form has written is no result of this one. */
static hn_status prepare(void *user) {
    entrant *e = user;
    if (e->is_restored) return NULL;
    e->is_restored = true;
    return hn_trial_restore(e->trial, true);
}

static hn_status restore(void *user) { return hn_trial_restore(((entrant *)user)->trial, false); }

static hn_status check(void *user) {
    hn_trial *t = ((entrant *)user)->trial;
    return clean_up(user, hn_trial_check(t));
}

/* ---- what the arguments hold ---- */

/* Errors: of the form, but for those of its start, which the race meets again. */
static hn_status try_form(entrant *e, bool *out_has_run) {
    *out_has_run = false;
    if (!e->is_tried) {
        e->is_tried = true;
        e->error = start_once(e);
    }
    if (e->error) return NULL;
    HN_TRY(hn_trial_restore(e->trial, true));
    HN_TRY(run(e));
    *out_has_run = true;
    return hn_trial_take_expected(e->trial);
}

/* The first form that runs says what is right. `*out_is_sure`: none before it found an index out of
 * bounds. Errors: invalid-argument when no other happened than such indices. */
static hn_status run_first(hn_trial *t, entrant *entrants, uint32_t count, bool *out_is_sure) {
    hn_status fault = NULL;
    bool has_run = false;
    for (uint32_t k = 0; k < count && !has_run; k++) {
        hn_status status = try_form(&entrants[k], &has_run);
        if (hn_status_code(status) == HN_INVALID_ARGUMENT && !fault) fault = status;
        else hn_status_free(status); /* of the form: the race meets it again */
        HN_TRY(hn_trial_repair(t));
    }
    *out_is_sure = !fault;
    if (!has_run) return fault;
    hn_status_free(fault);
    return NULL;
}

static hn_status find_expected(hn_trial *t, entrant *entrants, uint32_t count, bool *out_is_sure) {
    *out_is_sure = true;
    if (t->subject->reference) {
        hn_status status = hn_trial_run_reference(t);
        if (hn_status_code(status) != HN_UNSUPPORTED) return status;
        hn_log("tune", HN_LOG_INFO, "forms are compared with the first one: %s",
               hn_status_message(status));
        hn_status_free(status);
        HN_TRY(hn_trial_fill(t, t->how)); /* as it was */
    }
    return run_first(t, entrants, count, out_is_sure);
}

/* `*out_badness`: the share of results that are no numbers, and 1 more when it is not sure that the
 * content will do. */
static hn_status fill(hn_trial *t, int how, entrant *entrants, uint32_t count,
                      double *out_badness) {
    bool is_sure;
    HN_TRY(hn_trial_fill(t, (hn_made_up)how));
    HN_TRY(find_expected(t, entrants, count, &is_sure));
    *out_badness = hn_trial_bad_share(t) + !is_sure;
    return NULL;
}

/* The first content with which no index is out of bounds and results are numbers; if there is none, the
 * best one. */
static hn_status choose_content(hn_trial *t, entrant *entrants, uint32_t count) {
    double least = INFINITY, badness;
    int best = HN_MADE_COUNT;
    hn_status fault = NULL;
    for (int how = 0; how < HN_MADE_COUNT; how++) {
        hn_status status = fill(t, how, entrants, count, &badness);
        hn_status_free(fault);
        fault = status;
        if (status && hn_status_code(status) != HN_INVALID_ARGUMENT) return status;
        if (!status && badness <= BAD_SHARE) return NULL;
        if (status || badness >= least) continue;
        best = how;
        least = badness;
    }
    if (best == HN_MADE_COUNT)
        return hn_status_annotate(fault, "no content of the arguments will do");
    hn_status_free(fault);
    return fill(t, best, entrants, count, &badness);
}

/* ---- the race ---- */

static hn_status compete(const hn_bench_options *options, hn_trial *t, entrant *entrants,
                         hn_bench_candidate *candidates, uint32_t count, hn_bench_report **out) {
    static const hn_bench_options defaults;
    hn_bench_options with = options ? *options : defaults;
    const bool has_clock = t->dev->ops->event_time != NULL;
    bool restores = false;
    for (uint32_t k = 0; k < t->subject->arg_count; k++)
        restores |= t->owner[k] == k && hn_memory_needs_restore(&t->memories[k]);
    if (t->subject->is_cold) with.flush = hn_trial_evict, with.flush_user = t;
    for (uint32_t k = 0; k < count; k++)
        candidates[k] = (hn_bench_candidate){.name = entrants[k].kernel->name,
                                             .user = &entrants[k],
                                             .start = start,
                                             .prepare = prepare,
                                             .run = run,
                                             .run_timed = has_clock ? run_timed : NULL,
                                             .check = check,
                                             .restore = restores ? restore : NULL};
    return hn_bench(&with, candidates, count, out);
}

static hn_status bench_with(const hn_bench_options *options, const hn_bench_subject *subject,
                            entrant *entrants, hn_bench_candidate *candidates, uint32_t count,
                            hn_bench_report **out) {
    hn_trial trial;
    hn_status status = hn_trial_init(&trial, subject);
    for (uint32_t k = 0; k < count; k++) entrants[k].trial = &trial;
    if (!status) status = choose_content(&trial, entrants, count);
    if (!status) status = compete(options, &trial, entrants, candidates, count, out);
    /* work that waits ends before what it uses goes */
    if (trial.queue) hn_status_free(hn_trial_finish(&trial));
    for (uint32_t k = 0; k < count; k++) end(&entrants[k]);
    hn_trial_deinit(&trial);
    return status;
}

/* It is the result of a race that nobody runs. */
static hn_status bench_one(const hn_bench_options *options, const hn_bench_kernel *kernel,
                           hn_bench_report **out) {
    const hn_bench_candidate candidate = {.name = kernel->name, .run = run};
    return hn_bench(options, &candidate, 1, out);
}

hn_status hn_bench_kernels(const hn_bench_options *options, const hn_bench_subject *subject,
                           const hn_bench_kernel *kernels, uint32_t count,
                           hn_bench_report **out_report) {
    HN_REQUIRE(subject, "subject");
    HN_REQUIRE(kernels, "kernels");
    HN_REQUIRE(out_report, "out_report");
    if (!count || count > HN_BENCH_CANDIDATES_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a benchmark is of 1 to %u candidates, not %u",
                        HN_BENCH_CANDIDATES_MAX, count);
    if (count == 1) return bench_one(options, kernels, out_report);
    entrant *entrants = calloc(count, sizeof *entrants);
    hn_bench_candidate *candidates = calloc(count, sizeof *candidates);
    for (uint32_t k = 0; entrants && k < count; k++) entrants[k].kernel = &kernels[k];
    hn_status status = entrants && candidates
                           ? bench_with(options, subject, entrants, candidates, count, out_report)
                           : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a benchmark");
    free(entrants);
    free(candidates);
    return status;
}

/* ---- chains ---- */

typedef struct chain_link {
    hn_trial trial;
    entrant e;
} chain_link;

typedef struct chain {
    const hn_bench_chain *from;
    chain_link *links;
    uint32_t count; /* of those that were made */
} chain;

static hn_status start_link(chain_link *l, const hn_bench_subject *subject,
                            const hn_bench_kernel *kernel) {
    HN_TRY(hn_trial_init(&l->trial, subject));
    l->e = (entrant){.trial = &l->trial, .kernel = kernel};
    HN_TRY(choose_content(&l->trial, &l->e, 1));
    return start(&l->e);
}

static hn_status start_chain(void *user) {
    chain *c = user;
    while (c->count < c->from->count) {
        const uint32_t k = c->count++;
        HN_TRY(start_link(&c->links[k], c->from->subjects[k], c->from->kernels[k]));
    }
    return NULL;
}

static hn_status prepare_chain(void *user) {
    const chain *c = user;
    for (uint32_t k = 0; k < c->count; k++) HN_TRY(prepare(&c->links[k].e));
    return NULL;
}

static hn_status run_chain(void *user) {
    const chain *c = user;
    for (uint32_t k = 0; k < c->count; k++) HN_TRY(run(&c->links[k].e));
    return NULL;
}

static hn_status time_by_device(const chain *c, uint32_t calls, double *out_ns) {
    double ns;
    *out_ns = 0;
    for (uint32_t k = 0; k < c->count; k++) {
        HN_TRY(run_timed(&c->links[k].e, calls, &ns));
        *out_ns += ns;
    }
    return NULL;
}

static hn_status time_by_host(chain *c, uint32_t calls, double *out_ns) {
    const int64_t begin = hn_now_ns();
    for (uint32_t k = 0; k < calls; k++) HN_TRY(run_chain(c));
    *out_ns = (double)(hn_now_ns() - begin);
    return NULL;
}

static bool has_clock(const hn_bench_chain *c) {
    const hn_device_ops *ops = c->count ? hn_device_ops_of(c->subjects[0]->device.kind) : NULL;
    return ops && ops->event_time;
}

static hn_status run_chain_timed(void *user, uint32_t calls, double *out_ns) {
    chain *c = user;
    HN_TRY(has_clock(c->from) ? time_by_device(c, calls, out_ns) : time_by_host(c, calls, out_ns));
    *out_ns += calls * c->from->more_ns;
    return NULL;
}

static hn_status check_chain(void *user) {
    const chain *c = user;
    for (uint32_t k = 0; k < c->count; k++) HN_TRY(check(&c->links[k].e));
    return NULL;
}

static hn_status restore_chain(void *user) {
    const chain *c = user;
    for (uint32_t k = 0; k < c->count; k++) HN_TRY(restore(&c->links[k].e));
    return NULL;
}

static bool needs_restore(const hn_bench_chain *c) {
    for (uint32_t k = 0; k < c->count; k++)
        for (uint32_t a = 0; a < c->subjects[k]->arg_count; a++)
            if (c->subjects[k]->args[a].access == HN_BENCH_UPDATE) return true;
    return false;
}

static void chain_deinit(chain *c) {
    for (uint32_t k = 0; k < c->count; k++) {
        chain_link *l = &c->links[k];
        if (l->trial.queue) hn_status_free(hn_trial_finish(&l->trial));
        if (l->e.trial) end(&l->e);
        hn_trial_deinit(&l->trial);
    }
    free(c->links);
}

hn_status hn_bench_chains(const hn_bench_options *options, const hn_bench_chain *chains,
                          uint32_t count, hn_bench_report **out) {
    chain *own = calloc(count, sizeof *own);
    hn_bench_candidate *candidates = calloc(count, sizeof *candidates);
    hn_status status = NULL;
    if (!own || !candidates) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a benchmark");
    for (uint32_t k = 0; k < count && !status; k++) {
        own[k].from = &chains[k];
        own[k].links = calloc(chains[k].count + 1u, sizeof *own[k].links);
        if (!own[k].links) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a benchmark");
        candidates[k] =
            (hn_bench_candidate){.name = chains[k].name,
                                 .user = &own[k],
                                 .start = start_chain,
                                 .prepare = prepare_chain,
                                 .run = run_chain,
                                 .run_timed = run_chain_timed,
                                 .check = check_chain,
                                 .restore = needs_restore(&chains[k]) ? restore_chain : NULL};
    }
    if (!status) status = hn_bench(options, candidates, count, out);
    for (uint32_t k = 0; own && k < count; k++) chain_deinit(&own[k]);
    free(own);
    free(candidates);
    return status;
}
