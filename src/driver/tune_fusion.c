/* tune_fusion.c: see fusion.h. A pair of operations is tried by scheduling the program without it:
 * the kernels that only one of the two programs has are what the pair is about. Where the model of
 * costs expects little of a difference, they race. */
#include "driver/fusion.h"
#include "driver/tuning.h"

#include "base/log.h"
#include "driver/call_forms.h"
#include "henry/version.h"
#include "tune/chains.h"

#include <stdlib.h>
#include <string.h>

/* Apart may be expected to take so many times as long as together, and is tried all the same. */
#define FUSION_MARGIN 1.5
enum { KERNELS_MOST = 16 }; /* of a chain */
static const int64_t race_ns = 400000000;

/* A step of a schedule. */
typedef struct part {
    const hn_kernel *kernel; /* NULL: a call */
    hn_kernel_code code;
    hn_digest digest; /* equal ones do the same */
} part;

/* A program in one of its divisions. */
typedef struct version {
    hn_program *program;
    hn_schedule schedule;
    part *parts;
    uint32_t count;
} version;

/* Kernels that the other version does not have. */
typedef struct chain {
    const version *of;
    const part *parts[KERNELS_MOST];
    hn_forms_alone alone[KERNELS_MOST];
    const hn_bench_subject *subjects[KERNELS_MOST];
    const hn_bench_kernel *kernels[KERNELS_MOST];
    uint32_t count, started;
    double expected_ns;
} chain;

typedef struct tuning {
    hn_driver *d;
    version now; /* with what was found so far */
    int64_t end_ns;
} tuning;

/* ---- divisions ---- */

static hn_status describe_call(hn_driver *d, const hn_item_info *item, hn_digest *out) {
    const hn_variants_of of = {
        .program = d->program, .call = item->ext, .target = &d->levels[0].target};
    hn_kernel_identity id;
    HN_TRY(hn_call_identify(&of, &id));
    *out = id.digest;
    return NULL;
}

static hn_status describe(hn_driver *d, const hn_step *step, part *out) {
    *out = (part){.kernel = step->kind == HN_STEP_KERNEL ? step->kernel : NULL};
    if (step->kind == HN_STEP_EXTERN)
        return describe_call(d, &d->program->items.items[step->item], &out->digest);
    if (!out->kernel) return NULL;
    hn_status status = hn_target_print(&d->levels[0].target, d->program, step->kernel, &d->arena,
                                       &d->scratch, &out->code);
    hn_arena_reset(&d->scratch);
    out->digest = out->code.digest;
    return status;
}

static hn_status make_version(hn_driver *d, version *out) {
    HN_TRY(hn_driver_schedule(d));
    *out =
        (version){.program = d->program, .schedule = d->schedule, .count = d->schedule.steps.count};
    HN_NEW(&d->arena, out->parts, out->count + 1u);
    for (uint32_t k = 0; k < out->count; k++)
        HN_TRY(describe(d, &out->schedule.steps.items[k], &out->parts[k]));
    return NULL;
}

static uint32_t count_of(const version *v, const hn_digest *digest) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < v->count; k++)
        count += memcmp(&v->parts[k].digest, digest, sizeof *digest) == 0;
    return count;
}

/* Each text once: where the one version has fewer of it than the other. False: a call is another
 * one, or there are too many. */
static bool list_others(const version *of, const version *than, chain *out) {
    *out = (chain){.of = of};
    for (uint32_t k = 0; k < of->count; k++) {
        const part *p = &of->parts[k];
        uint32_t first = 0;
        while (memcmp(&of->parts[first].digest, &p->digest, sizeof p->digest) != 0) first++;
        if (first < k || count_of(of, &p->digest) <= count_of(than, &p->digest)) continue;
        if (!p->kernel || out->count == KERNELS_MOST) return false;
        out->parts[out->count++] = p;
    }
    return out->count > 0;
}

/* ---- times ---- */

