/* debug.c: the tensor debugger: a hook that looks at what steps read and at what they have written.
 *
 * Before a step it looks at what the step only reads, and behind it at what the step has written: its
 * other memory may have been given to the result by then. What nobody has written since it was looked
 * at is not read again. A tensor that several steps write has no content yet in the parts of later
 * ones; CHECK then asks only for elements that the step has changed. */
#include "runtime/debug.h"

#include "base/compiler.h"
#include "base/log.h"
#include "base/require.h"
#include "runtime/tensor_stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the statistics of an operand ---- */

/* The memory of a tensor of a step where the host can read it. `*out_own`: to be freed. */
static hn_status fetch(const hn_step_info *step, uint32_t k, const hn_step_operand *o,
                       const void **out, void **out_own) {
    const hn_module *m = step->run->m;
    *out = o->data;
    *out_own = NULL;
    if (!o->has_shape || (!o->data && o->bytes))
        return HN_ERROR(HN_INVALID_ARGUMENT, "operand %u of the step has nothing to read", k);
    if (!o->bytes || hn_place_dev(m, hn_place_of(m, o->device.kind))->facts.is_host) return NULL;
    void *copy = malloc((size_t)o->bytes);
    if (!copy)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a copy of %lld bytes",
                        (long long)o->bytes);
    hn_status status = hn_step_operand_read(step, k, copy, (size_t)o->bytes);
    if (status) free(copy);
    else *out = *out_own = copy;
    return status;
}

/* The one place that computes them: a device may do it itself here one day. */
static void stats_of(const hn_step_info *step, const hn_step_operand *o, const void *data,
                     hn_tensor_stats *out) {
    hn_context *c = step->run->c;
    hn_tensor_stats_get(&(hn_stats_tensor){.type = o->type,
                                           .rank = o->rank,
                                           .sizes = o->sizes,
                                           .strides = o->strides,
                                           .data = data},
                        &c->team, c->threads, out);
}

hn_status hn_step_operand_stats(const hn_step_info *step, uint32_t operand, hn_tensor_stats *out) {
    hn_step_operand o;
    const void *data;
    void *own;
    HN_REQUIRE(out, "out");
    HN_TRY(hn_step_operand_get(step, operand, &o));
    HN_TRY(fetch(step, operand, &o, &data, &own));
    stats_of(step, &o, data, out);
    free(own);
    return NULL;
}

/* ---- saying something ---- */

/* One write for each line, so that lines of several programs do not mix either. */
static void write_line(int fd, const hn_strbuf *line) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_append(&text, line->ptr, line->len);
    hn_strbuf_putc(&text, '\n');
    for (size_t done = 0; !text.failed && done < text.len;) {
        const ssize_t wrote = write(fd, text.ptr + done, text.len - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) break; /* nobody can be told */
        done += (size_t)wrote;
    }
    hn_strbuf_deinit(&text);
}

/* Takes over `text`. With d->lock held. */
static hn_status say(hn_debug *d, hn_debug_event *event, hn_strbuf *text) {
    hn_strbuf line;
    hn_status status = NULL;
    hn_strbuf_init(&line);
    hn_strbuf_clean(&line, hn_strbuf_str(text), true);
    hn_strbuf_deinit(text);
    event->line = hn_strbuf_str(&line).ptr;
    if (!event->file && d->line_fd >= 0)
        write_line(d->line_fd, &line); /* a file speaks for itself */
    if (d->options.sink) status = d->options.sink(d->options.user, event);
    hn_strbuf_deinit(&line);
    return status;
}

static hn_status say_tensor(hn_debug *d, const hn_debug_tensor *t) {
    const bool has_stats = d->options.level == HN_DEBUG_STATS;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_debug_print_tensor(t, has_stats, &text);
    return say(d,
               &(hn_debug_event){.call = t->call,
                                 .when = t->when,
                                 .step = t->step,
                                 .tensor = t->operand,
                                 .stats = has_stats ? &t->seen->stats : NULL,
                                 .file = d->options.level == HN_DEBUG_SAVE ? t->seen->file : NULL},
               &text);
}

/* That a tensor cannot be looked at, and why; the run goes on. Takes over `why`. */
static hn_status say_trouble(hn_debug *d, const hn_debug_tensor *t, hn_status why) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_debug_print_tensor(t, false, &text);
    hn_strbuf_printf(&text, " cannot be looked at: %s", hn_status_message(why));
    hn_status_free(why);
    return say(
        d,
        &(hn_debug_event){.call = t->call, .when = t->when, .step = t->step, .tensor = t->operand},
        &text);
}

