/* calls.c: see calls.h. */
#include "tune/calls.h"

#include "base/checked.h"
#include "tune/match.h"
#include "tune/subject.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };
/* Of all operands together. */
#define BYTES_MAX ((int64_t)1 << 31)

typedef struct trial {
    const hn_call_subject *s;
    hn_team team;
    hn_ext_shared *shared;
    void *memory[HN_EXT_MAX_OPERANDS];
    uint8_t *expected[HN_EXT_MAX_OPERANDS]; /* of what is written */
    bool has_expected;
} trial;

/* A form of it. */
typedef struct contender {
    trial *t;
    hn_ext_call call;
    void *scratch;
    bool is_prepared;
} contender;

/* ---- memory ---- */

static uint8_t *address_of(const trial *t, uint32_t operand) {
    return (uint8_t *)t->memory[operand] + t->s->offset_bytes[operand];
}

static void fill(trial *t, uint32_t k) {
    const hn_bench_arg arg = {.type = (hn_scalar_type)t->s->dtypes[k]};
    hn_make_up(&arg, HN_MADE_SIGNED, k + 1, t->memory[k], (size_t)t->s->bytes[k]);
}

static hn_status make_operand(trial *t, uint32_t k) {
    const hn_call_subject *s = t->s;
    const size_t bytes = hn_align_up((size_t)s->bytes[k] + 1, ALIGNMENT);
    t->memory[k] = aligned_alloc(ALIGNMENT, bytes);
    if (s->is_written[k]) t->expected[k] = malloc(bytes);
    if (!t->memory[k] || (s->is_written[k] && !t->expected[k]))
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the operands of a call");
    fill(t, k);
    return NULL;
}

static hn_status make_memory(trial *t) {
    int64_t all = 0;
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (t->s->dtypes[k] && (!hn_add_i64(all, t->s->bytes[k], &all) || all > BYTES_MAX))
            return HN_ERROR(HN_UNSUPPORTED, "the operands of the call are too large to be made up");
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (t->s->dtypes[k]) HN_TRY(make_operand(t, k));
    return hn_ext_shared_create(&t->shared);
}

static void trial_deinit(trial *t) {
    hn_ext_shared_destroy(t->shared);
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++) free(t->memory[k]), free(t->expected[k]);
}

/* ---- one form ---- */

static hn_status start(void *user) {
    contender *c = user;
    const hn_call_subject *s = c->t->s;
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++) {
        c->call.dtypes[k] = s->dtypes[k];
        c->call.is_constant[k] = s->is_constant[k];
        c->call.rooms[k] = (hn_ext_room){s->offset_bytes[k], s->bytes[k] - s->offset_bytes[k]};
        if (s->dtypes[k] && s->is_constant[k]) c->call.operands[k] = address_of(c->t, k);
    }
    HN_TRY(hn_ext_prepare(&c->call));
    c->is_prepared = true;
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (s->dtypes[k]) c->call.operands[k] = address_of(c->t, k);
    if (!c->call.scratch_bytes) return NULL;
    c->scratch = aligned_alloc(ALIGNMENT, hn_align_up(c->call.scratch_bytes, ALIGNMENT));
    return c->scratch ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a call");
}

static hn_status run(void *user) {
    const contender *c = user;
    return hn_ext_run(&c->call, c->scratch);
}

static void take_expected(trial *t) {
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (t->expected[k]) memcpy(t->expected[k], t->memory[k], (size_t)t->s->bytes[k]);
    t->has_expected = true;
}

static hn_status check_operand(const trial *t, uint32_t k) {
    const hn_scalar_type type = (hn_scalar_type)t->s->dtypes[k];
    hn_strbuf why;
    hn_strbuf_init(&why);
    hn_status status = NULL;
    if (!hn_elements_match(type, t->memory[k], t->expected[k],
                           t->s->bytes[k] / (int64_t)hn_scalar_type_bytes(type), &why))
        status = HN_ERROR(HN_INTERNAL, "another form has another result: %s",
                          why.ptr ? why.ptr : "no memory to say where");
    hn_strbuf_deinit(&why);
    return status;
}

/* What no form writes is as it was made up, in all of them; and the next form finds no results. */
static hn_status check(void *user) {
    trial *t = ((contender *)user)->t;
    hn_status status = NULL;
    if (!t->has_expected) take_expected(t);
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++) {
        if (!t->expected[k]) continue;
        if (!status) status = check_operand(t, k);
        fill(t, k);
    }
    return status;
}

static void contender_deinit(contender *c) {
    if (c->is_prepared) hn_ext_release(&c->call);
    free(c->scratch);
}

/* ---- the race ---- */

static hn_status race(trial *t, const hn_bench_options *options, const hn_ext_form *forms,
                      const char *const *names, uint32_t count, hn_bench_report **out) {
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
                                             .team = &t->team,
                                             .form = &forms[k],
                                             .shared = t->shared}};
        candidates[k] = (hn_bench_candidate){
            .name = names[k], .user = &contenders[k], .start = start, .run = run, .check = check};
    }
    if (!status) status = hn_bench(options, candidates, count, out);
    hn_team_end(&t->team);
    for (uint32_t k = 0; contenders && k < count; k++) contender_deinit(&contenders[k]);
    free(contenders);
    free(candidates);
    return status;
}

hn_status hn_bench_call_forms(const hn_bench_options *options, const hn_call_subject *subject,
                              const hn_ext_form *forms, const char *const *names, uint32_t count,
                              hn_bench_report **out) {
    trial t = {.s = subject, .team = {.limit = subject->threads}};
    *out = NULL;
    hn_status status = make_memory(&t);
    if (!status) status = race(&t, options, forms, names, count, out);
    trial_deinit(&t);
    return status;
}
