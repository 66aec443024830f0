/* debug_options.c: what the debugger is to do, as text: "stats,kernel=*softmax*,calls=2-5". */
#include "runtime/debug.h"

#include "base/compiler.h"
#include "base/nearest.h"

#include <stdlib.h>

static const char *const levels[HN_DEBUG_LEVEL_COUNT] = {"off", "names", "stats", "save", "check"};

const char *hn_debug_level_name(hn_debug_level level) {
    return (unsigned)level < HN_DEBUG_LEVEL_COUNT ? levels[level] : levels[HN_DEBUG_OFF];
}

/* ---- patterns ---- */

bool hn_debug_matches(const char *patterns, const char *name) {
    if (!patterns) return true;
    for (const char *at = patterns;; at++) {
        const size_t len = strcspn(at, "|");
        if (hn_str_matches((hn_str){at, len}, hn_str_of(name))) return true;
        at += len;
        if (!*at) return false;
    }
}

bool hn_debug_matches_step(const char *patterns, const hn_step_info *step) {
    bool is_match = hn_debug_matches(patterns, step->node);
    for (uint32_t k = 0; k < step->node_count && !is_match; k++) {
        const char *node = "";
        hn_status_free(hn_step_node_get(step, k, &node, NULL)); /* there are as many */
        is_match = hn_debug_matches(patterns, node);
    }
    return is_match;
}

/* ---- what is looked at ---- */

bool hn_debug_wants_step(const hn_debug *d, const hn_step_info *step) {
    const hn_debug_options *o = &d->options;
    const bool has_calls = o->first_call || o->last_call;
    if (*step->program && has_calls) return false; /* what runs before all calls is none of them */
    return step->call >= o->first_call && (!o->last_call || step->call <= o->last_call) &&
           hn_debug_matches(o->kernels, step->name);
}

bool hn_debug_wants_tensor(const hn_debug *d, const hn_step_info *step, const hn_step_operand *o) {
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

/* ---- the text ---- */

static hn_status refuse(const char *what, hn_str word, const char *const *names, size_t count) {
    char text[HN_NEAREST_TEXT_BYTES];
    hn_nearest nearest;
    hn_strbuf list;
    hn_strbuf_init(&list);
    hn_nearest_begin(&nearest, word);
    for (size_t k = 0; k < count; k++) {
        hn_nearest_offer(&nearest, hn_str_of(names[k]));
        hn_strbuf_printf(&list, "%s%s", k ? ", " : "", names[k]);
    }
    hn_status status =
        HN_ERROR(HN_INVALID_ARGUMENT, "'" HN_STR_FMT "' is no %s (%s)%s", HN_STR_ARG(word), what,
                 hn_strbuf_str(&list).ptr, hn_nearest_text(&nearest, text));
    hn_strbuf_deinit(&list);
    return status;
}

static hn_status read_level(hn_str word, hn_debug_level *out) {
    for (int k = 0; k < HN_DEBUG_LEVEL_COUNT; k++)
        if (hn_str_eq(word, hn_str_of(levels[k]))) {
            *out = (hn_debug_level)k;
            return NULL;
        }
    return refuse("level of the tensor debugger", word, levels, HN_DEBUG_LEVEL_COUNT);
}

static bool read_number(const char **at, uint64_t *out) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    *out = strtoull(*at, &end, 10);
    *at = end;
    return *out > 0;
}

/* "3", "2-5", "2-" */
static hn_status read_calls(const char *text, hn_debug_options *out) {
    const char *at = text;
    bool good = read_number(&at, &out->first_call);
    out->last_call = out->first_call;
    if (good && *at == '-') {
        at++;
        out->last_call = 0;
        if (*at) good = read_number(&at, &out->last_call) && out->last_call >= out->first_call;
    }
    if (good && !*at) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "'calls' is '%s'; give the numbers of runs, from 1: 3, 2-5 or 2-", text);
}

static hn_status read_fault(const char *key, const char *text, bool *out_ignored) {
    *out_ignored = strcmp(text, "ok") == 0;
    if (*out_ignored || strcmp(text, "bad") == 0) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' is '%s'; give 'ok' or 'bad'", key, text);
}

static hn_status read_pair(hn_str key, const char *value, hn_debug_options *out) {
    static const char *const keys[] = {"kernel", "node", "arg", "to", "calls", "inf", "nan"};
    const char **const places[] = {&out->kernels, &out->nodes, &out->arguments, &out->path};
    for (size_t k = 0; k < HN_COUNT_OF(places); k++)
        if (hn_str_eq(key, hn_str_of(keys[k]))) {
            *places[k] = value;
            return NULL;
        }
    if (hn_str_eq(key, HN_STR("calls"))) return read_calls(value, out);
    if (hn_str_eq(key, HN_STR("inf"))) return read_fault("inf", value, &out->ignore_inf);
    if (hn_str_eq(key, HN_STR("nan"))) return read_fault("nan", value, &out->ignore_nan);
    return refuse("word of the tensor debugger", key, keys, HN_COUNT_OF(keys));
}

hn_status hn_debug_options_parse(const char *text, hn_strbuf *storage, hn_debug_options *out) {
    *out = (hn_debug_options){.level = HN_DEBUG_OFF};
    hn_strbuf_puts(storage, text);
    HN_TRY(hn_strbuf_status(storage));
    char *word = storage->ptr;
    for (bool is_first = true; word; is_first = false) {
        char *comma = strchr(word, ','), *equals;
        if (comma) *comma = 0;
        equals = strchr(word, '=');
        if (is_first) {
            HN_TRY(read_level(hn_str_of(word), &out->level));
        } else if (!equals || !equals[1]) {
            return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' needs a value, as in kernel=*softmax*",
                            word);
        } else {
            HN_TRY(read_pair((hn_str){word, (size_t)(equals - word)}, equals + 1, out));
        }
        word = comma ? comma + 1 : NULL;
    }
    return NULL;
}