static hn_status say_step(hn_debug *d, const hn_step_info *step) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_debug_print_step(step, &text);
    return say(d, &(hn_debug_event){.call = step->call, .when = HN_DEBUG_BEFORE, .step = step},
               &text);
}

/* ---- what was seen ---- */

/* Of the present call of the context; made when it is the first. With d->lock held. */
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

/* A weight that no run changes. */
static bool is_weight(const hn_module *m, uint32_t buffer) {
    const hnb_buffer *b = &m->view.buffers[buffer];
    return b->kind == HNB_BUFFER_CONSTANT && !m->view.storages[b->source].is_mutable;
}

static bool is_float(hn_scalar_type type) {
    return type == HN_F64 || type == HN_F32 || type == HN_F16 || type == HN_BF16;
}

static bool is_bad(const hn_debug *d, const hn_tensor_stats *s) {
    return s->nan_count || (s->inf_count && !d->options.ignore_inf);
}

/* ---- CHECK ---- */

/* The first element that is bad, in row-major order, and that is not as it was `before`, which may be
 * NULL; -1: there is none. Slow, and asked only when there are bad ones. */
static int64_t find_bad(const hn_debug *d, const hn_debug_tensor *t, const uint8_t *before,
                        double *out_value) {
    const hn_step_operand *o = t->operand;
    const size_t bytes = hn_scalar_type_bytes(o->type);
    for (int64_t k = 0; k < t->seen->stats.count; k++) {
        int64_t rest = k, offset = 0;
        hn_tensor_stats one;
        for (uint32_t i = o->rank; i-- > 0; rest /= o->sizes[i])
            offset += rest % o->sizes[i] * o->strides[i];
        offset *= (int64_t)bytes;
        const uint8_t *at = (const uint8_t *)t->data + offset;
        if (before && memcmp(at, before + offset, bytes) == 0) continue;
        hn_tensor_stats_get(&(hn_stats_tensor){.type = o->type, .data = at}, NULL, 1, &one);
        *out_value = one.first_bad_value;
        if (is_bad(d, &one)) return k;
    }
    return -1;
}

/* What the step has to do with the bad element. */
static const char *verb_of(const hn_debug_tensor *t, bool is_old) {
    if (t->when != HN_DEBUG_AFTER) return "is given";
    return is_old ? "or an earlier step has written" : "has written";
}

static hn_status check_error(const hn_debug_tensor *t, int64_t index, double value, bool is_old) {
    const hn_tensor_stats *s = &t->seen->stats;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_debug_print_name(t->operand, &text);
    hn_strbuf_puts(&text, " at ");
    hn_debug_print_index(t->operand, index, &text);
    hn_status status = HN_ERROR(
        HN_INVALID_ARGUMENT,
        "'%s' (step %u of call %llu) %s %g %s %s: of %lld elements (%s) %lld are NaN and %lld infinite",
        t->step->name, t->step->index, (unsigned long long)t->call, verb_of(t, is_old),
        isnan(value) ? (double)NAN : value, t->when == HN_DEBUG_AFTER ? "to" : "in",
        hn_strbuf_str(&text).ptr, (long long)s->count, hn_scalar_type_name(t->operand->type),
        (long long)s->nan_count, (long long)s->inf_count);
    hn_strbuf_deinit(&text);
    return status;
}

/* Of a tensor that several steps write, an element that the step has changed is the step's. When all
 * parts are written the others count, too: the memory may have had the same bits before. */
static hn_status check(const hn_debug *d, const hn_debug_tensor *t, const uint8_t *before) {
    const hn_tensor_stats *s = &t->seen->stats;
    double value = s->first_bad_value;
    bool is_old = false;
    if (!is_bad(d, s)) return NULL;
    int64_t index = s->first_bad;
    if (before || (d->options.ignore_inf && !isnan(value))) index = find_bad(d, t, before, &value);
    if (index < 0 && before && !t->operand->is_partial) {
        index = find_bad(d, t, NULL, &value);
        is_old = true;
    }
    return index < 0 ? NULL : check_error(t, index, value, is_old);
}

/* ---- one tensor ---- */

/* Says, saves or checks what is known. With d->lock held. */
static hn_status report(hn_debug *d, const hn_debug_tensor *t, const uint8_t *before) {
    hn_status status = NULL;
    if (d->options.level == HN_DEBUG_CHECK) return check(d, t, before);
    if (d->options.level == HN_DEBUG_SAVE) status = hn_debug_files_save(d, t);
    return status ? say_trouble(d, t, status) : say_tensor(d, t);
}

