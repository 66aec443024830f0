/* module_tune.c: hn_module_tune: the forms that a bundle was shipped with race where it runs, and
 * its tables are made again of their times. */
#include "tune/choice.h"
#include "tune/device.h"
#include "tune/list.h"
#include "tune/shipped.h"

#include "base/compiler.h"
#include "base/log.h"
#include "base/require.h"
#include "base/trace.h"
#include "bundle/retable.h"
#include "henry/version.h"
#include "runtime/module_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t usual_budget_ns = 30000000000, least_budget_ns = 1000000;

/* Steps that do the same: they race once. */
typedef struct job {
    hn_shipped s; /* of the first one */
    hn_digest digest;
    struct {
        uint32_t *items;
        uint32_t count, cap;
    } choices;                 /* of the bundle, of all of them */
    hn_bench_report **reports; /* per sample; NULL: it was not timed */
    struct {
        const hn_tuning_record **items;
        uint32_t count, cap;
    } records; /* of the samples that were timed */
} job;

typedef struct tuning {
    hn_module_tuning face;
    hn_arena arena;
    hn_module *m;
    const hn_bench_options *bench;
    int64_t end_ns;
    struct {
        job **items;
        uint32_t count, cap;
    } jobs;
    hnb_choice *choices;
    struct {
        hn_choice_box *items;
        uint32_t count, cap;
    } boxes;
    hn_tuning_list records;
    hn_strbuf image;
} tuning;

/* ---- what there is to choose ---- */

static job *find_job(const tuning *t, const hn_digest *digest) {
    for (uint32_t k = 0; k < t->jobs.count; k++)
        if (memcmp(&t->jobs.items[k]->digest, digest, sizeof *digest) == 0) return t->jobs.items[k];
    return NULL;
}

/* What cannot be made up stays as it is. */
static hn_status add_choice(tuning *t, uint32_t number) {
    job *own, *found;
    bool is_tunable;
    HN_NEW(&t->arena, own, 1);
    HN_TRY(
        hn_shipped_init(&t->m->view, &t->m->view.choices[number], &t->arena, &own->s, &is_tunable));
    if (!is_tunable) return NULL;
    hn_status status = hn_shipped_digest(&own->s, &t->arena, &own->digest);
    if (hn_status_code(status) == HN_UNSUPPORTED) {
        hn_status_free(status);
        return NULL;
    }
    HN_TRY(status);
    found = find_job(t, &own->digest);
    if (!found) {
        HN_NEW(&t->arena, own->reports, own->s.sample_count);
        HN_PUSH(&t->arena, &t->jobs, own);
        found = own;
    }
    HN_PUSH(&t->arena, &found->choices, number);
    return NULL;
}

static bool is_wanted(const tuning *t, const hnb_choice *choice) {
    return choice->target == t->m->target && choice->head.variant_count > 1;
}

static hn_status list_jobs(tuning *t) {
    const hn_bundle *b = &t->m->view;
    for (uint32_t k = 0; k < b->choices_count; k++)
        if (is_wanted(t, &b->choices[k])) HN_TRY(add_choice(t, k));
    if (t->jobs.count) return NULL;
    return HN_ERROR(HN_UNSUPPORTED, "nothing in the program has several forms to choose among; "
                                    "compile the model with --forms N (forms_shipped)");
}

/* ---- races ---- */

static const char *node_of(const job *j) {
    return hn_bundle_text(j->s.b, j->s.b->origins[j->s.step->origin].node);
}

static hn_device device_of(const tuning *t, hn_device_kind kind) {
    return (hn_device){.kind = kind, .number = hn_places_number_of(t->m, kind)};
}

static hn_status race_kernels(tuning *t, const job *j, const hn_bench_options *options,
                              hn_arena *scratch, hn_bench_report **out) {
    hn_bench_subject subject;
    hn_bench_kernel *kernels;
    HN_TRY(hn_shipped_subject(&j->s, scratch, &subject, &kernels));
    subject.device = device_of(t, t->m->device->ops->kind);
    subject.threads = t->m->threads;
    return hn_bench_kernels(options, &subject, kernels, j->s.choice->head.variant_count, out);
}

