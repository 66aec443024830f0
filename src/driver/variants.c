/* variants.c: forms by name, and what is expected of them. See the header. */
#include "driver/call_forms.h"

#include "kernel/plan_cpu.h"
#include "kernel/plan_gpu.h"

#include <ctype.h>
#include <string.h>

/* ---- expected sizes ---- */

hn_status hn_variant_hints_begin(hn_sym *sym, const hn_ref_sizes *sizes, hn_variant_hints *out) {
    *out = (hn_variant_hints){.sym = sym};
    if (!sizes) return NULL;
    if (sizes->count > HN_VARIANT_SYMBOLS_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "forms at sizes of more than %d symbols",
                        HN_VARIANT_SYMBOLS_MAX);
    for (; out->count < sizes->count; out->count++) {
        const uint32_t k = out->count;
        out->symbols[k] = sizes->symbols[k];
        out->had[k] = hn_sym_has_hint(sym, sizes->symbols[k], &out->values[k]);
        hn_sym_set_hint(sym, sizes->symbols[k], sizes->values[k]);
    }
    return NULL;
}

void hn_variant_hints_end(const hn_variant_hints *was) {
    for (uint32_t k = 0; k < was->count; k++) {
        if (was->had[k]) hn_sym_set_hint(was->sym, was->symbols[k], was->values[k]);
        else hn_sym_drop_hint(was->sym, was->symbols[k]);
    }
}

/* ---- names ---- */

/* The planner's words, in small letters, joined by '-': "rows, kept" is "rows-kept". */
static hn_status name_kind(const char *shape, hn_arena *arena, hn_str *out) {
    char *text;
    uint32_t len = 0;
    HN_NEW(arena, text, strlen(shape) + 1);
    for (; *shape; shape++) {
        if (isalnum((unsigned char)*shape)) text[len++] = (char)tolower((unsigned char)*shape);
        else if (len && text[len - 1] != '-') text[len++] = '-';
    }
    *out = (hn_str){text, len};
    return NULL;
}

hn_status hn_variant_name(const hn_form *form, hn_arena *arena, hn_form_name *out) {
    *out = (hn_form_name){.parameters = hn_str_of(form->parameters ? form->parameters : "")};
    return name_kind(form->shape ? form->shape : "form", arena, &out->name);
}

static hn_status describe(hn_form *form, double ns, hn_arena *arena, hn_variant *out) {
    *out = (hn_variant){.form = form, .ns = ns};
    return hn_variant_name(form, arena, &out->name);
}

/* ---- forms ---- */

static uint32_t threads_of(const hn_variants_of *of) {
    return of->threads ? of->threads : of->kernel->threads;
}

static hn_status plan_as(const hn_variants_of *of, const hn_cpu_choice *choice, hn_arena *arena,
                         hn_form **out) {
    return hn_form_plan_cpu_as(of->program, of->kernel, of->target->vector_bytes, of->target->cpu,
                               choice, arena, arena, out);
}

static hn_status list_cpu(const hn_variants_of *of, uint32_t most, hn_arena *arena,
                          hn_variants *out) {
    hn_cpu_variant all[HN_CPU_CHOICES_MAX];
    uint32_t count;
    HN_TRY(hn_cpu_variants(of->program, of->kernel, of->target->vector_bytes, of->target->cpu,
                           threads_of(of), arena, all, &count));
    for (uint32_t k = 0; k < count && out->count < most; k++) {
        hn_form *form;
        if (all[k].ns > all[0].ns * HN_VARIANT_MARGIN) break;
        HN_TRY(plan_as(of, &all[k].choice, arena, &form));
        form->cost.ns = all[k].ns;
        HN_TRY(describe(form, all[k].ns, arena, &out->items[out->count++]));
    }
    return NULL;
}

