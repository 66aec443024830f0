/* debug.c: the tensor debugger: a hook that looks at what steps read and at what they have written.
 *
 * Before a step it looks at what the step only reads, and behind it at what the step has written:
 * its other memory may have been given to the result by then. What nobody has written since it was
 * looked at is not read again. A tensor that several steps write has no content yet in the parts of
 * later ones; CHECK then asks only for elements that the step has changed. */
#include "runtime/debug.h"

#include "base/compiler.h"
#include "base/require.h"

#include <stdlib.h>

/* ---- what was seen ---- */

/* Of the present call of the context; made when it is the first. With d->out->lock held. */
static hn_debug_call *call_of(hn_debug *d, const hn_step_info *step, bool *out_is_new) {
    const hn_context *context = step->run->c;
    hn_debug_call *call = d->calls;
    while (call && call->context != context) call = call->next;
    if (!call) {
        call = calloc(1, sizeof *call);
        hn_debug_seen *seen = calloc(d->m->view.buffers_count + 1u, sizeof *seen);
        if (!call || !seen) {
            free(call);
            free(seen);
            return NULL;
        }
        *call = (hn_debug_call){.next = d->calls, .context = context, .seen = seen};
        d->calls = call;
    }
    *out_is_new = call->call != step->call;
    call->call = step->call;
    return call;
}

/* ---- one step ---- */

/* Copies of memory that a step writes parts of, per operand; NULL: not wanted. They live from
 * `before` to `after`, which finds them by the hook's note. */
typedef struct copies {
    uint32_t count;
    hn_debug_copy of[];
} copies;

static void copies_free(copies *all) {
    for (uint32_t k = 0; all && k < all->count; k++) {
        free(all->of[k].host);
        if (all->of[k].remote) hn_dev_free(all->of[k].queue->dev, all->of[k].remote);
    }
    free(all);
}

/* On the device, if it has room: the host seldom needs it. */
static bool copy_there(const hn_step_info *step, const hn_step_operand *o, hn_debug_copy *out) {
    const hn_module *m = step->run->m;
    const hn_place place = hn_place_of(m, o->device.kind);
    hn_dev *dev = hn_place_dev(m, place);
    if (dev->facts.is_host) return false;
    *out = (hn_debug_copy){.remote = hn_dev_alloc(dev, (size_t)o->bytes),
                           .queue = step->run->c->places[place].queue};
    if (!out->remote) return false;
    hn_status status = dev->ops->copy(out->queue, out->remote, o->data, (size_t)o->bytes);
    if (!status) return true;
    hn_status_free(status);
    hn_dev_free(dev, out->remote);
    out->remote = NULL;
    return false;
}

static hn_status copy_operand(const hn_step_info *step, uint32_t k, const hn_step_operand *o,
                              copies **all) {
    if (!*all) {
        *all = calloc(1, sizeof **all + step->operand_count * sizeof *(*all)->of);
        if (!*all) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
        (*all)->count = step->operand_count;
    }
    if (copy_there(step, o, &(*all)->of[k])) return NULL;
    void *copy = malloc((size_t)o->bytes);
    if (!copy)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a copy of %lld bytes",
                        (long long)o->bytes);
    hn_status status = hn_step_operand_read(step, k, copy, (size_t)o->bytes);
    if (status) free(copy);
    else (*all)->of[k].host = copy;
    return status;
}

/* Whether the step reads the same tensor as an earlier operand. */
static bool is_repeated(const hn_step_info *step, uint32_t k) {
    const hn_module *m = step->run->m;
    const hn_bound *bound = step->run->c->bounds[0];
    const uint32_t buffer = hn_bound_operand(m, bound, step->index, k).buffer;
    for (uint32_t i = 0; i < k; i++) {
        const hnb_operand o = hn_bound_operand(m, bound, step->index, i);
        if (o.buffer == buffer && !o.written) return true;
    }
    return false;
}

