/* forced.c: see forced.h. */
#include "driver/forced.h"

#include "base/compiler.h"
#include "base/log.h"
#include "driver/call_forms.h"
#include "driver/multi.h"
#include "driver/picked.h"
#include "henry/version.h"

#include <ctype.h>

/* ---- rules ---- */

static hn_str trim(hn_str text) {
    while (text.len && text.ptr[0] == ' ') text.ptr++, text.len--;
    while (text.len && text.ptr[text.len - 1] == ' ') text.len--;
    return text;
}

static hn_status add_rule(hn_driver *d, hn_str text) {
    hn_forced *f = &d->picks->forced;
    const char *equals = text.len ? memchr(text.ptr, '=', text.len) : NULL;
    hn_forced_rule *rule = &f->rules[f->count];
    if (!text.len) return NULL;
    if (equals) {
        rule->pattern = trim((hn_str){text.ptr, (size_t)(equals - text.ptr)});
        rule->form = trim((hn_str){equals + 1, text.len - (size_t)(equals + 1 - text.ptr)});
    }
    if (!rule->pattern.len || !rule->form.len)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot read the form '" HN_STR_FMT "'; it is PATTERN=FORM, as in "
                        "softmax=rows or 'sum*=columns vectors=2'",
                        HN_STR_ARG(text));
    f->count++;
    return NULL;
}

hn_status hn_driver_forced_begin(hn_driver *d) {
    const char *at = hn_options_forms(&d->options);
    uint32_t most = 1;
    for (const char *c = at; *c; c++) most += *c == ';';
    HN_NEW(&d->arena, d->picks->forced.rules, most);
    hn_strmap_init(&d->picks->forced.nodes, &d->arena);
    while (true) {
        const size_t len = strcspn(at, ";");
        HN_TRY(add_rule(d, trim((hn_str){at, len})));
        if (!at[len]) return NULL;
        at += len + 1;
    }
}

/* ---- whose rule ---- */

hn_str hn_node_operation(hn_str node) {
    size_t len = node.len;
    while (len && isdigit((unsigned char)node.ptr[len - 1])) len--;
    const bool is_numbered = len < node.len && len > 1 && node.ptr[len - 1] == '_';
    return (hn_str){node.ptr, is_numbered ? len - 1 : node.len};
}

static bool matches_node(const hn_driver *d, hn_str pattern, uint32_t origin) {
    const hn_str node = d->graph->origins.items[origin].node;
    return hn_str_matches(pattern, node) || hn_str_matches(pattern, hn_node_operation(node));
}

/* `name`: of the function that the kernel has without a rule. */
static bool matches(const hn_driver *d, const hn_kernel *kernel, hn_str pattern, const char *name) {
    bool found =
        hn_str_matches(pattern, hn_str_of(name)) || matches_node(d, pattern, kernel->origin);
    for (uint32_t k = 0; k < kernel->origins.count && !found; k++)
        found = matches_node(d, pattern, kernel->origins.items[k]);
    return found;
}

static hn_str kind_of(hn_str form) {
    const char *blank = memchr(form.ptr, ' ', form.len);
    return (hn_str){form.ptr, blank ? (size_t)(blank - form.ptr) : form.len};
}

/* Kinds that only calls of operations have; of convolutions `rows` is a kind, too. */
static bool is_of_calls(hn_str form) {
    const hn_str kind = kind_of(form);
    return hn_call_form_is_kind(kind) && !hn_str_eq(kind, HN_STR("rows"));
}

static hn_status note_name(hn_driver *d, uint32_t origin) {
    return hn_strmap_put(&d->picks->forced.nodes,
                         hn_node_operation(d->graph->origins.items[origin].node), 1);
}

static hn_status find_rule(hn_driver *d, const hn_driver_level *level, const hn_kernel *kernel,
                           hn_arena *scratch, hn_forced_rule **out) {
    hn_forced *f = &d->picks->forced;
    hn_kernel_code code;
    HN_TRY(hn_target_print(&level->target, d->program, kernel, scratch, scratch, &code));
    for (uint32_t k = 0; k < f->count; k++) {
        if (is_of_calls(f->rules[k].form) || !matches(d, kernel, f->rules[k].pattern, code.name))
            continue;
        f->rules[k].is_used = true;
        *out = &f->rules[k];
        return NULL;
    }
    return note_name(d, kernel->origin);
}

static bool matches_call(const hn_driver *d, const hn_item_info *call, hn_str pattern) {
    bool found = matches_node(d, pattern, call->origin);
    for (uint32_t k = 0; k < call->ext->origins.count && !found; k++)
        found = matches_node(d, pattern, call->ext->origins.items[k]);
    return found;
}

