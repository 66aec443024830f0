/* options.c: the table of options: name, which commands take it, where it goes. Parser and help are made from it. */
#include "tool.h"

#include "base/compiler.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_SIZE, OPTION_COUNT, OPTION_NUMBER, OPTION_LIST } option_kind;

typedef struct option_row {
    const char *name, *other_name; /* "--output", "-o" */
    option_kind kind;
    unsigned uses; /* of tool_use */
    size_t offset; /* in tool_options */
    const char *value, *help;
} option_row;

#define AT(field) offsetof(tool_options, field)
#define RUNS (TOOL_USE_RUN | TOOL_USE_BENCH)
#define COMPILES (TOOL_USE_RUN | TOOL_USE_BENCH | TOOL_USE_COMPILE)
#define STORES (COMPILES | TOOL_USE_CACHE | TOOL_USE_KERNEL | TOOL_USE_DOCTOR)
#define PRINTS_JSON (COMPILES | TOOL_USE_INSPECT | TOOL_USE_CACHE | TOOL_USE_DOCTOR | TOOL_USE_VERSION | TOOL_USE_KERNEL)
#define SOURCES (TOOL_USE_KERNEL | TOOL_USE_CACHE)
#define TRUSTS (TOOL_USE_RUN | TOOL_USE_BENCH | TOOL_USE_INSPECT | TOOL_USE_BUNDLE)
#define ALL 0xffffu

