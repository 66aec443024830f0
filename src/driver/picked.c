/* picked.c: see picked.h. */
#include "driver/picked.h"

#include "base/cpu.h"
#include "base/log.h"
#include "driver/call_forms.h"
#include "driver/multi.h"
#include "tune/choice.h"
#include "tune/device.h"

/* ---- kernels ---- */

hn_status hn_tunable_identify(hn_driver *d, const hn_target *target, const hn_kernel *kernel,
                              hn_arena *arena, hn_tunable *out) {
    *out = (hn_tunable){.of = {.program = d->program, .kernel = kernel, .target = target},
                        .name = d->graph->origins.items[kernel->origin].node};
    if (target->cpu) out->of.threads = hn_options_threads(&d->options);
    return hn_kernel_identify(&out->of, arena, &out->id);
}

hn_status hn_tunable_identify_call(hn_driver *d, const hn_target *target, hn_item call,
                                   hn_arena *arena, hn_tunable *out) {
    const hn_item_info *item = &d->program->items.items[call];
    *out = (hn_tunable){.of = {.program = d->program, .call = item->ext, .target = target},
                        .name = d->graph->origins.items[item->origin].node};
    if (target->kind->device == HN_DEVICE_CPU) out->of.threads = hn_options_threads(&d->options);
    return hn_kernel_identify(&out->of, arena, &out->id);
}

hn_status hn_tunable_complete(hn_tunable *t, hn_arena *arena) {
    if (t->id.is_tunable) {
        HN_TRY(hn_variant_sizes_list(&t->of, &t->id, NULL, arena, &t->sizes));
        HN_TRY(hn_variants_over(&t->of, &t->sizes, 0, arena, &t->set));
    } else {
        HN_TRY(hn_variants_list(&t->of, NULL, 1, arena, &t->set));
    }
    for (uint32_t k = 0; k < t->set.count; k++) t->names[k] = t->set.items[k].name;
    return hn_variant_planned(&t->of, arena, &t->planned);
}

/* ---- devices ---- */

bool hn_driver_can_run(const hn_target *target) {
    const hn_device device = {.kind = target->kind->device, .number = target->device};
    if (device.kind != HN_DEVICE_CPU) return hn_tuning_device_find(device, NULL, NULL);
    const hn_cpu_level *level = hn_cpu_level_named(hn_str_of(target->name)),
                       *host = hn_cpu_level_host();
    return level && level->machine == host->machine && level->vector_bytes <= host->vector_bytes;
}

/* "gcc (Debian 12.2.0) 12.2.0 (DIGEST)" without the digest; empty: there is no compiler. */
static hn_status put_compiler(hn_driver *d, const hn_target *target, hn_strbuf *out) {
    hn_status status = hn_service_toolchain_identity(d->service, target->kind->language, out);
    const char *digest = status || !out->ptr ? NULL : strrchr(out->ptr, '(');
    if (digest > out->ptr) out->ptr[digest - out->ptr - 1] = 0;
    if (hn_status_code(status) == HN_OUT_OF_MEMORY) return status;
    hn_status_free(status);
    return NULL;
}

hn_status hn_driver_tuning_device(hn_driver *d, const hn_target *target, hn_strbuf *out) {
    hn_strbuf compiler;
    hn_strbuf_init(&compiler);
    hn_status status = put_compiler(d, target, &compiler);
    const hn_tuning_code code = {.target = target->name, .compiler = compiler.ptr};
    const hn_device device = {.kind = target->kind->device, .number = target->device};
    if (device.kind == HN_DEVICE_CPU)
        hn_tuning_device_host(&code, (int)hn_options_threads(&d->options), out);
    else (void)hn_tuning_device_find(device, &code, out);
    hn_strbuf_deinit(&compiler);
    return status ? status : hn_strbuf_status(out);
}

/* ---- records ---- */