static hn_status find_rule_of_call(hn_driver *d, const hn_item_info *call, hn_forced_rule **out) {
    hn_forced *f = &d->picks->forced;
    for (uint32_t k = 0; k < f->count; k++) {
        const hn_str kind = kind_of(f->rules[k].form);
        const bool is_meant = is_of_calls(f->rules[k].form) ||
                              (call->ext->kind == HN_EXTERN_CONV && hn_call_form_is_kind(kind));
        if (!is_meant || !matches_call(d, call, f->rules[k].pattern)) continue;
        f->rules[k].is_used = true;
        *out = &f->rules[k];
        return NULL;
    }
    return note_name(d, call->origin);
}

/* ---- forms ---- */

/* Short names, and what is meant on CPUs and on GPUs; NULL: no such form. */
static const struct {
    const char *alias, *cpu, *gpu;
} aliases[] = {
    {"persistent", "rows", "rows-kept"}, /* a CPU's caches keep the row */
    {"looped", NULL, "rows"},
    {"kept", NULL, "rows-kept"},
    {"pipelined", "rows-pipelined", NULL},
    {"split", "rows-split", "rows-over-blocks"},
    {"slabs", "slabs-of-rows", "slabs-of-rows"},
    {"strips", "strips-of-columns", NULL},
};

static hn_form_name name_of(const hn_target *target, hn_str form) {
    hn_form_name name = {.name = kind_of(form)};
    name.parameters = trim((hn_str){form.ptr + name.name.len, form.len - name.name.len});
    for (size_t k = 0; k < HN_COUNT_OF(aliases); k++) {
        const char *meant = target->cpu ? aliases[k].cpu : aliases[k].gpu;
        if (meant && hn_str_eq(name.name, hn_str_of(aliases[k].alias)))
            name.name = hn_str_of(meant);
    }
    return name;
}

/* The bundle says what was forced. Records are of devices of this machine. */
static hn_status note(hn_driver *d, const hn_driver_level *level, const hn_tunable *t,
                      const hn_form_name *name) {
    hn_form_timing *form;
    hn_tuning_record r = {.kernel = t->name,
                          .digest = t->id.digest,
                          .size_count = t->id.symbol_count,
                          .form_count = 1,
                          .how = HN_TUNING_FORCED,
                          .tool = HN_STR("henry " HENRY_VERSION_STRING)};
    HN_TRY(hn_driver_picks_device(d, level, &r.device));
    if (!r.device.len || !t->id.is_tunable) return NULL;
    for (uint32_t s = 0; s < r.size_count; s++) {
        r.symbols[s] = hn_sym_symbol_name(d->sym, t->id.symbols[s]);
        r.sizes[s] = hn_sym_hint(d->sym, t->id.symbols[s], 1);
    }
    HN_NEW(&d->arena, form, 1);
    form->form = *name;
    r.forms = form;
    return hn_tuning_list_add(&d->picks->decided, &r);
}

static hn_status print(hn_driver *d, const hn_driver_level *level, const hn_tunable *t, hn_str form,
                       hn_arena *scratch, hn_kernel_code *out) {
    const hn_form_name name = name_of(&level->target, form);
    hn_variant v;
    HN_TRY(hn_variant_named(&t->of, &name, &d->arena, &v));
    HN_TRY(hn_multi_print_form(&level->target, &v, &d->arena, scratch, out));
    out->is_forced = true;
    return note(d, level, t, &v.name);
}

hn_status hn_driver_force(hn_driver *d, const hn_driver_level *level, const hn_kernel *kernel,
                          hn_arena *scratch, hn_kernel_code *out, bool *out_is_forced) {
    hn_forced_rule *rule = NULL;
    hn_tunable t;
    *out_is_forced = false;
    if (!d->picks || !d->picks->forced.count) return NULL;
    HN_TRY(find_rule(d, level, kernel, scratch, &rule));
    if (!rule) return NULL;
    HN_TRY(hn_tunable_identify(d, &level->target, kernel, scratch, &t));
    *out_is_forced = true;
    return hn_status_annotate(print(d, level, &t, rule->form, scratch, out),
                              "the form '" HN_STR_FMT "=" HN_STR_FMT "'", HN_STR_ARG(rule->pattern),
                              HN_STR_ARG(rule->form));
}

/* ---- calls ---- */

/* Whether an item before has the same kind. */
static bool is_known_kind(const hn_variants *all, uint32_t item) {
    uint32_t k = 0;
    while (k < item && !hn_str_eq(all->items[k].name.name, all->items[item].name.name)) k++;
    return k < item;
}

