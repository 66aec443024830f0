/* calls.c: see calls.h. */
#include "tune/calls.h"

#include "base/checked.h"
#include "tune/subject.h"

#include <stdlib.h>
#include <string.h>

/* Of all operands together. */
#define BYTES_MAX ((int64_t)1 << 31)

/* What all forms have in common. */
typedef struct setting {
    const hn_call_subject *s;
    hn_bench_arg args[HN_EXT_MAX_OPERANDS]; /* of the trial: operands that are there */
    int64_t counts[HN_EXT_MAX_OPERANDS];    /* their elements */
    uint32_t numbers[HN_EXT_MAX_OPERANDS];  /* per operand: its argument */
    hn_bench_subject subject;
    hn_trial trial;
    hn_ext_shared *shared;
    bool has_expected;
} setting;

/* A form of it. */
typedef struct contender {
    setting *t;
    hn_ext_call call;
    hn_device_operation *own; /* NULL: the host does it */
    void *scratch;
    void *operands[HN_EXT_MAX_OPERANDS];
    bool is_prepared, is_fresh; /* ... the memory is as it was made up */
} contender;

/* ---- memory ---- */

static hn_status add_operand(setting *t, uint32_t k, int64_t *all) {
    const hn_call_subject *s = t->s;
    const uint32_t number = t->subject.arg_count++;
    if (!hn_add_i64(*all, s->bytes[k], all) || *all > BYTES_MAX)
        return HN_ERROR(HN_UNSUPPORTED, "the operands of the call are too large to be made up");
    const int64_t each = (int64_t)hn_scalar_type_bytes((hn_scalar_type)s->dtypes[k]);
    t->numbers[k] = number;
    t->counts[number] = (s->bytes[k] - s->offset_bytes[k]) / each;
    t->args[number] = (hn_bench_arg){.type = (hn_scalar_type)s->dtypes[k],
                                     .rank = 1,
                                     .sizes = &t->counts[number],
                                     .offset_bytes = s->offset_bytes[k],
                                     .access = s->is_written[k] ? HN_BENCH_WRITE : HN_BENCH_READ};
    return NULL;
}

static hn_status make_operands(setting *t) {
    int64_t all = 0;
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (t->s->dtypes[k]) HN_TRY(add_operand(t, k, &all));
    t->subject.args = t->args;
    t->subject.device = t->s->device;
    t->subject.threads = t->s->threads;
    HN_TRY(hn_trial_init(&t->trial, &t->subject));
    HN_TRY(hn_trial_fill(&t->trial, HN_MADE_SIGNED));
    return hn_ext_shared_create(&t->shared);
}

static void *address_of(const setting *t, uint32_t operand) {
    return hn_trial_address(&t->trial, t->numbers[operand]);
}

/* ---- one form ---- */

static hn_status prepare_there(contender *c) {
    hn_dev *dev = c->t->trial.dev;
    const hn_device_operations *operations = dev->ops->operations;
    if (!operations) return HN_ERROR(HN_UNSUPPORTED, "the device has no operations of its own");
    HN_TRY(hn_ext_check(&c->call));
    return hn_ext_annotate(&c->call, operations->prepare(dev, &c->call, &c->own));
}

static size_t scratch_bytes(const contender *c) {
    return c->own ? c->t->trial.dev->ops->operations->scratch_bytes(c->own) : c->call.scratch_bytes;
}

static hn_status start(void *user) {
    contender *c = user;
    const hn_call_subject *s = c->t->s;
    const bool is_host = c->t->trial.dev->facts.is_host;
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++) {
        c->call.dtypes[k] = s->dtypes[k];
        c->call.is_constant[k] = s->is_constant[k];
        c->call.rooms[k] = (hn_ext_room){s->offset_bytes[k], s->bytes[k] - s->offset_bytes[k]};
        if (s->dtypes[k]) c->operands[k] = address_of(c->t, k);
        if (s->is_constant[k]) c->call.operands[k] = c->operands[k];
    }
    HN_TRY(is_host ? hn_ext_prepare(&c->call) : prepare_there(c));
    c->is_prepared = true;
    memcpy(c->call.operands, c->operands, sizeof c->operands);
    const size_t bytes = scratch_bytes(c);
    if (!bytes) return NULL;
    c->scratch = hn_dev_alloc(c->t->trial.dev, bytes);
    return c->scratch ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a call");
}