static hn_status list_planned(const hn_variants_of *of, uint32_t most, hn_arena *arena,
                              hn_variants *out) {
    hn_form *forms[HN_GPU_PLANS_MAX];
    uint32_t count;
    if (most > HN_GPU_PLANS_MAX) most = HN_GPU_PLANS_MAX;
    HN_TRY(of->target->kind->plan(of->program, of->kernel, of->target, most, arena, arena, forms,
                                  &count));
    for (uint32_t k = 0; k < count; k++)
        if (forms[k]->cost.ns <= forms[0]->cost.ns * HN_VARIANT_MARGIN)
            HN_TRY(describe(forms[k], forms[k]->cost.ns, arena, &out->items[out->count++]));
    return NULL;
}

static hn_status list_here(const hn_variants_of *of, uint32_t most, hn_arena *arena,
                           hn_variants *out) {
    if (!most || most > HN_VARIANTS_MAX) most = HN_VARIANTS_MAX;
    out->count = 0;
    if (of->call) return hn_call_forms_list(of, arena, out);
    HN_TRY(of->target->cpu ? list_cpu(of, most, arena, out) : list_planned(of, most, arena, out));
    return out->count ? NULL : HN_ERROR(HN_INTERNAL, "no form of a kernel fits the processor");
}

hn_status hn_variants_list(const hn_variants_of *of, const hn_ref_sizes *sizes, uint32_t most,
                           hn_arena *arena, hn_variants *out) {
    hn_variant_hints was;
    *out = (hn_variants){.count = 0};
    HN_TRY(hn_variant_hints_begin(of->program->sym, sizes, &was));
    hn_status status = list_here(of, most, arena, out);
    hn_variant_hints_end(&was);
    return status;
}

hn_status hn_variant_choice(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                            hn_cpu_choice *out) {
    hn_cpu_form form;
    if (!hn_cpu_form_named(name->name, &form))
        return hn_cpu_refuse_form(of->program, of->kernel, of->target->vector_bytes,
                                  of->target->cpu, name->name, arena);
    return hn_cpu_choice_parse(form, name->parameters, out);
}

static hn_status expect(const hn_variants_of *of, const hn_cpu_choice *choice, hn_arena *arena,
                        double *out_ns) {
    hn_cpu_variant v = {.choice = *choice};
    HN_TRY(hn_cpu_expect(of->program, of->kernel, of->target->vector_bytes, of->target->cpu,
                         threads_of(of), arena, &v));
    *out_ns = v.ns;
    return NULL;
}

hn_status hn_variant_named(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                           hn_variant *out) {
    hn_cpu_choice choice;
    hn_form *form;
    double ns;
    if (of->call) return hn_call_form_named(of, name, arena, out);
    if (!of->target->cpu) {
        HN_TRY(hn_form_plan_gpu_as(of->program, of->kernel, of->target->gpu, name->name,
                                   name->parameters, arena, arena, &form));
        return describe(form, form->cost.ns, arena, out);
    }
    HN_TRY(hn_variant_choice(of, name, arena, &choice));
    HN_TRY(plan_as(of, &choice, arena, &form));
    HN_TRY(expect(of, &choice, arena, &ns));
    form->cost.ns = ns;
    return describe(form, ns, arena, out);
}

static hn_status cost_here(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                           double *out_ns) {
    hn_cpu_choice choice;
    if (of->call) {
        *out_ns = hn_call_time(of);
        return NULL;
    }
    if (!of->target->cpu)
        return hn_form_expect_gpu(of->program, of->kernel, of->target->gpu, name->name,
                                  name->parameters, arena, out_ns);
    HN_TRY(hn_variant_choice(of, name, arena, &choice));
    return expect(of, &choice, arena, out_ns);
}

hn_status hn_variant_cost(const hn_variants_of *of, const hn_form_name *name,
                          const hn_ref_sizes *sizes, double *out_ns) {
    hn_variant_hints was;
    hn_arena arena;
    hn_arena_init(&arena);
    hn_status status = hn_variant_hints_begin(of->program->sym, sizes, &was);
    if (!status) status = cost_here(of, name, &arena, out_ns);
    hn_variant_hints_end(&was);
    hn_arena_deinit(&arena);
    return status;
}