/* What operations of this kind have there, each kind once. */
static hn_status no_such_form(const hn_tunable *t, hn_str kind, hn_arena *scratch) {
    hn_variants all;
    hn_strbuf names;
    HN_TRY(hn_call_forms_list(&t->of, scratch, &all));
    hn_strbuf_init(&names);
    for (uint32_t k = 0; k < all.count; k++)
        if (!is_known_kind(&all, k))
            hn_strbuf_printf(&names, "%s" HN_STR_FMT, k ? ", " : "",
                             HN_STR_ARG(all.items[k].name.name));
    hn_status status = hn_strbuf_status(&names);
    if (!status)
        status =
            HN_ERROR(HN_NOT_FOUND,
                     "no form '" HN_STR_FMT "' of the call '" HN_STR_FMT "'; it has " HN_STR_FMT,
                     HN_STR_ARG(kind), HN_STR_ARG(t->name), HN_STR_ARG(hn_strbuf_str(&names)));
    hn_strbuf_deinit(&names);
    return status;
}

static hn_status check_kind(const hn_tunable *t, const hn_form_name *name, hn_arena *scratch) {
    hn_variants all;
    HN_TRY(hn_call_forms_list(&t->of, scratch, &all));
    for (uint32_t k = 0; k < all.count; k++)
        if (hn_str_eq(all.items[k].name.name, name->name)) return NULL;
    return no_such_form(t, name->name, scratch);
}

static hn_status print_call(hn_driver *d, const hn_driver_level *level, const hn_tunable *t,
                            hn_str form, hn_arena *scratch, hn_kernel_code *out) {
    hn_choice_made made = {.table.head.variant_count = 1};
    const hn_form_name name = {
        .name = kind_of(form),
        .parameters = trim((hn_str){form.ptr + kind_of(form).len, form.len - kind_of(form).len})};
    hn_multi multi = {.names = &name, .table = &made.table};
    HN_TRY(check_kind(t, &name, scratch));
    HN_TRY(hn_call_form_try(&t->of, &name, scratch));
    HN_TRY(hn_multi_print(&t->of, &multi, &d->arena, scratch, out));
    out->is_forced = true;
    return note(d, level, t, &name);
}

hn_status hn_driver_force_call(hn_driver *d, const hn_driver_level *level, hn_item call,
                               hn_arena *scratch, hn_kernel_code *out, bool *out_is_forced) {
    hn_forced_rule *rule = NULL;
    hn_tunable t;
    *out_is_forced = false;
    if (!d->picks || !d->picks->forced.count) return NULL;
    HN_TRY(find_rule_of_call(d, &d->program->items.items[call], &rule));
    if (!rule) return NULL;
    HN_TRY(hn_tunable_identify_call(d, &level->target, call, scratch, &t));
    *out_is_forced = true;
    return hn_status_annotate(print_call(d, level, &t, rule->form, scratch, out),
                              "the form '" HN_STR_FMT "=" HN_STR_FMT "'", HN_STR_ARG(rule->pattern),
                              HN_STR_ARG(rule->form));
}

/* ---- rules without a kernel ---- */

enum { NAMES_MOST = 12 };

static void list_nodes(hn_forced *f, hn_strbuf *out) {
    for (uint32_t k = 0; k < f->nodes.count && k < NAMES_MOST; k++)
        hn_strbuf_printf(out, "%s" HN_STR_FMT, k ? ", " : "", HN_STR_ARG(f->nodes.entries[k].key));
    if (f->nodes.count > NAMES_MOST) hn_strbuf_puts(out, ", ...");
    if (!f->nodes.count) hn_strbuf_puts(out, "none");
}

hn_status hn_driver_forced_end(hn_driver *d) {
    hn_forced *f = &d->picks->forced;
    hn_strbuf names;
    hn_strbuf_init(&names);
    list_nodes(f, &names);
    hn_status status = hn_strbuf_status(&names);
    for (uint32_t k = 0; k < f->count && !status; k++)
        if (!f->rules[k].is_used)
            hn_log("tune", HN_LOG_WARN,
                   "no kernel or call is left that the form '" HN_STR_FMT "=" HN_STR_FMT
                   "' may be for; others: " HN_STR_FMT,
                   HN_STR_ARG(f->rules[k].pattern), HN_STR_ARG(f->rules[k].form),
                   HN_STR_ARG(hn_strbuf_str(&names)));
    hn_strbuf_deinit(&names);
    return status;
}