/* Looks at memory of the host. The lock is not held while all of it is read. */
static hn_status examine(hn_debug *d, hn_debug_tensor *t, uint64_t mark, const uint8_t *before) {
    hn_tensor_stats stats = {.first_bad = -1};
    const bool is_saved = d->options.level == HN_DEBUG_SAVE;
    if (!is_saved) stats_of(t->step, t->operand, t->data, &stats);
    pthread_mutex_lock(&d->lock);
    t->seen->mark = mark;
    t->seen->stats = stats;
    free(t->seen->file);
    t->seen->file = NULL;
    hn_status status = report(d, t, before);
    pthread_mutex_unlock(&d->lock);
    return status;
}

static hn_status trouble(hn_debug *d, const hn_debug_tensor *t, hn_status why) {
    pthread_mutex_lock(&d->lock);
    hn_status status = say_trouble(d, t, why);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* Whether it was seen, and is as it was. Then there is nothing new to say about a weight. */
static bool was_seen(hn_debug *d, const hn_debug_tensor *t, uint64_t mark, bool is_a_weight,
                     hn_status *out) {
    pthread_mutex_lock(&d->lock);
    const bool is_there = d->options.level != HN_DEBUG_SAVE || t->seen->file; /* else it failed */
    const bool is_known = t->seen->mark == mark && t->when != HN_DEBUG_AFTER && is_there;
    const bool is_said = is_a_weight || d->options.level == HN_DEBUG_CHECK;
    *out = is_known && !is_said ? report(d, t, NULL) : NULL;
    pthread_mutex_unlock(&d->lock);
    return is_known;
}

/* An operand of a step. `before`: what memory had before the step; NULL: all is to be looked at. */
static hn_status look_at(hn_debug *d, hn_debug_call *call, hn_debug_when when,
                         const hn_step_info *step, uint32_t k, const uint8_t *before) {
    hn_step_operand o;
    hn_status status = hn_step_operand_get(step, k, &o);
    void *own = NULL;
    if (status || !o.buffer) return status;
    const bool is_constant = is_weight(d->m, o.buffer);
    const uint64_t mark = is_constant ? step->run->c->weights->id : step->call;
    hn_debug_tensor t = {.call = step->call,
                         .when = when,
                         .step = step,
                         .operand = &o,
                         .seen = is_constant ? &d->weights[o.buffer] : &call->seen[o.buffer]};
    if (d->options.level == HN_DEBUG_CHECK &&
        (!is_float(o.type) || (when == HN_DEBUG_BEFORE && o.is_partial)))
        return NULL;
    if (was_seen(d, &t, mark, is_constant, &status)) return status;
    status = fetch(step, k, &o, &t.data, &own);
    status = status ? trouble(d, &t, status) : examine(d, &t, mark, before);
    free(own);
    return status;
}

/* ---- inputs of the model ---- */

static hn_status say_number(hn_debug *d, const hn_step_info *step, const char *name,
                            const hn_tensor *tensor) {
    hn_tensor_stats one;
    hn_strbuf text;
    hn_tensor_stats_get(
        &(hn_stats_tensor){.type = hn_tensor_type(tensor), .data = hn_tensor_data(tensor)}, NULL, 1,
        &one);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "call %llu: input '%s' is %.17g", (unsigned long long)step->call, name,
                     one.first_bad < 0 ? one.min : one.first_bad_value);
    pthread_mutex_lock(&d->lock);
    hn_status status =
        say(d, &(hn_debug_event){.call = step->call, .when = HN_DEBUG_INPUT, .step = step}, &text);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* The buffer that an input is in, for the steps; 0: none reads it. */
static uint32_t buffer_of(const hn_module *m, uint32_t input) {
    uint32_t b = m->view.buffers_count - 1;
    while (b && (m->view.buffers[b].kind != HNB_BUFFER_INPUT || m->view.buffers[b].source != input))
        b--;
    return b;
}

/* The caller's tensor, as an operand. */
static hn_step_operand operand_of(const hn_module *m, uint32_t input, const hn_tensor *tensor) {
    hn_step_operand o = {.buffer = buffer_of(m, input),
                         .name = hn_input_name(&m->view, input),
                         .node = "",
                         .has_shape = true,
                         .type = hn_tensor_type(tensor),
                         .device = hn_tensor_device(tensor),
                         .rank = hn_tensor_rank(tensor),
                         .data = hn_tensor_data(tensor)};
    memcpy(o.sizes, hn_tensor_sizes(tensor), o.rank * sizeof *o.sizes);
    memcpy(o.strides, hn_tensor_strides(tensor), o.rank * sizeof *o.strides);
    hn_status status = hn_extent_bytes(o.rank, o.sizes, o.strides,
                                       (uint32_t)hn_scalar_type_bytes(o.type), &o.bytes);
    hn_status_free(status); /* then it has no bytes; a tensor of the caller's was checked */
    return o;
}

static hn_status fetch_input(const hn_step_info *step, const hn_tensor *tensor,
                             const hn_step_operand *o, const void **out, void **out_own) {
    const hn_module *m = step->run->m;
    *out = o->data;
    *out_own = NULL;
    if (hn_tensor_is_on_host(tensor) || !o->bytes) return NULL;
    void *copy = malloc((size_t)o->bytes);
    if (!copy)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a copy of %lld bytes",
                        (long long)o->bytes);
    hn_status status = m->device->ops->read(step->run->c->places[HN_PLACE_KERNELS].queue, copy,
                                            o->data, (size_t)o->bytes);
    if (status) free(copy);
    else *out = *out_own = copy;
    return status;
}

