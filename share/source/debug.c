/* debug.c: looks at the tensors of each call of a kernel or operation. Nothing of it is there unless
 * the project is built with `make DEBUG=1`. Then the variable HENRY_DEBUG_TENSORS says what is
 * wanted:
 *
 *     names   a line for each call, before it: of a crash, the last one is guilty
 *     stats   also type, shape, strides, range, mean, deviation, NaN and infinities of each tensor
 *     save    each tensor as a file: save,to=DIR (debug_save.c)
 *     check   the first NaN or infinity ends the run with an error; check,inf=ok: the first NaN
 *
 * Patterns restrict it: stats,kernel=k_12*,node=*softmax*|*norm*. Lines go to standard error. Weights
 * are looked at once. `henry run --debug-tensors` can do more: other patterns, numbers of runs. */
#include "debug.h"

#ifdef MODEL_DEBUG
#include "runtime/tensor_stats.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is not understood is said, once a run, and ignored. */
static debug_wanted read_wanted(void) {
    static const char *const levels[] = {"off", "names", "stats", "save", "check"};
    debug_wanted w = {.level = -1};
    char text[1200], *rest = NULL;
    const char *given = getenv("HENRY_DEBUG_TENSORS");
    snprintf(text, sizeof text, "%s", given ? given : "off");
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        bool is_level = false;
        for (int k = DEBUG_OFF; k <= DEBUG_CHECK && w.level < 0; k++)
            if ((is_level = strcmp(word, levels[k]) == 0)) w.level = k;
        if (strncmp(word, "kernel=", 7) == 0) snprintf(w.kernel, sizeof w.kernel, "%s", word + 7);
        else if (strncmp(word, "node=", 5) == 0) snprintf(w.node, sizeof w.node, "%s", word + 5);
        else if (strncmp(word, "to=", 3) == 0) snprintf(w.folder, sizeof w.folder, "%s", word + 3);
        else if (strcmp(word, "inf=ok") == 0) w.ignore_inf = true;
        else if (strcmp(word, "nan=ok") == 0) w.ignore_nan = true;
        else if (!is_level)
            fprintf(stderr,
                    "HENRY_DEBUG_TENSORS: an emitted model has no '%s'; it has names, stats, save, "
                    "check, kernel=, node=, to=, inf=ok\n",
                    word);
    }
    if (w.level < 0) w.level = DEBUG_OFF;
    return w;
}

/* NULL: nothing is wanted, or there is no memory for it. */
static const debug_wanted *get_wanted(model *m) {
    struct debug *d = m->debug;
    if (!d) {
        if (!getenv("HENRY_DEBUG_TENSORS")) return NULL;
        m->debug = d = calloc(1, sizeof *d);
        if (!d) return NULL;
        d->seen = calloc(debug_buffers, sizeof *d->seen);
        d->files = calloc(debug_buffers, sizeof *d->files);
    }
    if (!d->seen || !d->files) return NULL;
    if (d->call != m->calls && !d->manifest) d->wanted = read_wanted(); /* a folder stays */
    d->call = m->calls;
    return d->wanted.level == DEBUG_OFF ? NULL : &d->wanted;
}

void debug_close(model *m) {
    if (!m->debug) return;
    if (m->debug->manifest) fclose(m->debug->manifest);
    free(m->debug->seen);
    free(m->debug->files);
    free(m->debug);
}

/* Patterns with '*' and '?', separated by '|'. */
static bool matches(const char *patterns, const char *name) {
    char text[200], *rest = NULL;
    snprintf(text, sizeof text, "%s", patterns);
    for (char *one = strtok_r(text, "|", &rest); one; one = strtok_r(NULL, "|", &rest))
        if (fnmatch(one, name, FNM_NOESCAPE) == 0) return true;
    return !*patterns;
}

static bool fits(const debug_wanted *w, const debug_step *s) {
    return matches(w->kernel, s->name) && matches(w->node, s->node);
}

static void print_dims(FILE *out, const char *name, const int64_t *dims, uint32_t rank) {
    fprintf(out, "%s[", name);
    for (uint32_t d = 0; d < rank; d++) fprintf(out, "%s%" PRId64, d ? ", " : "", dims[d]);
    fputc(']', out);
}

static void print_index(FILE *out, int64_t index, const int64_t *sizes, uint32_t rank) {
    int64_t at[MODEL_MAX_RANK];
    for (uint32_t d = rank; d-- > 0; index /= sizes[d]) at[d] = index % sizes[d];
    print_dims(out, "", at, rank);
}

static void print_call(FILE *out, const model *m, const debug_step *s) {
    fprintf(out, "call %" PRIu64 " %s, node '%s'", m->calls, s->name, s->node);
    if (*s->source) fprintf(out, " (%s)", s->source);
}

static const char *label_of(const debug_operand *o) { return *o->node ? o->node : o->name; }

static void print_stats(FILE *out, const hn_tensor_stats *s, const int64_t *sizes, uint32_t rank) {
    if (s->count > s->nan_count + s->inf_count)
        fprintf(out, " min %.6g max %.6g mean %.6g std %.6g", s->min, s->max, s->mean, s->std);
    if (s->first_bad < 0) return;
    fprintf(out, " nan %" PRId64 " inf %" PRId64 ", first ", s->nan_count, s->inf_count);
    print_index(out, s->first_bad, sizes, rank);
}