hn_status hn_variant_planned(const hn_variants_of *of, hn_arena *arena, hn_variant *out) {
    hn_form *form;
    uint32_t count;
    if (of->call) {
        hn_variants all;
        HN_TRY(hn_call_forms_list(of, arena, &all));
        *out = all.items[0];
        return NULL;
    }
    HN_TRY(of->target->kind->plan(of->program, of->kernel, of->target, 1, arena, arena, &form,
                                  &count));
    if (!count) return HN_ERROR(HN_INTERNAL, "no form of a kernel fits the processor");
    return describe(form, form->cost.ns, arena, out);
}

hn_status hn_variant_choice_name(const hn_cpu_choice *choice, hn_arena *arena, hn_form_name *out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_cpu_choice_print(choice, &text);
    hn_status status = hn_strbuf_status(&text);
    const char *own = status ? NULL : hn_arena_strndup(arena, text.len ? text.ptr : "", text.len);
    if (!status && !own) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the name of a form");
    if (!status) *out = (hn_form_name){hn_str_of(hn_cpu_form_name(choice->form)), {own, text.len}};
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status near_cpu(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                          hn_form_name **out, uint32_t *out_count) {
    hn_cpu_choice choice, near[HN_CPU_CHOICES_MAX];
    HN_TRY(hn_variant_choice(of, name, arena, &choice));
    const uint32_t count = hn_cpu_choices_near(&choice, near);
    HN_NEW(arena, *out, count + 1u);
    for (; *out_count < count; ++*out_count)
        HN_TRY(hn_variant_choice_name(&near[*out_count], arena, &(*out)[*out_count]));
    return NULL;
}

static hn_status near_gpu(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                          hn_form_name **out, uint32_t *out_count) {
    hn_str *parameters;
    uint32_t count;
    HN_TRY(hn_form_near_gpu(of->program, of->kernel, of->target->gpu, name->name, name->parameters,
                            arena, arena, &parameters, &count));
    HN_NEW(arena, *out, count + 1u);
    for (; *out_count < count; ++*out_count)
        (*out)[*out_count] = (hn_form_name){name->name, parameters[*out_count]};
    return NULL;
}

hn_status hn_variant_neighbours(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                                hn_form_name **out, uint32_t *out_count) {
    *out_count = 0;
    *out = NULL;
    if (of->call) return NULL;
    return of->target->cpu ? near_cpu(of, name, arena, out, out_count)
                           : near_gpu(of, name, arena, out, out_count);
}

/* Names that were found, the first is that around which one looks. */
typedef struct around {
    hn_form_name *items;
    uint32_t count, most;
} around;

static void add_name(around *a, const hn_form_name *name) {
    for (uint32_t k = 0; k < a->count; k++)
        if (hn_form_name_eq(&a->items[k], name)) return;
    if (a->count < a->most) a->items[a->count++] = *name;
}

hn_status hn_variants_around(const hn_variants_of *of, const hn_form_name *name, uint32_t radius,
                             hn_arena *arena, hn_form_name **out, uint32_t *out_count) {
    around a = {.most = HN_VARIANTS_AROUND_MAX + 1};
    uint32_t done = 0;
    HN_NEW(arena, a.items, a.most);
    add_name(&a, name);
    for (uint32_t r = 0; r < radius; r++)
        for (const uint32_t end = a.count; done < end; done++) {
            hn_form_name *near;
            uint32_t count;
            hn_status status = hn_variant_neighbours(of, &a.items[done], arena, &near, &count);
            const bool is_none = done && hn_status_code(status) == HN_NOT_FOUND;
            if (is_none) hn_status_free(status), count = 0;
            else HN_TRY(status);
            for (uint32_t k = 0; k < count; k++) add_name(&a, &near[k]);
        }
    *out = a.items + 1;
    *out_count = a.count - 1;
    return NULL;
}