static hn_status look_at_input(hn_debug *d, hn_debug_call *call, const hn_step_info *step,
                               uint32_t k) {
    const hn_module *m = step->run->m;
    const hn_tensor *tensor = step->run->c->inputs[k];
    const char *name = hn_input_name(&m->view, k);
    void *own = NULL;
    if (!tensor) return NULL;
    if (m->view.inputs[k].kind != HNB_VALUE_TENSOR)
        return d->options.level == HN_DEBUG_STATS ? say_number(d, step, name, tensor) : NULL;
    const hn_step_operand o = operand_of(m, k, tensor);
    if (!hn_debug_matches(d->options.arguments, name)) return NULL;
    hn_debug_tensor t = {.call = step->call,
                         .when = HN_DEBUG_INPUT,
                         .step = step,
                         .operand = &o,
                         .seen = &call->seen[o.buffer]};
    hn_status status = fetch_input(step, tensor, &o, &t.data, &own);
    status = status ? trouble(d, &t, status) : examine(d, &t, step->call, NULL);
    free(own);
    return status;
}

/* When steps are chosen, inputs are looked at where those read them; and so does CHECK, whose error
 * then names a step that is given one. */
static hn_status look_at_inputs(hn_debug *d, hn_debug_call *call, const hn_step_info *step) {
    if (d->options.kernels || d->options.nodes || d->options.level == HN_DEBUG_CHECK) return NULL;
    for (uint32_t k = 0; k < step->run->m->view.inputs_count; k++)
        HN_TRY(look_at_input(d, call, step, k));
    return NULL;
}

/* ---- one step ---- */

static bool wants_step(const hn_debug *d, const hn_step_info *step) {
    const hn_debug_options *o = &d->options;
    return step->call >= o->first_call && (!o->last_call || step->call <= o->last_call) &&
           hn_debug_matches(o->kernels, step->name);
}

static bool wants_tensor(const hn_debug *d, const hn_step_info *step, const hn_step_operand *o) {
    char number[16];
    const hn_debug_options *options = &d->options;
    if (options->nodes && !hn_debug_matches_step(options->nodes, step) &&
        !(*o->node && hn_debug_matches(options->nodes, o->node)))
        return false;
    snprintf(number, sizeof number, "b%u", o->buffer);
    return !options->arguments || hn_debug_matches(options->arguments, number) ||
           (*o->name && hn_debug_matches(options->arguments, o->name)) ||
           (*o->node && hn_debug_matches(options->arguments, o->node));
}

/* Copies of memory that a step writes parts of, per operand; NULL: not wanted. They live from
 * `before` to `after`, which finds them by the hook's note. */
typedef struct copies {
    uint32_t count;
    uint8_t *of[];
} copies;

static void copies_free(copies *all) {
    for (uint32_t k = 0; all && k < all->count; k++) free(all->of[k]);
    free(all);
}

static hn_status copy_operand(const hn_step_info *step, uint32_t k, const hn_step_operand *o,
                              copies **all) {
    if (!*all) {
        *all = calloc(1, sizeof **all + step->operand_count * sizeof *(*all)->of);
        if (!*all) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
        (*all)->count = step->operand_count;
    }
    uint8_t *copy = malloc((size_t)o->bytes);
    if (!copy)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a copy of %lld bytes",
                        (long long)o->bytes);
    (*all)->of[k] = copy;
    return hn_step_operand_read(step, k, copy, (size_t)o->bytes);
}