static hn_status race_calls(tuning *t, const job *j, const hn_bench_options *options,
                            hn_arena *scratch, hn_bench_report **out) {
    hn_call_subject subject;
    hn_ext_form *forms;
    const char **names;
    HN_TRY(hn_shipped_call(&j->s, scratch, &subject, &forms, &names));
    subject.device = device_of(t, (hn_device_kind)j->s.step->device);
    subject.threads = t->m->threads;
    return hn_bench_call_forms(options, &subject, forms, names, j->s.choice->head.variant_count,
                               out);
}

static hn_status race(tuning *t, job *j, uint32_t sample, int64_t budget_ns) {
    hn_bench_options options = t->bench ? *t->bench : (hn_bench_options){.budget_ns = 0};
    const bool is_kernel = j->s.step->kind == HNB_STEP_KERNEL;
    hn_arena scratch;
    options.budget_ns = budget_ns;
    hn_arena_init(&scratch);
    hn_shipped_at(&j->s, sample);
    hn_status status =
        (is_kernel ? race_kernels : race_calls)(t, j, &options, &scratch, &j->reports[sample]);
    hn_arena_deinit(&scratch);
    if (!status) t->face.timed_calls += j->reports[sample]->timed_calls;
    const hn_code code = hn_status_code(status);
    if (code == HN_OK || code == HN_OUT_OF_MEMORY || code == HN_CANCELLED) return status;
    hn_log("tune", HN_LOG_WARN, "the forms of '%s' stay as they are: %s", node_of(j),
           hn_status_message(status));
    hn_status_free(status);
    return NULL;
}

static uint32_t count_races(const tuning *t) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < t->jobs.count; k++) count += t->jobs.items[k]->s.sample_count;
    return count;
}

/* The sizes of the export of all kernels first. What is left is shared out evenly. */
static hn_status race_all(tuning *t) {
    uint32_t left = count_races(t);
    t->face.is_complete = true;
    for (uint32_t sample = 0; sample < HN_SHIPPED_SAMPLES; sample++)
        for (uint32_t k = 0; k < t->jobs.count; k++) {
            job *j = t->jobs.items[k];
            if (sample >= j->s.sample_count) continue;
            const int64_t budget_ns = (t->end_ns - hn_now_ns()) / left--;
            if (budget_ns < least_budget_ns) t->face.is_complete = false;
            else HN_TRY(race(t, j, sample, budget_ns));
        }
    return NULL;
}

/* ---- records ---- */

static hn_form_name form_name(const char *text) {
    const size_t len = strcspn(text, " ");
    return (hn_form_name){{text, len}, hn_str_of(text[len] ? text + len + 1 : "")};
}

static hn_status describe_device(tuning *t, hn_str *out) {
    const hn_module *m = t->m;
    const hn_tuning_code code = {.target =
                                     hn_bundle_text(&m->view, m->view.targets[m->target].name)};
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (m->device->ops->kind == HN_DEVICE_CPU) hn_tuning_device_host(&code, m->threads, &text);
    else hn_tuning_device_of(m->device, &code, &text);
    hn_status status = hn_strbuf_status(&text);
    const char *copy = status ? NULL : hn_arena_strndup(&t->arena, text.ptr, text.len);
    if (!status && !copy) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a device's name");
    if (copy) *out = (hn_str){copy, text.len};
    hn_strbuf_deinit(&text);
    return status;
}

/* By the ratio to the winner; of who has no round with the fastest there are no bounds. */
static void fill_form(const hn_bench_report *report, uint32_t v, hn_form_timing *out) {
    const hn_bench_result *result = &report->results[v];
    const double to = report->results[report->winner].ratio;
    *out = (hn_form_timing){.form = form_name(result->name)};
    if (result->state == HN_BENCH_DROPPED) {
        out->dropped = HN_STR("it failed");
        return;
    }
    out->median_ns = result->median_ns;
    out->low_ns = result->low_ns;
    out->high_ns = result->high_ns;
    out->samples = result->samples ? result->samples : 1;
    if (!(to > 0) || !(result->ratio > 0)) return;
    out->ratio = out->ratio_low = out->ratio_high = result->ratio / to;
    if (v == report->winner) return;
    if (result->ratio_low > 0) out->ratio_low = result->ratio_low / to;
    if (isfinite(result->ratio_high)) out->ratio_high = result->ratio_high / to;
}