static hn_variants_of of_part(hn_driver *d, const chain *c, const part *p) {
    const hn_target *target = &d->levels[0].target;
    return (hn_variants_of){.program = c->of->program,
                            .kernel = p->kernel,
                            .target = target,
                            .threads = target->cpu ? hn_options_threads(&d->options) : 0};
}

/* The sum of what the model of costs expects of each. */
static hn_status expect(hn_driver *d, chain *c) {
    for (uint32_t k = 0; k < c->count; k++) {
        const hn_variants_of of = of_part(d, c, c->parts[k]);
        hn_variant planned;
        HN_TRY(hn_variant_planned(&of, &d->arena, &planned));
        c->expected_ns += planned.ns;
    }
    return NULL;
}

static hn_status sizes_of(hn_driver *d, const hn_variants_of *of, hn_ref_sizes *out) {
    hn_kernel_identity *id;
    hn_variant_sizes *sizes;
    HN_NEW(&d->arena, id, 1);
    HN_NEW(&d->arena, sizes, 1);
    HN_TRY(hn_kernel_identify(of, &d->arena, id));
    if (!id->is_tunable)
        return HN_ERROR(HN_UNSUPPORTED, "a size of a kernel is known only when the program runs");
    HN_TRY(hn_variant_sizes_list(of, id, NULL, &d->arena, sizes));
    *out = hn_variant_sizes_at(sizes, 0);
    return NULL;
}

static hn_status start_part(hn_driver *d, chain *c, uint32_t k) {
    const hn_variants_of of = of_part(d, c, c->parts[k]);
    hn_forms_options options = {
        .device = {.kind = of.target->kind->device, .number = of.target->device},
        .threads = (int)of.threads};
    HN_TRY(sizes_of(d, &of, &options.sizes));
    c->started = k + 1;
    HN_TRY(hn_forms_alone_begin(d, of.target, of.program, of.kernel, &c->parts[k]->code, &options,
                                &c->alone[k]));
    c->subjects[k] = &c->alone[k].subject.face;
    c->kernels[k] = &c->alone[k].kernel;
    return NULL;
}

static hn_status start(hn_driver *d, chain *c) {
    for (uint32_t k = 0; k < c->count; k++) HN_TRY(start_part(d, c, k));
    return NULL;
}

static void end(chain *c) {
    for (uint32_t k = 0; k < c->started; k++) hn_forms_alone_end(&c->alone[k]);
}

/* Times that somebody says: hn_driver.timer. */
static hn_status race_told(const hn_driver *d, hn_str name, hn_bench_report **out) {
    const hn_bench_options bench = {
        .budget_ns = race_ns, .now_ns = d->timer->now_ns, .clock_user = d->timer->user};
    hn_bench_candidate candidates[HN_FUSION_FORMS];
    hn_told_form tellers[HN_FUSION_FORMS];
    for (uint32_t k = 0; k < HN_FUSION_FORMS; k++) {
        tellers[k] = (hn_told_form){d, {.kernel = name, .form = &hn_fusion_forms[k]}};
        candidates[k] = (hn_bench_candidate){
            .name = hn_fusion_forms[k].name.ptr, .user = &tellers[k], .run_timed = hn_told_ask};
    }
    return hn_bench(&bench, candidates, HN_FUSION_FORMS, out);
}

/* What a program takes for each kernel besides. */
static double call_ns(const hn_target *target) {
    return target->cpu ? target->cpu->call_ns : target->gpu->launch_ns;
}

static hn_status race(hn_driver *d, hn_str name, chain *fused, chain *apart,
                      hn_bench_report **out) {
    if (d->timer) return race_told(d, name, out);
    HN_TRY(start(d, fused));
    HN_TRY(start(d, apart));
    const double each = call_ns(&d->levels[0].target);
    const hn_bench_chain chains[HN_FUSION_FORMS] = {
        {"fused", fused->subjects, fused->kernels, fused->count, fused->count * each},
        {"apart", apart->subjects, apart->kernels, apart->count, apart->count * each}};
    return hn_bench_chains(&(hn_bench_options){.budget_ns = race_ns}, chains, HN_FUSION_FORMS, out);
}

