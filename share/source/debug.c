/* debug.c: looks at the tensors of each call of a kernel or operation. Nothing of it is there unless
 * the project is built with `make DEBUG=1`. Then the variable HENRY_DEBUG_TENSORS says what is
 * wanted:
 *
 *     names   a line for each call, before it: of a crash, the last one is guilty
 *     stats   also type, shape, strides, range, mean, deviation, NaN and infinities of each tensor
 *     save    each tensor as a file: save,to=DIR (debug_save.c)
 *     check   the first NaN or infinity ends the run with an error; check,inf=ok: the first NaN
 *
 * Patterns restrict it: stats,kernel=k_12*,node=*softmax*|*norm*,arg=b12; runs by number do:
 * calls=2-5. Lines go to standard error, or with to=FILE to that. Weights are looked at once. The
 * words and the lines are those of `henry run --debug-tensors`. */
#include "debug.h"

#ifdef MODEL_DEBUG
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_number(char **at, uint64_t *out) {
    if (**at < '0' || **at > '9') return false;
    *out = strtoull(*at, at, 10);
    return *out > 0;
}

/* "3", "2-5", "2-" */
static int read_calls(model *m, char *text, debug_wanted *w) {
    char *at = text;
    bool good = read_number(&at, &w->first_call);
    w->last_call = w->first_call;
    if (good && *at == '-') {
        at++;
        w->last_call = 0;
        if (*at) good = read_number(&at, &w->last_call) && w->last_call >= w->first_call;
    }
    if (good && !*at) return 0;
    return fail(m,
                "HENRY_DEBUG_TENSORS: 'calls' is '%s'; give the numbers of runs, from 1: 3, 2-5 or "
                "2-",
                text);
}

static int read_ok(model *m, const char *word, const char *text, bool *out) {
    *out = strcmp(text, "ok") == 0;
    if (*out || strcmp(text, "bad") == 0) return 0;
    return fail(m, "HENRY_DEBUG_TENSORS: '%s' is '%s'; give 'ok' or 'bad'", word, text);
}

static int read_level(model *m, const char *word, debug_wanted *w) {
    static const char *const levels[] = {"off", "names", "stats", "save", "check"};
    for (int k = DEBUG_OFF; k <= DEBUG_CHECK; k++)
        if (strcmp(word, levels[k]) == 0) {
            w->level = k;
            return 0;
        }
    return fail(m,
                "HENRY_DEBUG_TENSORS: '%s' is no level of the tensor debugger (off, names, stats, "
                "save, check)",
                word);
}

static int read_pair(model *m, char *word, debug_wanted *w) {
    static const char *const keys[] = {"kernel", "node", "arg", "to"};
    const char **const places[] = {&w->kernel, &w->node, &w->arg, &w->to};
    char *value = strchr(word, '=');
    if (!value || !value[1])
        return fail(m, "HENRY_DEBUG_TENSORS: '%s' needs a value, as in kernel=*softmax*", word);
    *value++ = 0;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (strcmp(word, keys[k]) == 0) {
            *places[k] = value;
            return 0;
        }
    if (strcmp(word, "calls") == 0) return read_calls(m, value, w);
    if (strcmp(word, "inf") == 0) return read_ok(m, word, value, &w->ignore_inf);
    if (strcmp(word, "nan") == 0) return read_ok(m, word, value, &w->ignore_nan);
    return fail(m,
                "HENRY_DEBUG_TENSORS: '%s' is no word of the tensor debugger (kernel, node, arg, "
                "to, calls, inf, nan)",
                word);
}

/* Read anew for each run: a program may set the variable in between. */
static int read_wanted(model *m, debug_wanted *w) {
    const char *given = getenv("HENRY_DEBUG_TENSORS");
    *w = (debug_wanted){.level = DEBUG_OFF};
    if (!given || !*given) return 0;
    if (strlen(given) >= sizeof w->text)
        return fail(m, "HENRY_DEBUG_TENSORS has more than %zu bytes", sizeof w->text - 1);
    snprintf(w->text, sizeof w->text, "%s", given);
    for (char *word = w->text, *comma; word; word = comma) {
        comma = strchr(word, ',');
        if (comma) *comma++ = 0;
        if (word == w->text) TRY(read_level(m, word, w));
        else TRY(read_pair(m, word, w));
    }
    return 0;
}