static hn_status add_record(tuning *t, job *j, uint32_t sample, hn_str device) {
    const hn_bench_report *report = j->reports[sample];
    hn_form_timing *forms;
    hn_tuning_record *r;
    HN_NEW(&t->arena, r, 1);
    *r = (hn_tuning_record){.kernel = hn_str_of(node_of(j)),
                            .digest = j->digest,
                            .size_count = j->s.symbol_count,
                            .device = device,
                            .form_count = report->count,
                            .pick = report->winner,
                            .how = HN_TUNING_TIMED,
                            .tool = HN_STR("henry " HENRY_VERSION_STRING)};
    HN_NEW(&t->arena, forms, report->count);
    for (uint32_t v = 0; v < report->count; v++) fill_form(report, v, &forms[v]);
    for (uint32_t k = 0; k < r->size_count; k++) {
        const hnb_str name = j->s.b->symbols[j->s.symbols[k]].name;
        r->symbols[k] = (hn_str){hn_bundle_text(j->s.b, name), name.len};
        r->sizes[k] = j->s.sizes[(size_t)sample * r->size_count + k];
    }
    r->forms = forms;
    HN_PUSH(&t->arena, &j->records, r);
    return hn_tuning_list_add(&t->records, r);
}

static hn_status make_records(tuning *t) {
    hn_str device = {NULL, 0};
    HN_TRY(describe_device(t, &device));
    hn_tuning_list_init(&t->records, &t->arena);
    for (uint32_t k = 0; k < t->jobs.count; k++)
        for (uint32_t s = 0; s < t->jobs.items[k]->s.sample_count; s++)
            if (t->jobs.items[k]->reports[s]) HN_TRY(add_record(t, t->jobs.items[k], s, device));
    return NULL;
}

/* ---- tables ---- */

/* Of the sizes that were timed, in the order of the module's variants. */
static hn_status list_times(tuning *t, const job *j, hn_choice_times *out) {
    const uint32_t variants = j->s.choice->head.variant_count;
    hn_form_name *names;
    HN_NEW(&t->arena, names, variants);
    for (uint32_t v = 0; v < variants; v++) names[v] = j->records.items[0]->forms[v].form;
    return hn_choice_times_of(j->records.items, j->records.count, names, variants, &t->arena, out);
}

static hn_status put_table(tuning *t, hnb_choice *choice, const hn_choice *head,
                           const hn_choice_box *boxes) {
    choice->head = *head;
    choice->boxes = t->boxes.count;
    for (uint32_t k = 0; k < head->box_count; k++) HN_PUSH(&t->arena, &t->boxes, boxes[k]);
    return NULL;
}

static const job *job_of(const tuning *t, uint32_t number) {
    for (uint32_t k = 0; k < t->jobs.count; k++)
        for (uint32_t c = 0; c < t->jobs.items[k]->choices.count; c++)
            if (t->jobs.items[k]->choices.items[c] == number) return t->jobs.items[k];
    return NULL;
}

/* The axes are those of this step: another one that does the same may have other symbols. */
static hn_status decide(tuning *t, const job *j, uint32_t number) {
    hn_choice_times times;
    hn_choice_made made;
    hn_shipped own;
    bool is_tunable;
    HN_TRY(list_times(t, j, &times));
    HN_TRY(hn_choice_make(&times, &t->arena, &made));
    HN_TRY(hn_shipped_init(&t->m->view, &t->m->view.choices[number], &t->arena, &own, &is_tunable));
    hnb_choice *choice = &t->choices[number];
    memset(choice->axes, 0, sizeof choice->axes);
    for (uint32_t d = 0; d < made.table.head.axis_count; d++)
        choice->axes[d] = own.axes[made.axes[d]];
    return put_table(t, choice, &made.table.head, made.table.boxes);
}