/* What an earlier form has written is no result of this one. */
static hn_status prepare(void *user) {
    contender *c = user;
    if (c->is_fresh) return NULL;
    c->is_fresh = true;
    return hn_trial_restore(&c->t->trial, true);
}

static hn_status give(void *user) {
    const contender *c = user;
    hn_trial *trial = &c->t->trial;
    hn_device_fault fault;
    if (!c->own) return hn_ext_run(&c->call, c->scratch);
    return trial->dev->ops->operations->run(trial->queue, c->own, 0, c->operands, c->scratch,
                                            &fault);
}

static hn_status run(void *user) {
    hn_status status = give(user);
    return status ? status : hn_trial_finish(&((contender *)user)->t->trial);
}

static hn_status run_timed(void *user, uint32_t calls, double *out_ns) {
    return hn_trial_time(&((contender *)user)->t->trial, give, user, calls, out_ns);
}

/* The first form that runs says what is right. */
static hn_status check(void *user) {
    setting *t = ((contender *)user)->t;
    if (t->has_expected) return hn_trial_check(&t->trial);
    t->has_expected = true;
    return hn_trial_take_expected(&t->trial);
}

static void contender_deinit(contender *c) {
    hn_dev *dev = c->t->trial.dev;
    if (c->own) hn_dev_operation_release(dev, c->own);
    else if (c->is_prepared) hn_ext_release(&c->call);
    if (c->scratch) hn_dev_free(dev, c->scratch);
}

/* ---- the race ---- */

static hn_status race(setting *t, const hn_bench_options *options, const hn_ext_form *forms,
                      const char *const *names, uint32_t count, hn_bench_report **out) {
    const bool has_clock = t->trial.dev->ops->event_time != NULL;
    hn_bench_candidate *candidates = calloc(count, sizeof *candidates);
    contender *contenders = calloc(count, sizeof *contenders);
    hn_status status = NULL;
    if (!candidates || !contenders) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a race");
    for (uint32_t k = 0; k < count && !status; k++) {
        contenders[k] = (contender){.t = t,
                                    .call = {.kind = t->s->kind,
                                             .params = t->s->params,
                                             .param_count = hn_ext_param_count(t->s->kind),
                                             .knows_rooms = true,
                                             .threads = t->s->threads,
                                             .team = &t->trial.team,
                                             .form = &forms[k],
                                             .shared = t->shared}};
        candidates[k] = (hn_bench_candidate){.name = names[k],
                                             .user = &contenders[k],
                                             .start = start,
                                             .prepare = prepare,
                                             .run = run,
                                             .run_timed = has_clock ? run_timed : NULL,
                                             .check = check};
    }
    if (!status) status = hn_bench(options, candidates, count, out);
    /* work that waits ends before what it uses goes */
    hn_status_free(hn_trial_finish(&t->trial));
    for (uint32_t k = 0; contenders && k < count; k++)
        if (contenders[k].t) contender_deinit(&contenders[k]);
    free(contenders);
    free(candidates);
    return status;
}

hn_status hn_bench_call_forms(const hn_bench_options *options, const hn_call_subject *subject,
                              const hn_ext_form *forms, const char *const *names, uint32_t count,
                              hn_bench_report **out) {
    setting t = {.s = subject};
    *out = NULL;
    hn_status status = make_operands(&t);
    if (!status) status = race(&t, options, forms, names, count, out);
    hn_ext_shared_destroy(t.shared);
    if (t.trial.subject) hn_trial_deinit(&t.trial);
    return status;
}