/* `*out` NULL: nothing is wanted of this run, or there is no memory for it. */
static int get_wanted(model *m, const debug_wanted **out) {
    struct debug *d = m->debug;
    *out = NULL;
    if (!d) {
        if (!getenv("HENRY_DEBUG_TENSORS")) return 0;
        m->debug = d = calloc(1, sizeof *d);
        if (!d) return 0;
        d->seen = calloc(debug_buffers, sizeof *d->seen);
        d->files = calloc(debug_buffers, sizeof *d->files);
    }
    if (!d->seen || !d->files) return 0;
    if (d->call != m->calls && !d->manifest) TRY(read_wanted(m, &d->wanted)); /* a folder stays */
    d->call = m->calls;
    const debug_wanted *w = &d->wanted;
    const bool is_meant = m->calls >= w->first_call && (!w->last_call || m->calls <= w->last_call);
    if (w->level != DEBUG_OFF && is_meant) *out = w;
    return 0;
}

void debug_close(model *m) {
    if (!m->debug) return;
    if (m->debug->gpu) model_program.debug_device->close(m);
    if (m->debug->manifest) fclose(m->debug->manifest);
    free(m->debug->seen);
    free(m->debug->files);
    free(m->debug);
}

/* Patterns with '*' and '?', separated by '|'; NULL matches all. */
static bool matches(const char *patterns, const char *name) {
    char text[1200], *rest = text, *one;
    if (!patterns) return true;
    snprintf(text, sizeof text, "%s", patterns);
    while ((one = strsep(&rest, "|")))
        if (fnmatch(one, name, FNM_NOESCAPE) == 0) return true;
    return false;
}

static bool matches_step(const char *patterns, const debug_step *s) {
    bool is_match = matches(patterns, s->node);
    for (uint32_t k = 0; k < s->nodes && !is_match; k++)
        is_match = matches(patterns, debug_nodes[s->first_node + k]);
    return is_match;
}