/* ---- what came out ---- */

static void fill_form(const hn_bench_report *report, uint32_t k, double expected_ns,
                      hn_form_timing *out) {
    const hn_bench_result *r = &report->results[k];
    const double to = report->results[report->winner].ratio;
    *out = (hn_form_timing){.form = hn_fusion_forms[k], .predicted_ns = expected_ns};
    if (r->state == HN_BENCH_DROPPED) {
        out->dropped = HN_STR("it failed");
        return;
    }
    out->median_ns = r->median_ns, out->low_ns = r->low_ns, out->high_ns = r->high_ns;
    out->samples = r->samples ? r->samples : 1;
    if (!(to > 0) || !(r->ratio > 0)) return;
    out->ratio = out->ratio_low = out->ratio_high = r->ratio / to;
}

static hn_status keep(tuning *x, const hn_fusion_pair *p, hn_str name,
                      const hn_bench_report *report, const chain *fused, const chain *apart) {
    hn_form_timing *forms;
    hn_tuning_record *r;
    HN_NEW(&x->d->arena, forms, HN_FUSION_FORMS);
    HN_NEW(&x->d->arena, r, 1);
    fill_form(report, HN_FUSION_FUSED, fused->expected_ns, &forms[HN_FUSION_FUSED]);
    fill_form(report, HN_FUSION_APART, apart->expected_ns, &forms[HN_FUSION_APART]);
    *r = (hn_tuning_record){.kernel = name,
                            .digest = hn_fusion_digest(p),
                            .forms = forms,
                            .form_count = HN_FUSION_FORMS,
                            .pick = report->winner,
                            .how = HN_TUNING_TIMED,
                            .tool = HN_STR("henry " HENRY_VERSION_STRING)};
    HN_TRY(hn_driver_picks_device(x->d, &x->d->levels[0], &r->device));
    HN_TRY(hn_tuning_record_check(r));
    HN_TRY(hn_tuning_list_add(&x->d->picks->decided, r));
    return hn_tuning_list_add(&x->d->picks->used, r);
}

static void put_names(const chain *c, hn_strbuf *out) {
    for (uint32_t k = 0; k < c->count; k++)
        hn_strbuf_printf(out, "%s%s", k ? " " : "", c->parts[k]->code.name);
}

/* A row of the table slow_fusion. */
static hn_status add_row(hn_driver *d, hn_str name, const hn_bench_report *report,
                         const chain *fused, const chain *apart) {
    const double together = report->results[HN_FUSION_FUSED].median_ns,
                 alone = report->results[HN_FUSION_APART].median_ns;
    hn_strbuf texts[2];
    for (uint32_t k = 0; k < 2; k++) hn_strbuf_init(&texts[k]);
    put_names(fused, &texts[0]);
    put_names(apart, &texts[1]);
    const hn_cell cells[] = {hn_cell_none(),          hn_cell_text(hn_strbuf_str(&texts[0])),
                             hn_cell_float(together), hn_cell_text(hn_strbuf_str(&texts[1])),
                             hn_cell_float(alone),    hn_cell_float(together / alone),
                             hn_cell_text(name),      hn_cell_none(),
                             hn_cell_none(),          hn_cell_none(),
                             hn_cell_none()};
    hn_status status =
        hn_tables_add(&d->tables, HN_TABLE_SLOW_FUSION, cells, sizeof cells / sizeof *cells);
    for (uint32_t k = 0; k < 2; k++) hn_strbuf_deinit(&texts[k]);
    return status;
}

/* ---- one pair ---- */

static hn_status name_pair(hn_driver *d, const hn_fusion_pair *p, hn_str *out) {
    const char *text = hn_arena_printf(&d->arena, HN_STR_FMT " and " HN_STR_FMT, HN_STR_ARG(p->a),
                                       HN_STR_ARG(p->b));
    *out = hn_str_of(text ? text : "");
    return text ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the name of a fusion");
}