static const option_row rows[] = {
    {"--input", "-i", OPTION_LIST, RUNS, AT(inputs), "F.npy", "an input; repeat it in the order of the signature"},
    {"--output-dir", "-d", OPTION_TEXT, TOOL_USE_RUN, AT(output_dir), "DIR", "write output_K.npy and mutated_NAME.npy there"},
    {"--expect", "-e", OPTION_LIST, TOOL_USE_RUN, AT(expects), "F.npy", "compare with this array; repeat it in the order of the outputs"},
    {"--rtol", NULL, OPTION_NUMBER, TOOL_USE_RUN, AT(rtol), "X", "relative tolerance of --expect (default: by type, 1.3e-6 for f32)"},
    {"--atol", NULL, OPTION_NUMBER, TOOL_USE_RUN, AT(atol), "X", "absolute tolerance of --expect (default: by type, 1e-5 for f32)"},
    {"--output", "-o", OPTION_TEXT, TOOL_USE_COMPILE | TOOL_USE_KERNEL | TOOL_USE_OPT | TOOL_USE_INSPECT | TOOL_USE_CACHE | TOOL_USE_BUNDLE, AT(output), "FILE", "where to write"},
    {"--repeat", "-n", OPTION_COUNT, RUNS, AT(repeat), "N", "runs (bench: for a second, at least 20; run: 1)"},
    {"--size", NULL, OPTION_LIST, TOOL_USE_BENCH, AT(sizes), "NAME=N", "value of a size symbol (default: 32, within its range)"},
    {"--profile", NULL, OPTION_FLAG, RUNS, AT(profile), NULL, "time every step"},
    {"--device", NULL, OPTION_TEXT, RUNS, AT(device), "DEVICE", "cpu (the default)"},
    {"--threads", "-t", OPTION_COUNT, COMPILES | TOOL_USE_CACHE, AT(threads), "N", "threads of a run (default: HENRY_THREADS, else one a CPU)"},
    {"--weights", "-w", OPTION_TEXT, RUNS | TOOL_USE_BUNDLE, AT(weights), "FILE", "where the file lies that a bundle without weights refers to"},
    {"--model", "-m", OPTION_TEXT, COMPILES | TOOL_USE_INSPECT | TOOL_USE_CACHE, AT(model_name), "NAME", "which model of a .pt2 that holds several"},
    {"--target-cpu", NULL, OPTION_TEXT, COMPILES | TOOL_USE_CACHE, AT(target_cpu), "CPU", "generic, x86-64-v3 or x86-64-v4, or several with commas (default: host, this machine)"},
    {"--verify", NULL, OPTION_FLAG, COMPILES | TOOL_USE_INSPECT, AT(verify), NULL, "compare every byte of the file with its checksums first"},
    {"--weights", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(weights), "WHERE", "inside (the default), pt2 (stay in MODEL), or safetensors (a file beside the bundle)"},
    {"--sign", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(key), "KEY", "sign the bundle with this secret key"},
    {"--key", NULL, OPTION_TEXT, TOOL_USE_BUNDLE, AT(key), "KEY", "the secret key to sign with"},
    {"--trust", NULL, OPTION_LIST, TRUSTS, AT(trusts), "PUB", "accept bundles that this key signed, and no others; may be repeated"},
    {"--weights-beside", NULL, OPTION_FLAG, TOOL_USE_COMPILE, AT(weights_beside), NULL, "the same as --weights pt2"},
    {"--emit", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(emit), "FORM", "instead of a bundle: c (kernels), text, json, or source (a C project in the folder -o)"},
    {"--dump-after", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(dump_after), "STAGE", "print the program as it is after a pass or stage"},
    {"--explain-fusion", NULL, OPTION_FLAG, TOOL_USE_COMPILE, AT(explain_fusion), NULL, "print why loops were not fused"},
    {"--no-fusion", NULL, OPTION_FLAG, COMPILES | TOOL_USE_CACHE, AT(no_fusion), NULL, "one kernel for each loop: slow, for finding errors"},
    {"--pass", "-p", OPTION_LIST, TOOL_USE_OPT, AT(passes), "PASS", "a pass; several run one after the other"},
    {"--object", NULL, OPTION_INT, TOOL_USE_INSPECT, AT(index), "N", "write compiled object N of a bundle to -o, for a disassembler"},
    {"--language", NULL, OPTION_TEXT, SOURCES, AT(language), "LANG", "language of FILE (default: by its suffix)"},
    {"--entry", NULL, OPTION_LIST, SOURCES, AT(entries), "NAME", "a function that the result must have; may be repeated"},
    {"--target", NULL, OPTION_LIST, SOURCES, AT(targets), "WHAT", "x86-64-v3, host, avx2, sm_90, compute_90, module=NAME; may be repeated"},
    {"--flag", NULL, OPTION_LIST, SOURCES, AT(flags), "FLAG", "a flag for the compiler, as in --flag=-O3; may be repeated"},
    {"--env", NULL, OPTION_LIST, SOURCES, AT(variables), "NAME=VALUE", "a variable for the compiler, part of the key; may be repeated"},
    {"--compile-threads", "-j", OPTION_COUNT, COMPILES | TOOL_USE_KERNEL | TOOL_USE_DOCTOR, AT(compile_threads), "N",
     "compilers at once (default: HENRY_COMPILE_THREADS, else one a CPU)"},
    {"--cache-dir", NULL, OPTION_TEXT, STORES, AT(cache_dir), "DIR", "the cache (default: HENRY_CACHE_DIR, else ~/.cache/henry)"},
    {"--cache-tag", NULL, OPTION_TEXT, COMPILES | SOURCES, AT(cache_tag), "TAG", "a word in every key, which keeps results apart (default: HENRY_CACHE_TAG)"},
    {"--remote", NULL, OPTION_TEXT, STORES, AT(remote), "URL", "a cache that machines share: redis:// or unix:// (default: HENRY_REDIS_URL)"},
    {"--no-cache", NULL, OPTION_FLAG, COMPILES | TOOL_USE_KERNEL, AT(no_cache), NULL, "neither read nor write the cache"},
    {"--max-bytes", "--max-size", OPTION_SIZE, TOOL_USE_CACHE, AT(max_bytes), "SIZE", "what gc leaves: bytes, or a number with K, M or G"},
    {"--json", NULL, OPTION_FLAG, PRINTS_JSON, AT(json), NULL, "print one JSON object"},
    {"--quiet", "-q", OPTION_FLAG, TOOL_USE_RUN | TOOL_USE_COMPILE, AT(quiet), NULL, "print nothing but errors"},
    {"--stats", NULL, OPTION_TEXT, COMPILES, AT(stats), "F.json", "write the JSON object to a file"},
    {"--trace", NULL, OPTION_TEXT, COMPILES | TOOL_USE_OPT | TOOL_USE_KERNEL, AT(trace), "F.json", "write a time line (Chrome trace format)"},
    {"--log", NULL, OPTION_TEXT, ALL, AT(log), "SPEC", "messages, as in HENRY_LOG: \"info\" or \"cache:debug,pass:info\""},
    {"--help", "-h", OPTION_FLAG, ALL, AT(help), NULL, "this text"},
};

static const option_row *find(const tool_command *command, const char *name, size_t len) {
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        if (!(rows[k].uses & command->use)) continue;
        if (strlen(rows[k].name) == len && memcmp(rows[k].name, name, len) == 0) return &rows[k];
        if (rows[k].other_name && strlen(rows[k].other_name) == len && memcmp(rows[k].other_name, name, len) == 0) return &rows[k];
    }
    return NULL;
}