hn_status hn_driver_picks_device(hn_driver *d, const hn_driver_level *level, hn_str *out) {
    hn_str *device = &d->picks->devices[level - d->levels];
    hn_strbuf text;
    if (!device->ptr) {
        hn_strbuf_init(&text);
        hn_status status = hn_driver_tuning_device(d, &level->target, &text);
        const char *copy =
            status ? NULL : hn_arena_strndup(&d->arena, hn_strbuf_str(&text).ptr, text.len);
        if (!status && !copy) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a device's name");
        if (copy) *device = (hn_str){copy, text.len};
        hn_strbuf_deinit(&text);
        if (status) return status;
    }
    *out = *device;
    return NULL;
}

bool hn_driver_picks_are_off(const hn_driver *d) {
    const char *file = HN_OPT(&d->options, tuning);
    return HN_OPT(&d->options, deterministic) || (file && !*file);
}

hn_status hn_driver_picks_begin(hn_driver *d) {
    const char *file = HN_OPT(&d->options, tuning);
    hn_tuning_damage damage;
    hn_size_hints *hints;
    HN_NEW(&d->arena, d->picks, 1);
    HN_NEW(&d->arena, hints, 1);
    HN_TRY(hn_size_hints_parse(d, hints));
    d->hints = hints;
    hn_tuning_list_init(&d->picks->file, &d->arena);
    hn_tuning_list_init(&d->picks->used, &d->arena);
    hn_tuning_list_init(&d->picks->decided, &d->arena);
    HN_TRY(hn_driver_forced_begin(d));
    if (hn_driver_picks_are_off(d)) return NULL;
    if (file) HN_TRY(hn_tuning_list_read(&d->picks->file, file));
    if (HN_OPT(&d->options, tune) != HN_TUNE_KNOWN) return NULL;
    HN_TRY(hn_tuning_list_parse(&d->picks->used, d->known_tuning, &damage));
    hn_tuning_damage_warn(&damage, "the cache");
    for (uint32_t k = 0; k < d->picks->file.count; k++)
        HN_TRY(hn_tuning_list_add(&d->picks->used, &d->picks->file.items[k]));
    return NULL;
}

/* ---- picks ---- */

void hn_tunable_want(const hn_tunable *t, hn_str device, hn_picks_wanted *out) {
    *out = (hn_picks_wanted){.kernel = t->name,
                             .digest = t->id.digest,
                             .forms = t->names,
                             .form_count = t->set.count,
                             .device = device,
                             .size_count = t->id.symbol_count};
}

static bool is_listed(const hn_form_name *names, uint32_t count, const hn_form_name *name) {
    for (uint32_t k = 0; k < count; k++)
        if (hn_form_name_eq(&names[k], name)) return true;
    return false;
}

/* Forms that were timed at any sizes, each once; at most HN_CHOICE_VARIANTS. */
static uint32_t list_timed(const hn_tuning_list *records, hn_form_name *out) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < records->count; k++) {
        const hn_tuning_record *r = &records->items[k];
        for (uint32_t f = 0; f < r->form_count && count < HN_CHOICE_VARIANTS; f++)
            if ((r->forms[f].samples || f == r->pick) && !is_listed(out, count, &r->forms[f].form))
                out[count++] = r->forms[f].form;
    }
    return count;
}

/* One form for all sizes. */
static void choose_one(hn_choice_made *out) { out->table.head = (hn_choice){.variant_count = 1}; }

/* Of sizes that differ from call to call a table over what was measured, and what is expected of
 * the same forms where nothing was. */
static hn_status choose_over_sizes(const hn_tunable *t, const hn_tuning_list *records,
                                   hn_form_name *names, hn_arena *scratch, hn_choice_made *out) {
    const hn_tuning_record **list;
    hn_choice_times times;
    const uint32_t count = list_timed(records, names);
    HN_NEW(scratch, list, records->count);
    for (uint32_t k = 0; k < records->count; k++) list[k] = &records->items[k];
    HN_TRY(hn_choice_times_of(list, records->count, names, count, scratch, &times));
    HN_TRY(hn_picked_fill(t, records, names, scratch, &times));
    return hn_choice_make(&times, scratch, out);
}

