/* fusion.c: see fusion.h. */
#include "driver/fusion.h"

#include <string.h>

/* ---- pairs ---- */

static bool is_pair(const hn_fusion_pair *p, hn_str a, hn_str b) {
    return hn_str_eq(p->a, a) && hn_str_eq(p->b, b);
}

/* NULL: it is a new one, and there is no room. */
static hn_fusion_pair *pair_of(hn_driver_fusion *f, hn_str x, hn_str y) {
    const size_t least = x.len < y.len ? x.len : y.len;
    const int order = memcmp(x.ptr, y.ptr, least);
    const bool in_order = order < 0 || (!order && x.len <= y.len);
    const hn_str a = in_order ? x : y, b = in_order ? y : x;
    for (uint32_t k = 0; k < f->count; k++)
        if (is_pair(&f->pairs[k], a, b)) return &f->pairs[k];
    if (f->count == HN_FUSION_PAIRS_MAX) return NULL;
    f->pairs[f->count] = (hn_fusion_pair){.a = a, .b = b};
    return &f->pairs[f->count++];
}

/* What is done to one node is no fusion. */
static bool may_fuse(void *user, uint32_t origin, uint32_t other) {
    hn_driver_fusion *f = user;
    if (!origin || !other) return true;
    const hn_origin *origins = f->graph->origins.items;
    const hn_fusion_pair *p =
        pair_of(f, hn_node_operation(origins[origin].node), hn_node_operation(origins[other].node));
    return !p || !p->is_apart;
}

/* ---- records ---- */

const hn_form_name hn_fusion_forms[HN_FUSION_FORMS] = {{{"fused", 5}, {"", 0}},
                                                       {{"apart", 5}, {"", 0}}};

hn_digest hn_fusion_digest(const hn_fusion_pair *p) {
    static const char what[] = "fusion";
    hn_digest_state state;
    hn_digest_begin(&state);
    hn_digest_update(&state, what, sizeof what);
    hn_digest_update(&state, p->a.ptr, p->a.len);
    hn_digest_update(&state, "", 1);
    hn_digest_update(&state, p->b.ptr, p->b.len);
    return hn_digest_end(&state);
}

/* Of "add and layer_norm". */
bool hn_fusion_read(const hn_tuning_record *r, hn_fusion_pair *out) {
    static const char between[] = " and ";
    const char *at = r->kernel.len ? memmem(r->kernel.ptr, r->kernel.len, between, 5) : NULL;
    if (r->form_count != HN_FUSION_FORMS || !at ||
        !hn_form_name_eq(&r->forms[HN_FUSION_FUSED].form, &hn_fusion_forms[HN_FUSION_FUSED]))
        return false;
    const char *second = at + sizeof between - 1;
    *out = (hn_fusion_pair){.a = {r->kernel.ptr, (size_t)(at - r->kernel.ptr)},
                            .b = {second, r->kernel.len - (size_t)(second - r->kernel.ptr)}};
    const hn_digest own = hn_fusion_digest(out);
    return memcmp(&own, &r->digest, sizeof own) == 0;
}

static hn_status take(hn_driver *d, const hn_tuning_record *r) {
    hn_fusion_pair read;
    hn_str device;
    if (!hn_fusion_read(r, &read)) return NULL;
    HN_TRY(hn_driver_picks_device(d, &d->levels[0], &device));
    if (!hn_str_eq(device, r->device)) return NULL;
    hn_fusion_pair *p = pair_of(d->fusion, read.a, read.b);
    if (!p || p->is_known) return NULL;
    p->is_known = true;
    p->is_apart = r->pick == HN_FUSION_APART;
    HN_TRY(hn_tuning_list_add(&d->picks->decided, r));
    return hn_tuning_list_add(&d->picks->used, r);
}

static hn_status take_all(hn_driver *d, const hn_tuning_list *list) {
    for (uint32_t k = 0; k < list->count; k++) HN_TRY(take(d, &list->items[k]));
    return NULL;
}

static bool is_any_apart(const hn_driver_fusion *f) {
    for (uint32_t k = 0; k < f->count; k++)
        if (f->pairs[k].is_apart) return true;
    return false;
}

hn_status hn_driver_fusion_begin(hn_driver *d) {
    hn_tuning_list known;
    hn_tuning_damage damage;
    HN_NEW(&d->arena, d->fusion, 1);
    *d->fusion = (hn_driver_fusion){
        .limit = {.most = UINT32_MAX, .may = may_fuse, .user = d->fusion}, .graph = d->graph};
    if (hn_driver_picks_are_off(d)) {
        d->fusion = NULL;
        return NULL;
    }
    if (HN_OPT(&d->options, tune) == HN_TUNE_AGAIN && HN_OPT(&d->options, tune_fusion)) return NULL;
    hn_tuning_list_init(&known, &d->arena);
    HN_TRY(hn_tuning_list_parse(&known, d->known_tuning, &damage)); /* others tell of damage */
    HN_TRY(take_all(d, &d->picks->file));
    HN_TRY(take_all(d, &known));
    if (!HN_OPT(&d->options, tune_fusion) && !is_any_apart(d->fusion)) d->fusion = NULL;
    return NULL;
}