static bool parse_int(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    *out = n;
    return *text && !*end && errno == 0 && n >= 0;
}

static bool parse_number(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && *out >= 0;
}

static bool list_add(const tool_command *command, tool_list *list, uint32_t most, const char *word) {
    if (list->count == most) {
        tool_usage(command->name, "more than %u of one kind of argument", most);
        return false;
    }
    if (list->count == list->cap) {
        uint32_t cap = list->cap ? 2 * list->cap : 8;
        const char **items = realloc(list->items, cap * sizeof *items);
        if (!items) {
            tool_usage(command->name, "out of memory");
            return false;
        }
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = word;
    return true;
}

/* A model may have any number of inputs and outputs; of other things there are tables. */
static uint32_t list_limit(const option_row *row) {
    return row->offset == AT(inputs) || row->offset == AT(expects) ? UINT32_MAX / 2 : TOOL_LIST_MAX;
}

static bool store(const tool_command *command, const option_row *row, const char *value, tool_options *out) {
    void *place = (char *)out + row->offset;
    bool good = true;
    if (row->kind == OPTION_FLAG) *(bool *)place = true;
    if (row->kind == OPTION_TEXT) *(const char **)place = value;
    if (row->kind == OPTION_INT) good = parse_int(value, place);
    if (row->kind == OPTION_SIZE) good = hn_size_parse(value, place);
    if (row->kind == OPTION_COUNT) good = parse_int(value, place) && *(int64_t *)place > 0;
    if (row->kind == OPTION_NUMBER) good = parse_number(value, place);
    if (row->kind == OPTION_LIST) return list_add(command, place, list_limit(row), value);
    if (!good && row->kind == OPTION_SIZE)
        tool_usage(command->name, "%s needs a size, such as 500M or 2G, not '%s'", row->name, value);
    else if (!good) tool_usage(command->name, "'%s' is no number that %s takes", value, row->name);
    return good;
}

/* One option and, unless it is a flag, its value: behind '=', behind a short name ("-j4"), or the next word. */
static bool parse_option(const tool_command *command, int argc, char **argv, int *at, tool_options *out) {
    const char *word = argv[*at], *equals = strchr(word, '=');
    const option_row *row = find(command, word, equals ? (size_t)(equals - word) : strlen(word));
    if (!row && word[1] != '-') {
        row = find(command, word, 2);
        if (row && row->kind != OPTION_FLAG) return store(command, row, word + 2, out);
        row = NULL;
    }
    if (!row) {
        tool_usage(command->name, "unknown option '%s'", word);
        return false;
    }
    if (row->kind == OPTION_FLAG && equals) {
        tool_usage(command->name, "%s takes no value", row->name);
        return false;
    }
    const char *value = equals ? equals + 1 : NULL;
    if (row->kind != OPTION_FLAG && !value) {
        if (*at + 1 >= argc) {
            tool_usage(command->name, "%s needs a value: %s", word, row->value);
            return false;
        }
        value = argv[++*at];
    }
    return store(command, row, value, out);
}

bool tool_options_parse(const tool_command *command, int argc, char **argv, int first, tool_options *out) {
    *out = (tool_options){.threads = -1, .repeat = -1, .compile_threads = -1, .max_bytes = -1, .index = -1, .rtol = -1, .atol = -1};
    bool only_args = false;
    for (int k = first; k < argc; k++) {
        if (!only_args && strcmp(argv[k], "--") == 0) {
            only_args = true;
        } else if (!only_args && argv[k][0] == '-' && argv[k][1]) {
            if (!parse_option(command, argc, argv, &k, out)) return false;
        } else if (!list_add(command, &out->args, TOOL_LIST_MAX, argv[k])) {
            return false;
        }
    }
    return true;
}

void tool_options_deinit(tool_options *options) {
    free(options->args.items);
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        if (rows[k].kind != OPTION_LIST) continue;
        tool_list *list = (tool_list *)(void *)((char *)options + rows[k].offset);
        free(list->items);
        *list = (tool_list){0};
    }
}

void tool_options_print(const tool_command *command, hn_strbuf *out) {
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        if (!(rows[k].uses & command->use)) continue;
        char left[48];
        snprintf(left, sizeof left, "%s%s%s%s%s", rows[k].other_name ? rows[k].other_name : "", rows[k].other_name ? ", " : "", rows[k].name,
                 rows[k].value ? " " : "", rows[k].value ? rows[k].value : "");
        hn_strbuf_printf(out, "  %-26s %s\n", left, rows[k].help);
    }
}
