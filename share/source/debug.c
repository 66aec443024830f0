/* debug.c: looks at the tensors of each call of a kernel or operation. Nothing of it is there unless
 * the project is built with `make DEBUG=1`. Then the variable HENRY_DEBUG_TENSORS says what is
 * wanted:
 *
 *     names   a line for each call, before it: of a crash, the last one is guilty
 *     stats   also type, shape, strides, range, mean, deviation, NaN and infinities of each tensor
 *     check   the first NaN or infinity ends the run with an error; check,inf=ok: the first NaN
 *
 * Patterns restrict it: stats,kernel=k_12*,node=*softmax*. Lines go to standard error. `henry run
 * --debug-tensors` can do more: files, other patterns, numbers of runs. */
#include "support.h"

#ifdef MODEL_DEBUG
#include "runtime/tensor_stats.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OFF, NAMES, STATS, CHECK };

typedef struct wanted {
    int level;
    bool ignore_inf;
    char kernel[200], node[200]; /* patterns; "": all */
} wanted;

/* What is not understood is said, once a run, and ignored. */
static wanted read_wanted(void) {
    static const char *const levels[] = {"off", "names", "stats", "check"};
    wanted w = {.level = -1};
    char text[600], *rest = NULL;
    const char *given = getenv("HENRY_DEBUG_TENSORS");
    snprintf(text, sizeof text, "%s", given ? given : "off");
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        for (int k = OFF; k <= CHECK && w.level < 0; k++)
            if (strcmp(word, levels[k]) == 0) w.level = k;
        if (strncmp(word, "kernel=", 7) == 0) snprintf(w.kernel, sizeof w.kernel, "%s", word + 7);
        else if (strncmp(word, "node=", 5) == 0) snprintf(w.node, sizeof w.node, "%s", word + 5);
        else if (strcmp(word, "inf=ok") == 0) w.ignore_inf = true;
        else if (w.level < 0 || strcmp(word, levels[w.level]) != 0)
            fprintf(stderr,
                    "HENRY_DEBUG_TENSORS: an emitted model has no '%s'; it has names, stats, "
                    "check, kernel=, node=, inf=ok\n",
                    word);
    }
    if (w.level < 0) w.level = OFF;
    return w;
}

static const wanted *get_wanted(model *m) {
    static _Thread_local wanted w;
    static _Thread_local const model *of;
    static _Thread_local uint64_t call;
    if (of != m || call != m->calls) w = read_wanted();
    of = m;
    call = m->calls;
    return &w;
}

/* `where` is "node 'x' (file:3)". */
static bool fits(const wanted *w, const debug_step *s) {
    char pattern[220];
    snprintf(pattern, sizeof pattern, "node '%s'*", w->node);
    return (!*w->kernel || fnmatch(w->kernel, s->name, 0) == 0) &&
           (!*w->node || fnmatch(pattern, s->where, 0) == 0);
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
    fprintf(out, "call %" PRIu64 " %s, %s", m->calls, s->name, s->where);
}

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
        fprintf(out, ": %s b%u%s%s%s %s", when, o->buffer, *o->name ? " (" : "", o->name,
                *o->name ? ")" : "", hn_scalar_type_name((hn_scalar_type)o->type));
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

static int check(model *m, const wanted *w, const debug_step *s, const char *when,
                 const debug_operand *o, const int64_t *sizes, const hn_tensor_stats *stats) {
    char text[200] = "";
    if (!stats->nan_count && (!stats->inf_count || w->ignore_inf)) return 0;
    FILE *out = fmemopen(text, sizeof text, "w");
    if (out) print_index(out, stats->first_bad, sizes, o->rank);
    if (out) fclose(out);
    return fail(m,
                "%s: '%s' (call %" PRIu64 ") %s b%u (%s): %" PRId64 " of %" PRId64
                " elements are NaN, %" PRId64 " infinite; the first NaN or infinity is at %s",
                s->where, s->name, m->calls, when, o->buffer, o->name, stats->nan_count,
                stats->count, stats->inf_count, text);
}

static int look(model *m, const wanted *w, const debug_step *s, const debug_operand *o,
                const void *data, bool is_after) {
    int64_t dims[2 * MODEL_MAX_RANK + 1];
    hn_tensor_stats stats;
    if (w->level == CHECK && (o->is_partial || o->type > MODEL_BF16)) return 0;
    for (uint32_t d = 0; d < 2 * o->rank; d++) {
        dims[d] = o->dims[d].n ? m->numbers[o->dims[d].n] : o->dims[d].value;
        if (dims[d] < 0) return 0; /* it is not known yet */
    }
    const int64_t *sizes = dims, *strides = dims + o->rank;
    hn_tensor_stats_get(&(hn_stats_tensor){(hn_scalar_type)o->type, o->rank, sizes, strides, data},
                        &m->team, m->threads, &stats);
    if (w->level == CHECK)
        return check(m, w, s, is_after ? "has written" : "is given", o, sizes, &stats);
    say(m, s, is_after ? "after" : "before", o, sizes, strides, &stats);
    return 0;
}

static int look_all(model *m, const wanted *w, const debug_step *s, void *const *data,
                    bool is_after) {
    for (uint32_t k = 0; k < s->operands; k++) {
        const debug_operand *o = &debug_operands[s->first + k];
        if (o->buffer && o->is_written == is_after && data[k])
            TRY(look(m, w, s, o, data[k], is_after));
    }
    return 0;
}

int debug_begin(model *m, uint32_t step, void *const *data) {
    const wanted *w = get_wanted(m);
    const debug_step *s = &debug_steps[step];
    if (w->level == OFF || !fits(w, s)) return 0;
    if (w->level != CHECK) say(m, s, NULL, NULL, NULL, NULL, NULL);
    return w->level == NAMES ? 0 : look_all(m, w, s, data, false);
}

int debug_end(model *m, uint32_t step, void *const *data) {
    const wanted *w = get_wanted(m);
    const debug_step *s = &debug_steps[step];
    if (w->level < STATS || !fits(w, s)) return 0;
    return look_all(m, w, s, data, true);
}
#else
typedef int debug_is_off; /* C wants something in a file */
#endif