/* Whether the step reads the same tensor as an earlier operand. */
static bool is_repeated(const hn_step_info *step, uint32_t k) {
    const hn_module *m = step->run->m;
    const hnb_step *s = &m->view.steps[step->index];
    const uint32_t buffer = hn_step_arg(m, s, k).buffer;
    for (uint32_t i = 0; i < k; i++) {
        const hnb_operand o = hn_step_arg(m, s, i);
        if (o.buffer == buffer && !o.written) return true;
    }
    return false;
}

static hn_status look_before(hn_debug *d, hn_debug_call *call, const hn_step_info *step,
                             copies **kept) {
    for (uint32_t k = 0; k < step->operand_count; k++) {
        hn_step_operand o;
        HN_TRY(hn_step_operand_get(step, k, &o));
        if (!o.buffer || !wants_tensor(d, step, &o)) continue;
        if (!o.is_written) {
            if (!is_repeated(step, k)) HN_TRY(look_at(d, call, HN_DEBUG_BEFORE, step, k, NULL));
        } else if (d->options.level == HN_DEBUG_CHECK && is_float(o.type) && o.data && o.bytes &&
                   hn_writers_count(d->m, o.buffer) > 1) {
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
    if (!wants_step(d, step)) return NULL;
    pthread_mutex_lock(&d->lock);
    hn_debug_call *call = call_of(d, step, &is_new);
    hn_status status = NULL;
    if (!call) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
    else if (d->options.level == HN_DEBUG_NAMES && hn_debug_matches_step(d->options.nodes, step))
        status = say_step(d, step);
    pthread_mutex_unlock(&d->lock);
    if (status || d->options.level == HN_DEBUG_NAMES) return status;
    if (is_new) HN_TRY(look_at_inputs(d, call, step));
    status = look_before(d, call, step, &kept);
    if (status) copies_free(kept);
    else *note = (uint64_t)(uintptr_t)kept;
    return status;
}

static hn_status look_after(hn_debug *d, hn_debug_call *call, const hn_step_info *step,
                            const copies *kept) {
    for (uint32_t k = 0; k < step->operand_count; k++) {
        hn_step_operand o;
        HN_TRY(hn_step_operand_get(step, k, &o));
        if (!o.buffer || !o.is_written) continue;
        if (wants_step(d, step) && wants_tensor(d, step, &o))
            HN_TRY(look_at(d, call, HN_DEBUG_AFTER, step, k, kept ? kept->of[k] : NULL));
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
        pthread_mutex_lock(&d->lock);
        hn_debug_call *call = call_of(d, step, &is_new);
        pthread_mutex_unlock(&d->lock);
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
    hn_debug_files_close(d);
    for (hn_debug_call *call = d->calls, *next; call; call = next) {
        next = call->next;
        for (uint32_t b = 0; b < d->m->view.buffers_count; b++) free(call->seen[b].file);
        free(call->seen);
        free(call);
    }
    for (uint32_t b = 0; d->weights && b < d->m->view.buffers_count; b++) free(d->weights[b].file);
    for (size_t k = 0; k < HN_COUNT_OF(d->texts); k++) free(d->texts[k]);
    free(d->weights);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static hn_step_hook hook_of(hn_debug *d) { return (hn_step_hook){before, after, d}; }

static hn_status init(hn_debug *d, bool may_rename) {
    d->weights = calloc(d->m->view.buffers_count + 1u, sizeof *d->weights);
    if (!d->weights) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
    HN_TRY(copy_texts(d));
    if (d->options.level == HN_DEBUG_OFF) return NULL;
    HN_TRY(hn_debug_files_open(d, may_rename));
    const hn_step_hook hook = hook_of(d);
    return hn_module_hook_add(d->m, &hook);
}

static hn_status attach(hn_module *m, const hn_debug_options *options, bool may_rename,
                        hn_debug **out) {
    if ((unsigned)options->level >= HN_DEBUG_LEVEL_COUNT)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%d is no level of the tensor debugger",
                        (int)options->level);
    hn_debug *d = calloc(1, sizeof *d);
    if (!d) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
    *d = (hn_debug){.m = m, .options = *options, .line_fd = -1, .manifest_fd = -1};
    pthread_mutex_init(&d->lock, NULL);
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
}

void hn_debug_destroy_all(hn_module *m) {
    for (hn_debug *d = m->debuggers, *next; d; d = next) {
        next = d->next;
        destroy(d);
    }
}