static hn_status look_before(hn_debug *d, hn_debug_call *call, const hn_step_info *step,
                             copies **kept) {
    for (uint32_t k = 0; k < step->operand_count; k++) {
        hn_step_operand o;
        HN_TRY(hn_step_operand_get(step, k, &o));
        if (!o.buffer || !hn_debug_wants_tensor(d, step, &o)) continue;
        if (!o.is_written) {
            if (!is_repeated(step, k))
                HN_TRY(hn_debug_look(d, call, HN_DEBUG_BEFORE, step, k, NULL));
        } else if (d->options.level == HN_DEBUG_CHECK && hn_debug_has_bad(o.type) && o.data &&
                   o.bytes && hn_writers_count(d->m, o.buffer) > 1) {
            hn_status status = copy_operand(step, k, &o, kept);
            hn_status_free(status); /* without a copy all elements are looked at */
        }
    }
    return NULL;
}

static hn_status before(void *user, const hn_step_info *step, uint64_t *note) {
    hn_debug *d = user;
    copies *kept = NULL;
    bool is_new = false;
    if (!hn_debug_wants_step(d, step)) return NULL;
    pthread_mutex_lock(&d->out->lock);
    hn_debug_call *call = call_of(d, step, &is_new);
    hn_status status = NULL;
    if (!call) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
    else if (d->options.level == HN_DEBUG_NAMES && hn_debug_matches_step(d->options.nodes, step))
        status = hn_debug_say_step(d, step);
    pthread_mutex_unlock(&d->out->lock);
    if (status || d->options.level == HN_DEBUG_NAMES) return status;
    if (is_new) HN_TRY(hn_debug_look_at_inputs(d, call, step));
    status = look_before(d, call, step, &kept);
    if (status) copies_free(kept);
    else *note = (uint64_t)(uintptr_t)kept;
    return status;
}

static hn_debug_copy *copy_of(copies *kept, uint32_t k) {
    return kept && (kept->of[k].host || kept->of[k].remote) ? &kept->of[k] : NULL;
}

static hn_status look_after(hn_debug *d, hn_debug_call *call, const hn_step_info *step,
                            copies *kept) {
    for (uint32_t k = 0; k < step->operand_count; k++) {
        hn_step_operand o;
        HN_TRY(hn_step_operand_get(step, k, &o));
        if (!o.buffer || !o.is_written) continue;
        if (hn_debug_wants_step(d, step) && hn_debug_wants_tensor(d, step, &o))
            HN_TRY(hn_debug_look(d, call, HN_DEBUG_AFTER, step, k, copy_of(kept, k)));
        else call->seen[o.buffer].mark = 0; /* what was seen of it is past */
    }
    return NULL;
}

static hn_status after(void *user, const hn_step_info *step, uint64_t *note) {
    hn_debug *d = user;
    copies *kept = (copies *)(uintptr_t)*note;
    hn_status status = NULL;
    bool is_new = false;
    if (!step->has_failed && d->options.level != HN_DEBUG_NAMES) {
        pthread_mutex_lock(&d->out->lock);
        hn_debug_call *call = call_of(d, step, &is_new);
        pthread_mutex_unlock(&d->out->lock);
        if (call) status = look_after(d, call, step, kept);
    }
    copies_free(kept);
    return status;
}

/* ---- the life of a debugger ---- */

static hn_status copy_texts(hn_debug *d) {
    const char **const places[] = {&d->options.kernels, &d->options.nodes, &d->options.arguments,
                                   &d->options.path};
    for (size_t k = 0; k < HN_COUNT_OF(places); k++) {
        if (!*places[k]) continue;
        d->texts[k] = strdup(*places[k]);
        if (!d->texts[k]) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
        *places[k] = d->texts[k];
    }
    return NULL;
}