/* `*out_apart`: the kernels are certainly faster apart. */
static hn_status compare(tuning *x, hn_fusion_pair *p, chain *fused, chain *apart,
                         bool *out_apart) {
    hn_bench_report *report = NULL;
    hn_str name;
    HN_TRY(name_pair(x->d, p, &name));
    HN_TRY(expect(x->d, fused));
    HN_TRY(expect(x->d, apart));
    if (apart->expected_ns > FUSION_MARGIN * fused->expected_ns) return NULL;
    hn_status status = race(x->d, name, fused, apart, &report);
    if (report) x->d->fusion->timed_calls += report->timed_calls;
    if (!status) status = keep(x, p, name, report, fused, apart);
    p->is_timed = !status;
    if (!status) *out_apart = report->winner == HN_FUSION_APART;
    if (!status && *out_apart) status = add_row(x->d, name, report, fused, apart);
    if (!status)
        hn_log("tune", HN_LOG_INFO, HN_STR_FMT ": %s; together %.0f ns, apart %.0f ns",
               HN_STR_ARG(name), *out_apart ? "apart" : "fused", report->results[0].median_ns,
               report->results[1].median_ns);
    hn_bench_report_destroy(report);
    return status;
}

/* What takes the pair out of the tuning, and not all of it. */
static hn_status set_aside(hn_status status) {
    const hn_code code = hn_status_code(status);
    if (!status || code == HN_OUT_OF_MEMORY || code == HN_CANCELLED) return status;
    hn_log("tune", HN_LOG_INFO, "a fusion is not tuned: %s", hn_status_message(status));
    hn_status_free(status);
    return NULL;
}

static hn_status try_pair(tuning *x, hn_fusion_pair *p) {
    version without;
    chain *fused, *apart;
    bool is_apart = false;
    HN_NEW(&x->d->arena, fused, 1);
    HN_NEW(&x->d->arena, apart, 1);
    p->is_apart = true;
    HN_TRY(make_version(x->d, &without));
    if (list_others(&x->now, &without, fused) && list_others(&without, &x->now, apart))
        HN_TRY(set_aside(compare(x, p, fused, apart, &is_apart)));
    end(fused);
    end(apart);
    p->is_apart = is_apart;
    if (is_apart) x->now = without;
    return NULL;
}

/* What one pair is about may change when another one is apart, and further ones appear: so those
 * that were not timed are looked at again, until nothing changes. */
static hn_status try_all(tuning *x) {
    hn_driver_fusion *f = x->d->fusion;
    bool changes = true;
    while (changes) {
        changes = false;
        for (uint32_t k = 0; k < f->count && hn_tune_now(x->d) < x->end_ns; k++) {
            if (f->pairs[k].is_known || f->pairs[k].is_timed) continue;
            HN_TRY(try_pair(x, &f->pairs[k]));
            changes |= f->pairs[k].is_apart;
        }
    }
    x->d->program = x->now.program;
    x->d->schedule = x->now.schedule;
    return NULL;
}

static hn_status tune(tuning *x) {
    hn_scope *around = x->d->scope;
    HN_TRY(make_version(x->d, &x->now));
    HN_TRY(hn_scope_create(x->d->service, &x->d->scope));
    hn_status status = try_all(x);
    hn_scope_destroy(x->d->scope);
    x->d->scope = around;
    return status;
}

hn_status hn_driver_tune_fusion(hn_driver *d) {
    enum { PART = 2 }; /* of the budget: forms have the rest */
    tuning x = {.d = d, .end_ns = d->tune_begin_ns + hn_tune_budget(d) / PART};
    if (!d->fusion || d->limits || HN_OPT(&d->options, tune) == HN_TUNE_KNOWN ||
        !HN_OPT(&d->options, tune_fusion) || HN_OPT(&d->options, no_fusion) ||
        !hn_driver_can_run(&d->levels[0].target))
        return NULL;
    return tune(&x);
}