static hn_status make_tables(tuning *t) {
    const hn_bundle *b = &t->m->view;
    HN_NEW(&t->arena, t->choices, b->choices_count);
    for (uint32_t k = 0; k < b->choices_count; k++) {
        const job *j = job_of(t, k);
        t->choices[k] = b->choices[k];
        if (j && j->records.count) HN_TRY(decide(t, j, k));
        else
            HN_TRY(
                put_table(t, &t->choices[k], &b->choices[k].head, b->boxes + b->choices[k].boxes));
    }
    return NULL;
}

/* ---- the result ---- */

static hn_status name_sizes(tuning *t, const job *j, uint32_t sample, const char **out) {
    const char *text = "";
    for (uint32_t k = 0; k < j->s.symbol_count && text; k++)
        text = hn_arena_printf(&t->arena, "%s%s%s=%lld", text, k ? " " : "",
                               hn_bundle_text(j->s.b, j->s.b->symbols[j->s.symbols[k]].name),
                               (long long)j->s.sizes[(size_t)sample * j->s.symbol_count + k]);
    *out = text;
    return text ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the result of a tuning");
}

static hn_status list_races(tuning *t) {
    hn_module_race *races;
    HN_NEW(&t->arena, races, count_races(t) + 1u);
    for (uint32_t k = 0; k < t->jobs.count; k++) {
        job *j = t->jobs.items[k];
        for (uint32_t s = 0; s < j->s.sample_count; s++) {
            if (!j->reports[s]) continue;
            hn_module_race *r = &races[t->face.race_count++];
            hn_shipped_at(&j->s, s);
            *r = (hn_module_race){
                .node = node_of(j),
                .steps = j->choices.count,
                .report = j->reports[s],
                .was = hn_bundle_choice_pick(j->s.b, j->s.choice, j->s.numbers, j->s.bad)};
            HN_TRY(name_sizes(t, j, s, &r->sizes));
        }
    }
    t->face.races = races;
    t->face.kernel_count = t->jobs.count;
    return NULL;
}

static hn_status make_image(tuning *t) {
    hn_strbuf records;
    hn_strbuf_init(&records);
    hn_tuning_list_print(&t->records, &records);
    hn_status status = hn_strbuf_status(&records);
    if (!status)
        status = hn_bundle_retable(&t->m->view,
                                   &(hn_bundle_tables){.choices = t->choices,
                                                       .boxes = t->boxes.items,
                                                       .box_count = t->boxes.count,
                                                       .tuning = hn_strbuf_str(&records)},
                                   &t->image);
    hn_strbuf_deinit(&records);
    t->face.image = t->image.ptr;
    t->face.image_len = t->image.len;
    return status;
}

static hn_status tune(tuning *t, int64_t budget_ns) {
    const int64_t begin_ns = hn_now_ns();
    t->end_ns = begin_ns + budget_ns;
    HN_TRY(list_jobs(t));
    HN_TRY(race_all(t));
    t->face.elapsed_ns = hn_now_ns() - begin_ns;
    HN_TRY(make_records(t));
    HN_TRY(make_tables(t));
    HN_TRY(list_races(t));
    return make_image(t);
}

hn_status hn_module_tune(hn_module *module, const hn_module_tune_options *options,
                         hn_module_tuning **out) {
    HN_REQUIRE(module, "module");
    HN_REQUIRE(out, "out");
    *out = NULL;
    if (options && options->budget_ns < 0)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'budget_ns' is %lld, must not be negative",
                        (long long)options->budget_ns);
    tuning *t = calloc(1, sizeof *t);
    if (!t) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a tuning");
    hn_arena_init(&t->arena);
    hn_strbuf_init(&t->image);
    t->m = module;
    t->bench = options ? options->bench : NULL;
    hn_status status =
        tune(t, options && options->budget_ns ? options->budget_ns : usual_budget_ns);
    if (!status) *out = &t->face;
    else hn_module_tuning_destroy(&t->face);
    return status;
}

void hn_module_tuning_destroy(hn_module_tuning *face) {
    tuning *t = (tuning *)face;
    if (!t) return;
    for (uint32_t k = 0; k < t->jobs.count; k++)
        for (uint32_t s = 0; s < t->jobs.items[k]->s.sample_count; s++)
            hn_bench_report_destroy(t->jobs.items[k]->reports[s]);
    hn_strbuf_deinit(&t->image);
    hn_arena_deinit(&t->arena);
    free(t);
}