static void destroy(hn_debug *d) {
    if (d->of_weights) destroy(d->of_weights);
    if (d->out == &d->own_out) hn_debug_files_close(d);
    for (hn_debug_call *call = d->calls, *next; call; call = next) {
        next = call->next;
        for (uint32_t b = 0; b < d->m->view.buffers_count; b++) free(call->seen[b].file);
        free(call->seen);
        free(call);
    }
    for (uint32_t b = 0; d->weights && b < d->m->view.buffers_count; b++) free(d->weights[b].file);
    for (size_t k = 0; k < HN_COUNT_OF(d->texts); k++) free(d->texts[k]);
    free(d->weights);
    if (d->out == &d->own_out) pthread_mutex_destroy(&d->own_out.lock);
    free(d);
}

static hn_step_hook hook_of(hn_debug *d) { return (hn_step_hook){before, after, d}; }

static hn_status add_hook(hn_debug *d) {
    const hn_step_hook hook = hook_of(d);
    d->weights = calloc(d->m->view.buffers_count + 1u, sizeof *d->weights);
    if (!d->weights) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
    return d->options.level == HN_DEBUG_CHECK ? hn_hooks_add_patient(d->m, &hook)
                                              : hn_module_hook_add(d->m, &hook);
}

/* It writes to the same place, and its words are those of the debugger around it. */
static hn_status watch_weights(hn_debug *d) {
    if (!d->m->computer) return NULL;
    d->of_weights = calloc(1, sizeof *d->of_weights);
    if (!d->of_weights) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
    *d->of_weights = (hn_debug){.m = d->m->computer, .options = d->options, .out = d->out};
    return add_hook(d->of_weights);
}

static hn_status init(hn_debug *d, bool may_rename) {
    HN_TRY(copy_texts(d));
    if (d->options.level == HN_DEBUG_OFF) return NULL;
    HN_TRY(hn_debug_files_open(d, may_rename));
    HN_TRY(watch_weights(d));
    return add_hook(d);
}

static hn_status attach(hn_module *m, const hn_debug_options *options, bool may_rename,
                        hn_debug **out) {
    if ((unsigned)options->level >= HN_DEBUG_LEVEL_COUNT)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%d is no level of the tensor debugger",
                        (int)options->level);
    if (options->ignore_inf && options->ignore_nan)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "neither NaN nor infinities are a fault; leave out one of the two");
    hn_debug *d = calloc(1, sizeof *d);
    if (!d) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
    *d = (hn_debug){.m = m,
                    .options = *options,
                    .out = &d->own_out,
                    .own_out = {.line_fd = -1, .manifest_fd = -1}};
    pthread_mutex_init(&d->own_out.lock, NULL);
    hn_status status = init(d, may_rename);
    if (status) {
        destroy(d);
        return status;
    }
    pthread_mutex_lock(&m->lock);
    d->next = m->debuggers;
    m->debuggers = d;
    pthread_mutex_unlock(&m->lock);
    *out = d;
    return NULL;
}

hn_status hn_debug_attach(hn_module *m, const hn_debug_options *options, hn_debug **out) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(options, "options");
    HN_REQUIRE(out, "out_debug");
    return attach(m, options, false, out);
}

/* Several modules of a process may have the same text from the environment. */
hn_status hn_debug_attach_text(hn_module *m, const char *text) {
    const char *given = text ? text : getenv("HENRY_DEBUG_TENSORS");
    hn_debug_options options;
    hn_strbuf storage;
    hn_debug *d;
    if (!given || !*given) return NULL;
    hn_strbuf_init(&storage);
    hn_status status = hn_debug_options_parse(given, &storage, &options);
    if (!status && options.level != HN_DEBUG_OFF) status = attach(m, &options, !text, &d);
    hn_strbuf_deinit(&storage);
    return text ? status : hn_status_annotate(status, "HENRY_DEBUG_TENSORS");
}

void hn_debug_detach(hn_debug *d) {
    if (!d || d->options.level == HN_DEBUG_OFF) return;
    const hn_step_hook hook = hook_of(d);
    hn_status_free(hn_module_hook_remove(d->m, &hook)); /* not there: it was detached before */
    hn_debug_detach(d->of_weights);
}

void hn_debug_destroy_all(hn_module *m) {
    for (hn_debug *d = m->debuggers, *next; d; d = next) {
        next = d->next;
        destroy(d);
    }
}