/* What a tuning of the program may choose among where it runs. */
static void add_shipped(hn_driver *d, const hn_tunable *t, hn_multi *multi) {
    const int32_t most = HN_OPT(&d->options, forms_shipped);
    if (most < 2) return;
    multi->extras = t->names;
    multi->extra_count = t->set.count;
    /* all forms of a call are where it runs, and none takes room */
    multi->most = t->of.call ? HN_CHOICE_VARIANTS : (uint32_t)most;
}

/* Without a record: the forms that are expected to be the fastest run. */
static hn_status ship(hn_driver *d, const hn_driver_level *level, const hn_kernel *kernel,
                      hn_arena *scratch, hn_kernel_code *out, bool *out_is_known) {
    hn_tunable t;
    hn_choice_made made = {0};
    HN_TRY(hn_tunable_identify(d, &level->target, kernel, scratch, &t));
    if (!t.id.is_tunable) return NULL;
    HN_TRY(hn_tunable_complete(&t, scratch));
    hn_multi multi = {.names = &t.planned.name, .table = &made.table}, expected;
    bool is_multi;
    choose_one(&made);
    HN_TRY(hn_multi_expect(&t.of, d->hints, scratch, &expected, &is_multi));
    if (is_multi) multi = expected;
    add_shipped(d, &t, &multi);
    HN_TRY(hn_multi_print(&t.of, &multi, &d->arena, scratch, out));
    *out_is_known = true;
    return NULL;
}

static void mark_picked(hn_kernel_code *code) {
    code->is_picked = true;
    for (uint32_t v = 0; v < code->variant_count; v++) code->variants[v].is_picked = true;
}

/* A form of a record may have been a search's, and need not be in the set; but if it cannot be had
 * any more, the model of costs decides. */
static hn_status choose_form(hn_driver *d, const hn_tunable *t, const hn_tuning_list *records,
                             hn_arena *scratch, hn_kernel_code *out, bool *out_is_known) {
    const hn_tuning_record *r = &records->items[0];
    hn_form_name names[HN_CHOICE_VARIANTS] = {r->forms[r->pick].form};
    hn_choice_made made = {0};
    hn_multi multi = {.names = names, .table = &made.table};
    add_shipped(d, t, &multi);
    if (t->id.symbol_count) HN_TRY(choose_over_sizes(t, records, names, scratch, &made));
    else choose_one(&made);
    for (uint32_t k = 0; k < made.table.head.axis_count; k++)
        multi.axes[k] = t->id.symbols[made.axes[k]];
    hn_status status = hn_multi_print(&t->of, &multi, &d->arena, scratch, out);
    const hn_code code = hn_status_code(status);
    *out_is_known = !status;
    if (!status) mark_picked(out);
    out->tuned = t->id.digest;
    if (code != HN_NOT_FOUND && code != HN_INVALID_ARGUMENT) return status;
    hn_log("tune", HN_LOG_WARN, "kernel '" HN_STR_FMT "' has no such form as it was tuned with: %s",
           HN_STR_ARG(t->name), hn_status_message(status));
    hn_status_free(status);
    *out = (hn_kernel_code){0};
    return NULL;
}

static bool is_known(const hn_driver *d, const hn_digest *kernel) {
    uint32_t at = 0;
    return hn_tuning_list_next(&d->picks->used, kernel, &at) != NULL;
}

static hn_status find(hn_driver *d, const hn_driver_level *level, const hn_tunable *t,
                      hn_tuning_list *out) {
    hn_str device;
    hn_picks_wanted wanted;
    hn_picks_place place;
    HN_TRY(hn_driver_picks_device(d, level, &device));
    hn_tunable_want(t, device, &wanted);
    return hn_picks_find(&(hn_picks){.file = &d->picks->used}, &wanted, out, &place);
}

