/* multi.c: see multi.h. */
#include "driver/multi.h"

#include "base/log.h"

#include <string.h>

enum { MISSING = UINT32_MAX };

typedef struct maker {
    const hn_variants_of *of;
    const hn_multi *multi;
    hn_arena *arena, *scratch;
    uint32_t numbers[HN_CHOICE_VARIANTS]; /* of the table's variants; MISSING: it has none yet */
    bool is_gone[HN_CHOICE_VARIANTS];     /* the kernel does not have it */
    hn_kernel_code *codes;
    uint32_t count;
} maker;

/* "rows stores=streaming", to tell forms of one kind apart. */
static hn_status name_form(const hn_form_name *name, hn_arena *arena, hn_kernel_code *out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_form_name_print(name, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) out->form = hn_arena_strndup(arena, text.ptr, text.len);
    if (!status && !out->form) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a form's name");
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_multi_print_form(const hn_target *target, const hn_variant *variant, hn_arena *arena,
                              hn_arena *scratch, hn_kernel_code *out) {
    HN_TRY(hn_target_print_form(target, variant->form, arena, scratch, out));
    return name_form(&variant->name, arena, out);
}

static hn_status make_code(maker *m, const hn_variant *variant, hn_kernel_code *out) {
    if (m->of->call) return name_form(&variant->name, m->arena, out);
    return hn_multi_print_form(m->of->target, variant, m->arena, m->scratch, out);
}

static hn_status add(maker *m, uint32_t variant) {
    hn_variant found;
    if (m->numbers[variant] != MISSING) return NULL;
    HN_TRY(hn_variant_named(m->of, &m->multi->names[variant], m->scratch, &found));
    HN_TRY(make_code(m, &found, &m->codes[m->count]));
    m->numbers[variant] = m->count++;
    return NULL;
}

/* A form of a record may be one that there is no more. */
static hn_status try_add(maker *m, uint32_t variant) {
    if (m->is_gone[variant]) return NULL;
    hn_status status = add(m, variant);
    const hn_code code = hn_status_code(status);
    if (code != HN_NOT_FOUND && code != HN_INVALID_ARGUMENT) return status;
    hn_log("tune", HN_LOG_WARN, "a kernel has no such form for some sizes as it was tuned with: %s",
           hn_status_message(status));
    hn_status_free(status);
    m->is_gone[variant] = true;
    return NULL;
}

/* The ranges of forms that are there, and not those of the form that all others have: without them
 * the table says the same. */
static hn_status make_choice(maker *m, hn_sym_choice *out) {
    const hn_choice_table *t = &m->multi->table[0];
    hn_choice_box *boxes;
    HN_NEW(m->arena, boxes, (size_t)t->head.box_count + 1);
    *out = (hn_sym_choice){.head = t->head, .boxes = boxes};
    out->head.box_count = 0;
    out->head.fallback = 0;
    for (uint32_t k = 0; k < t->head.box_count; k++) {
        if (t->boxes[k].variant == t->head.fallback) continue;
        HN_TRY(try_add(m, t->boxes[k].variant));
        if (m->is_gone[t->boxes[k].variant]) continue;
        boxes[out->head.box_count] = t->boxes[k];
        boxes[out->head.box_count++].variant = m->numbers[t->boxes[k].variant];
    }
    out->head.variant_count = m->count;
    for (uint32_t d = 0; d < t->head.axis_count; d++) out->axes[d] = m->multi->axes[d];
    return NULL;
}

/* Of kernels, whose code is the same; of calls, whose name is. */
static bool is_same(const maker *m, const hn_kernel_code *a, const hn_kernel_code *b) {
    if (m->of->call) return strcmp(a->form, b->form) == 0;
    return memcmp(&a->digest, &b->digest, sizeof a->digest) == 0 && a->grain == b->grain;
}

static bool is_there(const maker *m, const hn_kernel_code *code) {
    for (uint32_t k = 0; k < m->count; k++)
        if (is_same(m, &m->codes[k], code)) return true;
    return false;
}

static hn_status add_extras(maker *m, hn_sym_choice *choice) {
    for (uint32_t k = 0; k < m->multi->extra_count && m->count < m->multi->most; k++) {
        hn_variant found;
        HN_TRY(hn_variant_named(m->of, &m->multi->extras[k], m->scratch, &found));
        hn_kernel_code *code = &m->codes[m->count];
        HN_TRY(make_code(m, &found, code));
        m->count += !is_there(m, code);
    }
    choice->head.variant_count = m->count;
    return NULL;
}

hn_status hn_multi_print(const hn_variants_of *of, const hn_multi *multi, hn_arena *arena,
                         hn_arena *scratch, hn_kernel_code *out) {
    maker m = {.of = of, .multi = multi, .arena = arena, .scratch = scratch};
    const hn_choice *head = &multi->table->head;
    hn_sym_choice *choice;
    memset(m.numbers, 0xff, sizeof m.numbers);
    HN_NEW(arena, m.codes, head->variant_count + multi->extra_count);
    HN_NEW(arena, choice, 1);
    HN_TRY(add(&m, head->fallback));
    HN_TRY(make_choice(&m, choice));
    HN_TRY(add_extras(&m, choice));
    *out = m.codes[0];
    if (m.count < 2) return NULL;
    out->variants = m.codes + 1;
    out->variant_count = m.count - 1;
    out->choice = choice;
    return NULL;
}