static bool wants_tensor(const debug_wanted *w, const debug_step *s, const debug_operand *o) {
    char number[16];
    if (w->node && !matches_step(w->node, s) && !(*o->node && matches(w->node, o->node)))
        return false;
    snprintf(number, sizeof number, "b%u", o->buffer);
    return !w->arg || matches(w->arg, number) || (*o->name && matches(w->arg, o->name)) ||
           (*o->node && matches(w->arg, o->node));
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

enum { NODES_SHOWN = 6 };

/* ", node add" or ", nodes add mul relu" */
static void print_nodes(FILE *out, const debug_step *s) {
    for (uint32_t k = 0; k < s->nodes && k < NODES_SHOWN; k++) {
        const char *node = debug_nodes[s->first_node + k];
        const char *before = s->nodes > 1 ? ", nodes " : ", node ";
        if (*node) fprintf(out, "%s%s", k ? " " : before, node);
    }
    if (s->nodes > NODES_SHOWN) fprintf(out, " and %u more", s->nodes - NODES_SHOWN);
}

static void print_step(FILE *out, const model *m, const debug_step *s) {
    fprintf(out, "call %" PRIu64 " step %u %s%s%s%s%s", m->calls, s->number, s->kind, s->name,
            *s->form ? " as " : "", s->form, s->is_remote ? " on cuda:0" : "");
    print_nodes(out, s);
    if (*s->source) fprintf(out, ", %s", s->source);
}

static void print_name(FILE *out, const debug_operand *o) {
    fprintf(out, "b%u", o->buffer);
    if (*o->name) fprintf(out, " '%s'", o->name);
    if (*o->node) fprintf(out, " (%s)", o->node);
}

static double bad_value(const hn_tensor_stats *s) {
    return isnan(s->first_bad_value) ? (double)NAN : s->first_bad_value;
}

static void print_stats(FILE *out, const hn_tensor_stats *s, const int64_t *sizes, uint32_t rank) {
    if (!s->count) {
        fputs(" empty", out);
        return;
    }
    if (s->count > s->nan_count + s->inf_count)
        fprintf(out, " min %.6g max %.6g mean %.6g std %.6g", s->min, s->max, s->mean, s->std);
    if (s->first_bad < 0) return;
    fprintf(out, " nan %" PRId64 " inf %" PRId64 ", first ", s->nan_count, s->inf_count);
    print_index(out, s->first_bad, sizes, rank);
    fprintf(out, " is %g", bad_value(s));
}

static void print_tensor(FILE *out, const model *m, const debug_tensor *t,
                         const hn_tensor_stats *stats) {
    static const char *const whens[] = {"input", "before", "after"};
    const debug_operand *o = t->operand;
    if (t->when == DEBUG_INPUT) fprintf(out, "call %" PRIu64, m->calls);
    else print_step(out, m, t->step);
    fprintf(out, ": %s ", whens[t->when]);
    print_name(out, o);
    fprintf(out, " %s", hn_scalar_type_name((hn_scalar_type)o->type));
    print_dims(out, "", t->sizes, o->rank);
    print_dims(out, " strides ", t->strides, o->rank);
    if (o->is_partial) fputs(" (later steps write the rest)", out);
    print_stats(out, stats, t->sizes, o->rank);
}

/* A line that is being written: in one write at last, so that those of several threads do not
 * mix. */
typedef struct debug_line {
    FILE *out;
    char *text;
    size_t len;
} debug_line;

static bool line_begin(debug_line *line) {
    *line = (debug_line){0};
    line->out = open_memstream(&line->text, &line->len);
    return line->out != NULL;
}

static int line_end(model *m, const debug_wanted *w, debug_line *line) {
    fputc('\n', line->out);
    fclose(line->out);
    FILE *to = w->to ? fopen(w->to, "a") : stderr;
    if (to) {
        fwrite(line->text, 1, line->len, to);
        fflush(to);
    }
    free(line->text);
    if (!to) return fail(m, "cannot open '%s' for the lines of the tensor debugger", w->to);
    if (w->to) fclose(to);
    return 0;
}

static int say_step(model *m, const debug_wanted *w, const debug_step *s) {
    debug_line line;
    if (!line_begin(&line)) return 0;
    print_step(line.out, m, s);
    return line_end(m, w, &line);
}

static int say_tensor(model *m, const debug_wanted *w, const debug_tensor *t,
                      const hn_tensor_stats *stats) {
    debug_line line;
    if (!line_begin(&line)) return 0;
    print_tensor(line.out, m, t, stats);
    return line_end(m, w, &line);
}

/* The first element in row-major order that is a fault; `value` of it. Slow, and asked only when
 * there is one but the first NaN or infinity is none. */
static int64_t find_fault(const debug_wanted *w, const debug_tensor *t, int64_t count,
                          double *out_value) {
    const debug_operand *o = t->operand;
    const int64_t bytes = (int64_t)hn_scalar_type_bytes((hn_scalar_type)o->type);
    for (int64_t k = 0; k < count; k++) {
        int64_t rest = k, offset = 0;
        hn_tensor_stats one;
        for (uint32_t d = o->rank; d-- > 0; rest /= t->sizes[d])
            offset += rest % t->sizes[d] * t->strides[d];
        hn_tensor_stats_get(&(hn_stats_tensor){.type = (hn_scalar_type)o->type,
                                               .data = (const uint8_t *)t->data + offset * bytes},
                            NULL, 1, &one);
        *out_value = one.first_bad_value;
        if ((one.nan_count && !w->ignore_nan) || (one.inf_count && !w->ignore_inf)) return k;
    }
    return -1;
}

int debug_check(model *m, const debug_tensor *t, const hn_tensor_stats *stats) {
    const debug_wanted *w = &m->debug->wanted;
    char text[400] = "", where[300] = "";
    if ((!stats->nan_count || w->ignore_nan) && (!stats->inf_count || w->ignore_inf)) return 0;
    int64_t index = stats->first_bad;
    double value = bad_value(stats);
    if (isnan(value) ? w->ignore_nan : w->ignore_inf)
        index = find_fault(w, t, stats->count, &value);
    FILE *out = fmemopen(text, sizeof text, "w");
    if (out) {
        print_name(out, t->operand);
        fputs(" at ", out);
        print_index(out, index, t->sizes, t->operand->rank);
        fclose(out);
    }
    if (*t->step->source) snprintf(where, sizeof where, " (%s)", t->step->source);
    if (t->operand->is_weight) m->debug->seen[t->operand->buffer].mark = 0; /* in each run */
    return fail(m,
                "node '%s'%s: '%s' (step %u of call %" PRIu64 ") %s %g %s %s: of %" PRId64
                " elements (%s) %" PRId64 " are NaN and %" PRId64 " infinite",
                t->step->node, where, t->step->name, t->step->number, m->calls,
                t->when == DEBUG_AFTER ? "has written" : "is given",
                isnan(value) ? (double)NAN : value, t->when == DEBUG_AFTER ? "to" : "in", text,
                stats->count, hn_scalar_type_name((hn_scalar_type)t->operand->type),
                stats->nan_count, stats->inf_count);
}

/* Whether it was seen, and is as it was. What is saved is compared with its last file. */
static bool was_seen(const model *m, const debug_wanted *w, const debug_tensor *t) {
    const debug_operand *o = t->operand;
    debug_seen *seen = &m->debug->seen[o->buffer];
    const uint64_t mark = o->is_weight ? 1 : m->calls;
    const bool was = seen->mark == mark && t->when == DEBUG_BEFORE;
    seen->mark = mark;
    return was && (o->is_weight || w->level != DEBUG_SAVE);
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

static int say_stats(model *m, const debug_wanted *w, const debug_tensor *t,
                     const hn_tensor_stats *stats) {
    m->debug->seen[t->operand->buffer].stats = *stats;
    return say_tensor(m, w, t, stats);
}

int debug_finish(model *m) {
    return m->debug && m->debug->gpu ? model_program.debug_device->check_all(m) : 0;
}

/* What the level asks for. */
static int examine(model *m, const debug_wanted *w, const debug_tensor *t) {
    hn_tensor_stats stats;
    if (w->level == DEBUG_SAVE) return debug_save(m, t);
    hn_tensor_stats_get(&(hn_stats_tensor){(hn_scalar_type)t->operand->type, t->operand->rank,
                                           t->sizes, t->strides, t->data},
                        &m->team, m->threads, &stats);
    if (w->level == DEBUG_STATS) return say_stats(m, w, t, &stats);
    const int is_bad = debug_check(m, t, &stats);
    if (is_bad) (void)debug_finish(m); /* what the GPU has found before is the fault instead */
    return is_bad;
}

/* The GPU makes the statistics where the tensor is, if it can. */
static int examine_remote(model *m, const debug_wanted *w, debug_tensor *t) {
    const debug_device_calls *device = model_program.debug_device;
    hn_tensor_stats stats;
    bool is_done = false;
    if (w->level == DEBUG_STATS && device->stats(m, t, &stats)) return say_stats(m, w, t, &stats);
    if (w->level == DEBUG_CHECK) TRY(device->check_later(m, t, &is_done));
    if (is_done) return 0;
    TRY(bring(m, t));
    return examine(m, w, t);
}

static int look(model *m, const debug_wanted *w, debug_tensor *t) {
    const debug_operand *o = t->operand;
    int64_t dims[2 * MODEL_MAX_RANK + 1];
    if (w->level == DEBUG_CHECK && (o->is_partial || o->type > MODEL_BF16)) return 0;
    for (uint32_t d = 0; d < 2 * o->rank; d++) {
        dims[d] = o->dims[d].n ? m->numbers[o->dims[d].n] : o->dims[d].value;
        if (dims[d] < 0) return 0; /* it is not known yet */
    }
    t->sizes = dims, t->strides = dims + o->rank;
    if (was_seen(m, w, t)) {
        const bool is_said = o->is_weight || w->level == DEBUG_CHECK;
        return is_said ? 0 : say_tensor(m, w, t, &m->debug->seen[o->buffer].stats);
    }
    return o->is_remote ? examine_remote(m, w, t) : examine(m, w, t);
}

/* ---- inputs of the model ---- */

static int say_number(model *m, const debug_wanted *w, const model_info *info, const void *data) {
    hn_tensor_stats one;
    debug_line line;
    if (!line_begin(&line)) return 0;
    hn_tensor_stats_get(&(hn_stats_tensor){.type = (hn_scalar_type)info->type, .data = data}, NULL,
                        1, &one);
    fprintf(line.out, "call %" PRIu64 ": input '%s' is %.17g", m->calls, info->name,
            one.first_bad < 0 ? one.min : one.first_bad_value);
    return line_end(m, w, &line);
}

/* The caller's array. */
static int look_at_input(model *m, const debug_wanted *w, const debug_step *s, uint32_t k) {
    const model_info *info = &model_inputs[k];
    const model_array *a = &m->given[k];
    int64_t strides[MODEL_MAX_RANK], next = 1;
    const debug_operand o = {.buffer = debug_inputs[k],
                             .name = info->name,
                             .node = "",
                             .type = (uint32_t)info->type,
                             .rank = (uint32_t)info->rank};
    if (info->kind != MODEL_TENSOR) {
        if (w->level != DEBUG_STATS || !a->data) return 0;
        return say_number(m, w, info, a->data);
    }
    if (!matches(w->arg, info->name)) return 0;
    for (uint32_t d = o.rank; d-- > 0; next *= a->sizes[d] > 1 ? a->sizes[d] : 1) strides[d] = next;
    const debug_tensor t = {.step = s,
                            .operand = &o,
                            .when = DEBUG_INPUT,
                            .sizes = a->sizes,
                            .strides = strides,
                            .data = a->data};
    if (o.buffer) m->debug->seen[o.buffer].mark = m->calls;
    return examine(m, w, &t);
}

/* Once a run. When calls are chosen, inputs are looked at where those read them; and so does CHECK,
 * whose error then names a call that is given one. */
static int look_at_inputs(model *m, const debug_wanted *w, const debug_step *s) {
    if (m->debug->inputs_of == m->calls) return 0;
    m->debug->inputs_of = m->calls;
    if (w->kernel || w->node || w->level == DEBUG_CHECK) return 0;
    for (uint32_t k = 0; k < model_program.inputs; k++) TRY(look_at_input(m, w, s, k));
    return 0;
}

/* ---- calls ---- */

/* Whether the call reads the same tensor as an earlier operand. */
static bool is_repeated(const debug_operand *operands, uint32_t k) {
    for (uint32_t i = 0; i < k; i++)
        if (operands[i].buffer == operands[k].buffer && !operands[i].is_written) return true;
    return false;
}

static int look_all(model *m, const debug_wanted *w, const debug_step *s, void *const *data,
                    debug_when when) {
    const debug_operand *operands = &debug_operands[s->first];
    for (uint32_t k = 0; k < s->operands; k++) {
        const debug_operand *o = &operands[k];
        debug_tensor t = {.step = s, .operand = o, .when = when, .data = data[k]};
        if (!o->buffer || o->is_written != (when == DEBUG_AFTER) || !data[k]) continue;
        if (!wants_tensor(w, s, o)) {
            if (when == DEBUG_AFTER) m->debug->seen[o->buffer].mark = 0;
            continue;
        }
        if (when == DEBUG_AFTER || !is_repeated(operands, k)) TRY(look(m, w, &t));
    }
    return 0;
}

int debug_begin(model *m, uint32_t step, void *const *data) {
    const debug_wanted *w;
    const debug_step *s = &debug_steps[step];
    TRY(get_wanted(m, &w));
    if (!w || !matches(w->kernel, s->name)) return 0;
    if (w->level == DEBUG_NAMES) return matches_step(w->node, s) ? say_step(m, w, s) : 0;
    TRY(look_at_inputs(m, w, s));
    return look_all(m, w, s, data, DEBUG_BEFORE);
}

/* Of a call that is not looked at: what was seen is past. */
static int forget_written(model *m, const debug_step *s) {
    for (uint32_t k = 0; k < s->operands; k++) {
        const debug_operand *o = &debug_operands[s->first + k];
        if (o->is_written) m->debug->seen[o->buffer].mark = 0;
    }
    return 0;
}

int debug_end(model *m, uint32_t step, void *const *data) {
    const debug_wanted *w;
    const debug_step *s = &debug_steps[step];
    TRY(get_wanted(m, &w));
    if (!w || w->level < DEBUG_STATS) return 0;
    if (!matches(w->kernel, s->name)) return forget_written(m, s);
    return look_all(m, w, s, data, DEBUG_AFTER);
}
#else
typedef int debug_is_off; /* C wants something in a file */
#endif