static hn_status pick(hn_driver *d, const hn_driver_level *level, hn_tunable *t, uint32_t origin,
                      hn_arena *scratch, hn_kernel_code *out, bool *out_is_known) {
    hn_tuning_list found;
    if (!is_known(d, &t->id.digest)) return NULL;
    HN_TRY(hn_tunable_complete(t, scratch));
    hn_tuning_list_init(&found, scratch);
    HN_TRY(find(d, level, t, &found));
    if (found.count &&
        !hn_limit_allows(hn_driver_limit(d), "a kernel has the forms that were measured (picked.c)",
                         origin, 0))
        return NULL;
    for (uint32_t k = 0; k < found.count; k++)
        HN_TRY(hn_tuning_list_add(&d->picks->decided, &found.items[k]));
    return found.count ? choose_form(d, t, &found, scratch, out, out_is_known) : NULL;
}

static bool has_records(const hn_driver *d) { return d->picks && d->picks->used.count; }

static hn_status pick_kernel(hn_driver *d, const hn_driver_level *level, const hn_kernel *kernel,
                             hn_arena *scratch, hn_kernel_code *out, bool *out_is_known) {
    hn_tunable t;
    if (!has_records(d)) return NULL;
    HN_TRY(hn_tunable_identify(d, &level->target, kernel, scratch, &t));
    return pick(d, level, &t, kernel->origin, scratch, out, out_is_known);
}

hn_status hn_driver_pick(hn_driver *d, const hn_driver_level *level, const hn_kernel *kernel,
                         hn_arena *scratch, hn_kernel_code *out, bool *out_is_known) {
    HN_TRY(hn_driver_force(d, level, kernel, scratch, out, out_is_known));
    if (!*out_is_known) HN_TRY(pick_kernel(d, level, kernel, scratch, out, out_is_known));
    if (*out_is_known || HN_OPT(&d->options, forms_shipped) < 2) return NULL;
    return ship(d, level, kernel, scratch, out, out_is_known);
}

/* The same of a call: it decides by itself. */
static hn_status ship_call(hn_driver *d, hn_tunable *t, hn_arena *scratch, hn_kernel_code *out) {
    hn_choice_made made = {0};
    hn_multi multi = {.names = &t->planned.name, .table = &made.table};
    if (!t->id.is_tunable || !hn_call_is_tunable(&t->of)) return NULL;
    HN_TRY(hn_tunable_complete(t, scratch));
    choose_one(&made);
    add_shipped(d, t, &multi);
    return hn_multi_print(&t->of, &multi, &d->arena, scratch, out);
}

static hn_status pick_or_ship(hn_driver *d, const hn_driver_level *level, hn_item call,
                              hn_arena *scratch, hn_kernel_code *out) {
    const bool ships = HN_OPT(&d->options, forms_shipped) > 1;
    hn_tunable t;
    bool is_known = false;
    if (!has_records(d) && !ships) return NULL;
    HN_TRY(hn_tunable_identify_call(d, &level->target, call, scratch, &t));
    if (has_records(d))
        HN_TRY(pick(d, level, &t, d->program->items.items[call].origin, scratch, out, &is_known));
    return is_known || !ships ? NULL : ship_call(d, &t, scratch, out);
}

hn_status hn_driver_pick_call(hn_driver *d, const hn_driver_level *level, hn_item call,
                              hn_arena *scratch, hn_kernel_code *out) {
    bool is_forced = false;
    HN_TRY(hn_driver_force_call(d, level, call, scratch, out, &is_forced));
    if (!is_forced) HN_TRY(pick_or_ship(d, level, call, scratch, out));
    const bool decides_itself =
        !out->variant_count && out->form && strcmp(out->form, hn_call_form_own) == 0;
    if (decides_itself) *out = (hn_kernel_code){0};
    return NULL;
}
