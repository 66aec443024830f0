/* calls.c: see calls.h. */
#include "tune/calls.h"

#include "base/checked.h"
#include "tune/subject.h"

#include <stdlib.h>
#include <string.h>

/* Of all operands together. */
#define BYTES_MAX ((int64_t)1 << 31)

/* Copies of constants: more than this no cache has. */
enum { COPIES_MAX = 16 };
static const int64_t copies_bytes = 64 << 20;

enum { ARGS_MAX = HN_EXT_MAX_OPERANDS * COPIES_MAX };

/* What all forms have in common. */
typedef struct setting {
    const hn_call_subject *s;
    uint32_t copies;             /* of constants */
    hn_bench_arg args[ARGS_MAX]; /* of the trial: operands that are there, copies side by side */
    int64_t counts[ARGS_MAX];    /* their elements */
    uint32_t numbers[HN_EXT_MAX_OPERANDS]; /* per operand: its argument, the first of its copies */
    hn_bench_subject subject;
    hn_trial trial;
    hn_ext_shared *shared;
    bool has_expected;
} setting;

/* A call with one copy of the constants. */
typedef struct copy {
    hn_ext_call call;
    hn_device_operation *own; /* NULL: the host does it */
    void *operands[HN_EXT_MAX_OPERANDS];
    bool is_prepared;
} copy;

/* A form of it. */
typedef struct contender {
    setting *t;
    const hn_ext_form *form;
    copy copies[COPIES_MAX];
    uint32_t next; /* whose turn it is */
    void *scratch;
    bool is_fresh; /* the memory is as it was made up */
} contender;

/* ---- memory ---- */

static uint32_t count_copies(const hn_call_subject *s) {
    int64_t own = 0, count;
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (s->dtypes[k] && s->is_constant[k]) own += s->bytes[k];
    if (own <= 0) return 1;
    count = (s->constant_bytes < copies_bytes ? s->constant_bytes : copies_bytes) / own;
    return count < 1 ? 1 : count < COPIES_MAX ? (uint32_t)count : COPIES_MAX;
}

static uint32_t copies_of(const setting *t, uint32_t operand) {
    return t->s->is_constant[operand] ? t->copies : 1;
}

static hn_status add_arg(setting *t, uint32_t k, int64_t *all) {
    const hn_call_subject *s = t->s;
    const uint32_t number = t->subject.arg_count++;
    if (!hn_add_i64(*all, s->bytes[k], all) || *all > BYTES_MAX)
        return HN_ERROR(HN_UNSUPPORTED, "the operands of the call are too large to be made up");
    const int64_t each = (int64_t)hn_scalar_type_bytes((hn_scalar_type)s->dtypes[k]);
    t->counts[number] = (s->bytes[k] - s->offset_bytes[k]) / each;
    t->args[number] = (hn_bench_arg){.type = (hn_scalar_type)s->dtypes[k],
                                     .rank = 1,
                                     .sizes = &t->counts[number],
                                     .offset_bytes = s->offset_bytes[k],
                                     .access = s->is_written[k] ? HN_BENCH_WRITE : HN_BENCH_READ};
    return NULL;
}

static hn_status add_operand(setting *t, uint32_t k, int64_t *all) {
    t->numbers[k] = t->subject.arg_count;
    for (uint32_t c = 0; c < copies_of(t, k); c++) HN_TRY(add_arg(t, k, all));
    return NULL;
}

static void *address_of(const setting *t, uint32_t operand, uint32_t number) {
    return hn_trial_address(&t->trial, t->numbers[operand] + number % copies_of(t, operand));
}

/* All copies have what the first one has. */
static void share_content(setting *t) {
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        for (uint32_t c = 1; t->s->dtypes[k] && c < copies_of(t, k); c++)
            t->args[t->numbers[k] + c].content =
                t->trial.memories[t->numbers[k]].initial + t->s->offset_bytes[k];
}

static hn_status make_operands(setting *t) {
    int64_t all = 0;
    t->copies = count_copies(t->s);
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (t->s->dtypes[k]) HN_TRY(add_operand(t, k, &all));
    t->subject.args = t->args;
    t->subject.device = t->s->device;
    t->subject.threads = t->s->threads;
    HN_TRY(hn_trial_init(&t->trial, &t->subject));
    share_content(t);
    HN_TRY(hn_trial_fill(&t->trial, HN_MADE_SIGNED));
    return hn_ext_shared_create(&t->shared);
}

/* ---- one form ---- */

static hn_status prepare_there(hn_dev *dev, copy *x) {
    const hn_device_operations *operations = dev->ops->operations;
    if (!operations) return HN_ERROR(HN_UNSUPPORTED, "the device has no operations of its own");
    HN_TRY(hn_ext_check(&x->call));
    return hn_ext_annotate(&x->call, operations->prepare(dev, &x->call, &x->own));
}

static hn_status prepare_copy(setting *t, const hn_ext_form *form, uint32_t number, copy *x) {
    const hn_call_subject *s = t->s;
    hn_dev *dev = t->trial.dev;
    x->call = (hn_ext_call){.kind = s->kind,
                            .params = s->params,
                            .param_count = hn_ext_param_count(s->kind),
                            .knows_rooms = true,
                            .threads = s->threads,
                            .team = &t->trial.team,
                            .form = form,
                            .shared = t->shared};
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++) {
        x->call.dtypes[k] = s->dtypes[k];
        x->call.is_constant[k] = s->is_constant[k];
        x->call.rooms[k] = (hn_ext_room){s->offset_bytes[k], s->bytes[k] - s->offset_bytes[k]};
        if (s->dtypes[k]) x->operands[k] = address_of(t, k, number);
        if (s->is_constant[k]) x->call.operands[k] = x->operands[k];
    }
    HN_TRY(dev->facts.is_host ? hn_ext_prepare(&x->call) : prepare_there(dev, x));
    x->is_prepared = true;
    memcpy(x->call.operands, x->operands, sizeof x->operands);
    return NULL;
}

/* The same for all copies. */
static size_t scratch_bytes(const contender *c) {
    const copy *x = &c->copies[0];
    return x->own ? c->t->trial.dev->ops->operations->scratch_bytes(x->own) : x->call.scratch_bytes;
}

static hn_status start(void *user) {
    contender *c = user;
    for (uint32_t k = 0; k < c->t->copies; k++)
        HN_TRY(prepare_copy(c->t, c->form, k, &c->copies[k]));
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
    contender *c = user;
    hn_trial *trial = &c->t->trial;
    copy *x = &c->copies[c->next];
    hn_device_fault fault;
    c->next = (c->next + 1) % c->t->copies;
    if (!x->own) return hn_ext_run(&x->call, c->scratch);
    return trial->dev->ops->operations->run(trial->queue, x->own, 0, x->operands, c->scratch,
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
    for (uint32_t k = 0; k < COPIES_MAX; k++) {
        copy *x = &c->copies[k];
        if (x->own) hn_dev_operation_release(dev, x->own);
        else if (x->is_prepared) hn_ext_release(&x->call);
    }
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
        contenders[k].t = t;
        contenders[k].form = &forms[k];
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
    setting *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a race");
    t->s = subject;
    hn_status status = make_operands(t);
    if (!status) status = race(t, options, forms, names, count, out);
    hn_ext_shared_destroy(t->shared);
    if (t->trial.subject) hn_trial_deinit(&t->trial);
    free(t);
    return status;
}