/* One line in one write, so that those of several threads do not mix. */
static void say(const model *m, const debug_step *s, const char *when, const debug_operand *o,
                const int64_t *sizes, const int64_t *strides, const hn_tensor_stats *stats) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out) return;
    print_call(out, m, s);
    if (o) {
        const char *name = label_of(o);
        fprintf(out, ": %s b%u%s%s%s %s", when, o->buffer, *name ? " (" : "", name,
                *name ? ")" : "", hn_scalar_type_name((hn_scalar_type)o->type));
        print_dims(out, "", sizes, o->rank);
        print_dims(out, " strides ", strides, o->rank);
        if (o->is_partial) fprintf(out, " (later steps write the rest)");
        print_stats(out, stats, sizes, o->rank);
    }
    fputc('\n', out);
    fclose(out);
    fwrite(text, 1, len, stderr);
    fflush(stderr);
    free(text);
}

static int check(model *m, const debug_wanted *w, const debug_tensor *t,
                 const hn_tensor_stats *stats) {
    char text[200] = "", where[300] = "";
    if ((!stats->nan_count || w->ignore_nan) && (!stats->inf_count || w->ignore_inf)) return 0;
    FILE *out = fmemopen(text, sizeof text, "w");
    if (out) print_index(out, stats->first_bad, t->sizes, t->operand->rank);
    if (out) fclose(out);
    if (*t->step->source) snprintf(where, sizeof where, " (%s)", t->step->source);
    if (t->operand->is_weight) m->debug->seen[t->operand->buffer] = false; /* in each run */
    return fail(m,
                "node '%s'%s: '%s' (call %" PRIu64 ") %s b%u (%s): %" PRId64 " of %" PRId64
                " elements are NaN, %" PRId64 " infinite; the first NaN or infinity is at %s",
                t->step->node, where, t->step->name, m->calls,
                t->is_after ? "has written" : "is given", t->operand->buffer, label_of(t->operand),
                stats->nan_count, stats->count, stats->inf_count, text);
}

/* Whether it is a weight that was looked at. */
static bool was_seen(const model *m, const debug_operand *o) {
    const bool was = o->is_weight && m->debug->seen[o->buffer];
    m->debug->seen[o->buffer] = true;
    return was;
}

/* A copy of what the device has, once the work before is done. */
static int bring(model *m, debug_tensor *t) {
    const debug_operand *o = t->operand;
    int64_t last = 1;
    for (uint32_t d = 0; d < o->rank; d++) {
        if (!t->sizes[d]) return 0;
        last = n_add(last, n_mul(t->sizes[d] - 1, t->strides[d]));
    }
    const int64_t bytes = n_mul(last, (int64_t)hn_scalar_type_bytes((hn_scalar_type)o->type));
    TRY(reserve(m, &m->seen, bytes));
    TRY(model_program.device->read(m, m->seen.bytes, t->data, bytes));
    t->data = m->seen.bytes;
    return 0;
}

static int look(model *m, const debug_wanted *w, debug_tensor *t) {
    const debug_operand *o = t->operand;
    int64_t dims[2 * MODEL_MAX_RANK + 1];
    hn_tensor_stats stats;
    if (w->level == DEBUG_CHECK && (o->is_partial || o->type > MODEL_BF16)) return 0;
    for (uint32_t d = 0; d < 2 * o->rank; d++) {
        dims[d] = o->dims[d].n ? m->numbers[o->dims[d].n] : o->dims[d].value;
        if (dims[d] < 0) return 0; /* it is not known yet */
    }
    if (was_seen(m, o)) return 0;
    t->sizes = dims, t->strides = dims + o->rank;
    if (o->is_remote) TRY(bring(m, t));
    if (w->level == DEBUG_SAVE) return debug_save(m, t);
    hn_tensor_stats_get(
        &(hn_stats_tensor){(hn_scalar_type)o->type, o->rank, t->sizes, t->strides, t->data},
        &m->team, m->threads, &stats);
    if (w->level == DEBUG_CHECK) return check(m, w, t, &stats);
    say(m, t->step, t->is_after ? "after" : "before", o, t->sizes, t->strides, &stats);
    return 0;
}

/* Whether the call reads the same tensor as an earlier operand. */
static bool is_repeated(const debug_operand *operands, uint32_t k) {
    for (uint32_t i = 0; i < k; i++)
        if (operands[i].buffer == operands[k].buffer && !operands[i].is_written) return true;
    return false;
}

static int look_all(model *m, const debug_wanted *w, const debug_step *s, void *const *data,
                    bool is_after) {
    const debug_operand *operands = &debug_operands[s->first];
    for (uint32_t k = 0; k < s->operands; k++) {
        const debug_operand *o = &operands[k];
        debug_tensor t = {.step = s, .operand = o, .is_after = is_after, .data = data[k]};
        if (!o->buffer || o->is_written != is_after || !data[k]) continue;
        if (is_after || !is_repeated(operands, k)) TRY(look(m, w, &t));
    }
    return 0;
}

int debug_begin(model *m, uint32_t step, void *const *data) {
    const debug_wanted *w = get_wanted(m);
    const debug_step *s = &debug_steps[step];
    if (!w || !fits(w, s)) return 0;
    if (w->level <= DEBUG_STATS) say(m, s, NULL, NULL, NULL, NULL, NULL);
    return w->level == DEBUG_NAMES ? 0 : look_all(m, w, s, data, false);
}

int debug_end(model *m, uint32_t step, void *const *data) {
    const debug_wanted *w = get_wanted(m);
    const debug_step *s = &debug_steps[step];
    if (!w || w->level < DEBUG_STATS || !fits(w, s)) return 0;
    return look_all(m, w, s, data, true);
}
#else
typedef int debug_is_off; /* C wants something in a file */
#endif
