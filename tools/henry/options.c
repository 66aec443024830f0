/* options.c: the table of options: name, which commands take it, where it goes. Parser, help and
 * man page are made from it. */
#include "tool.h"

#include "base/compiler.h"
#include "base/nearest.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_INT,
    OPTION_SIZE,
    OPTION_COUNT,
    OPTION_TIME,
    OPTION_NUMBER,
    OPTION_LIST
} option_kind;

typedef struct option_row {
    const char *name, *other_name; /* "--output", "-o" */
    option_kind kind;
    unsigned uses; /* of tool_use */
    size_t offset; /* in tool_options */
    const char *value, *help;
    int64_t most;  /* of a COUNT; 0: any number */
    unsigned only; /* the kind of model (tool_kind) that it means something for; 0: both */
} option_row;

#define AT(field) offsetof(tool_options, field)
#define FINDS     (TOOL_USE_BISECT | TOOL_USE_REPRO | TOOL_USE_REDUCE)
#define JUDGES    (TOOL_USE_RUN | TOOL_USE_BISECT | TOOL_USE_REDUCE)
#define RUNS      (TOOL_USE_RUN | TOOL_USE_BENCH)
#define COUNTS    (TOOL_USE_RUN | TOOL_USE_BENCH | TOOL_USE_COMPILE | TOOL_USE_ACCURACY)
#define COMPILES  (COUNTS | TOOL_USE_REPORT | TOOL_USE_TUNE)
#define STORES    (COMPILES | FINDS | TOOL_USE_CACHE | TOOL_USE_KERNEL | TOOL_USE_DOCTOR)
#define PRINTS_JSON                                                                                \
    (COMPILES | TOOL_USE_INSPECT | TOOL_USE_CACHE | TOOL_USE_DOCTOR | TOOL_USE_VERSION |           \
     TOOL_USE_KERNEL | TOOL_USE_BISECT | TOOL_USE_REDUCE)
#define SOURCES (TOOL_USE_KERNEL | TOOL_USE_CACHE)
#define TRUSTS  (TOOL_USE_RUN | TOOL_USE_BENCH | TOOL_USE_INSPECT | TOOL_USE_BUNDLE)
#define ALL     0xffffu
enum {
    MOST_COMPILERS = 256, /* as of HENRY_COMPILE_THREADS */
    MOST_SECONDS = 1000000
};

static const option_row rows[] = {
    {"--input", "-i", OPTION_LIST, RUNS | FINDS | TOOL_USE_ACCURACY | TOOL_USE_REPORT, AT(inputs),
     "F.npy", "an input array; repeat it in the order of the signature", 0, 0},
    {"--output-dir", "-d", OPTION_TEXT, TOOL_USE_RUN, AT(output_dir), "DIR",
     "write output_K.npy and mutated_NAME.npy there", 0, 0},
    {"--expect", "-e", OPTION_LIST, TOOL_USE_RUN | TOOL_USE_BISECT, AT(expects), "F.npy",
     "compare with this array; repeat it in the order of the outputs", 0, 0},
    {"--compare", NULL, OPTION_TEXT, TOOL_USE_RUN | TOOL_USE_BISECT, AT(compare), "DIR",
     "compare each node with the tensors saved there by --debug-tensors or tools/save_tensors.py",
     0, 0},
    {"--compare", NULL, OPTION_TEXT, TOOL_USE_REPORT, AT(compare), "OLD",
     "also show what has changed since OLD: a model, a bundle, a trace or a report", 0, 0},
    {"--rtol", NULL, OPTION_NUMBER, JUDGES, AT(rtol), "X",
     "relative tolerance of --expect and --compare (default: by type, 1.3e-6 for f32)", 0, 0},
    {"--atol", NULL, OPTION_NUMBER, JUDGES, AT(atol), "X",
     "absolute tolerance of --expect and --compare (default: by type, 1e-5 for f32)", 0, 0},
    {"--output", "-o", OPTION_TEXT,
     TOOL_USE_COMPILE | TOOL_USE_KERNEL | TOOL_USE_OPT | TOOL_USE_INSPECT | TOOL_USE_CACHE |
         TOOL_USE_BUNDLE | TOOL_USE_REPRO | TOOL_USE_REDUCE | TOOL_USE_REPORT | TOOL_USE_TUNE,
     AT(output), "FILE", "where to write; '-' is standard output, for text and JSON", 0, 0},
    {"--kernel", "-k", OPTION_TEXT, TOOL_USE_REPRO, AT(kernel), "K",
     "the kernel, by name or by the number of its step", 0, 0},
    {"--repeat", "-n", OPTION_COUNT, RUNS | TOOL_USE_REPORT, AT(repeat), "N",
     "number of runs (default of bench: one second, at least 20 runs; of run: 1; of report: 11, or one second)",
     0, 0},
    {"--size", NULL, OPTION_LIST, TOOL_USE_BENCH | TOOL_USE_ACCURACY | TOOL_USE_REPORT, AT(sizes),
     "NAME=N", "value of a size symbol (default: 32, within its range)", 0, 0},
    {"--limit", NULL, OPTION_COUNT, TOOL_USE_ACCURACY | TOOL_USE_BENCH, AT(limit), "N",
     "so many rows (default: 20; with --json all); of bench with --roofline", 0, 0},
    {"--profile", NULL, OPTION_FLAG, RUNS, AT(profile), NULL, "measure the time of each step", 0,
     0},
    {"--roofline", NULL, OPTION_FLAG, TOOL_USE_BENCH, AT(roofline), NULL,
     "compare each step's time with the least that this machine needs for its bytes and operations (docs/performance-guide.md)",
     0, 0},
    {"--measure", NULL, OPTION_FLAG, TOOL_USE_BENCH, AT(measure), NULL,
     "with --roofline: measure the machine again, in place of what the cache has", 0, 0},
    {"--debug-tensors", NULL, OPTION_TEXT, RUNS, AT(debug_tensors), "TEXT",
     "off, names, stats, save or check: look at the tensors of each step, as in stats,kernel=*softmax* (default: HENRY_DEBUG_TENSORS; docs/debugging.md)",
     0, 0},
    {"--check", NULL, OPTION_TEXT, RUNS, AT(check), "WHAT",
     "nan, inf or nan,inf: the first such element that a step reads or writes ends the run with an error that names kernel, tensor, index and node (--debug-tensors check has more)",
     0, 0},
    {"--pool-fill", NULL, OPTION_TEXT, RUNS, AT(pool_fill), "WHAT",
     "off, once, zero or nan: what is in the memory of temporaries and outputs before a run, for finding reads of what was never written (default: HENRY_POOL_FILL; docs/debugging.md)",
     0, 0},
    {"--timing", NULL, OPTION_FLAG, TOOL_USE_RUN, AT(timing), NULL,
     "print where the time of the start and the memory of the device go", 0, 0},
    {"--load-all", NULL, OPTION_FLAG, RUNS, AT(load_all), NULL,
     "load every kernel when the model is opened, not when a run first calls it", 0, 0},
    {"--cuda-graphs", NULL, OPTION_FLAG, RUNS, AT(cuda_graphs), NULL,
     "on CUDA: from the second run on, launch all steps as one CUDA graph", 0, 0},
    {"--device", NULL, OPTION_TEXT,
     RUNS | FINDS | TOOL_USE_ACCURACY | TOOL_USE_REPORT | TOOL_USE_TUNE, AT(device), "DEVICE",
     "cpu, cuda, cuda:1, cuda:GPU-8f2c (by UUID), opencl: compile for it and run on it (default: what the bundle or --target is for)",
     0, 0},
    {"--device", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(device), "DEVICE",
     "cpu, cuda, cuda:1 or opencl: compile for it (without --target for the CPU or GPU that is here); what --target names must be for it",
     0, 0},
    {"--device-memory", NULL, OPTION_SIZE, RUNS, AT(device_memory), "SIZE",
     "how much memory of a CUDA device the model may take: bytes, or a number with K, M or G (default: all that there is)",
     0, 0},
    {"--threads", "-t", OPTION_COUNT, COMPILES | FINDS | TOOL_USE_CACHE, AT(threads), "N",
     "threads of a run (default: HENRY_THREADS, else one per CPU)", HN_THREADS_MAX, 0},
    {"--weights-file", "-w", OPTION_TEXT, RUNS | TOOL_USE_BUNDLE | TOOL_USE_REPORT,
     AT(weights_file), "FILE", "the weights of a bundle that does not contain them", 0, TOOL_HNB},
    {"--model", "-m", OPTION_TEXT, COMPILES | FINDS | TOOL_USE_INSPECT | TOOL_USE_CACHE,
     AT(model_name), "NAME", "which model of a .pt2 that contains several", 0, TOOL_MODEL},
    {"--target", "--target-cpu", OPTION_TEXT, COMPILES | FINDS, AT(target), "TARGET",
     "generic, x86-64-v3, x86-64-v4 or aarch64; opencl; sm_90a and other GPUs; several with commas (default: host, the CPU of this machine)",
     0, 0},
    {"--target-cpu", NULL, OPTION_TEXT, TOOL_USE_CACHE, AT(target), "TARGET",
     "of a model, the same as --target", 0, 0},
    {"--verify", NULL, OPTION_FLAG, COMPILES | TOOL_USE_INSPECT, AT(verify), NULL,
     "first compare every byte of the file with its checksums", 0, 0},
    {"--weights", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(weights), "WHERE",
     "where the weights go: inside (the default), pt2 (they stay in MODEL), or safetensors (a file beside the bundle)",
     0, 0},
    {"--sign", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(key), "KEY",
     "sign the bundle with this secret key", 0, 0},
    {"--key", NULL, OPTION_TEXT, TOOL_USE_BUNDLE, AT(key), "KEY", "the secret key to sign with", 0,
     0},
    {"--trust", NULL, OPTION_LIST, TRUSTS, AT(trusts), "PUB",
     "accept only bundles signed with this key; may be repeated", 0, TOOL_HNB},
    {"--weights-beside", NULL, OPTION_FLAG, TOOL_USE_COMPILE, AT(weights_beside), NULL,
     "the same as --weights pt2", 0, 0},
    {"--emit", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(emit), "FORM",
     "instead of a bundle: c (kernels), text or json (the bundle, as inspect prints it), graph (as "
     "imported), or source (a C project in the folder -o)",
     0, 0},
    {"--dump-after", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(dump_after), "STAGE",
     "print the program as it is after a pass or stage", 0, 0},
    {"--explain-fusion", NULL, OPTION_FLAG, TOOL_USE_COMPILE, AT(explain_fusion), NULL,
     "print why loops were not fused", 0, 0},
    {"--no-fusion", NULL, OPTION_FLAG, COMPILES | TOOL_USE_CACHE, AT(no_fusion), NULL,
     "one kernel per loop: slow, for finding errors", 0, TOOL_MODEL},
    {"--deterministic", NULL, OPTION_FLAG, COMPILES | FINDS | TOOL_USE_CACHE, AT(deterministic),
     NULL, "on GPUs: the same bits each time, also of sums at indices from data", 0, TOOL_MODEL},
    {"--tune", NULL, OPTION_FLAG, COUNTS | TOOL_USE_REPORT, AT(tune), NULL,
     "time the forms of kernels that no record knows, and take the fastest (docs/tuning.md)", 0,
     TOOL_MODEL},
    {"--tune-fusion", NULL, OPTION_FLAG, COMPILES, AT(tune_fusion), NULL,
     "with --tune and of henry tune: time also whether kernels are faster apart where that is a close call",
     0, TOOL_MODEL},
    {"--tuning", NULL, OPTION_TEXT, COMPILES | FINDS | TOOL_USE_CACHE, AT(tuning), "FILE",
     "tuning records, as 'henry tune -o' writes them, which count before those of the cache; none: no records at all",
     0, TOOL_MODEL},
    {"--budget", NULL, OPTION_TIME, COMPILES, AT(budget_ns), "TIME",
     "what tuning may take: 500ms, 30s or 2m (default: 30s)", 0, 0},
    {"--hint", NULL, OPTION_LIST, COMPILES, AT(hints), "NAME=N,N",
     "sizes to choose kernels for, and to time them at, of one that differs from call to call: s0=64,256,4096; may be repeated",
     0, TOOL_MODEL},
    {"--radius", NULL, OPTION_COUNT, COMPILES, AT(radius), "N",
     "of tuning: where no form is faster that differs in one parameter, look at those within N steps, of several at once (default: 1)",
     4, TOOL_MODEL},
    {"--forms", NULL, OPTION_COUNT, COUNTS | TOOL_USE_CACHE, AT(forms_shipped), "N",
     "so many forms of each kernel are in the program, for 'henry tune BUNDLE' to choose among where it runs (default: those that run)",
     32, TOOL_MODEL},
    {"--form", NULL, OPTION_TEXT, COUNTS | TOOL_USE_REPORT | FINDS | TOOL_USE_CACHE, AT(forms),
     "PATTERN=FORM",
     "the form that kernels and calls of these names are to have: softmax=persistent, or several as in 'softmax=rows;sum*=columns vectors=2' (default: HENRY_FORM; docs/tuning.md)",
     0, TOOL_MODEL},
    {"--again", NULL, OPTION_FLAG, TOOL_USE_TUNE, AT(again), NULL,
     "time kernels that records know, too", 0, TOOL_MODEL},
    {"--pool", NULL, OPTION_TEXT, COMPILES | TOOL_USE_CACHE, AT(pool), "MODE",
     "what shares memory: none, intermediates (default), outputs (the outputs lie in one block, too) or combined (all in one block)",
     0, TOOL_MODEL},
    {"--computed-weights", NULL, OPTION_SIZE, COMPILES | FINDS | TOOL_USE_CACHE,
     AT(computed_weights), "SIZE",
     "memory for what depends on weights alone and is computed once: bytes, or a number with K, M or G; 0: each call computes it (default: as many as the weights)",
     0, TOOL_MODEL},
    {"--donate", NULL, OPTION_LIST, TOOL_USE_RUN | TOOL_USE_COMPILE | TOOL_USE_CACHE, AT(donated),
     "NAME",
     "an input, by name or number, whose memory runs may use behind its last use; may be repeated",
     0, 0},
    {"--memory-plan", NULL, OPTION_TEXT, TOOL_USE_COMPILE, AT(memory_plan), "FILE",
     "write a picture of the memory plan (SVG; JSON if FILE ends in .json)", 0, 0},
    {"--pass", "-p", OPTION_LIST, TOOL_USE_OPT, AT(passes), "PASS",
     "a pass to run; may be repeated", 0, 0},
    {"--object", NULL, OPTION_INT, TOOL_USE_INSPECT, AT(index), "N",
     "write compiled object N of a bundle to -o, for a disassembler", 0, TOOL_HNB},
    {"--language", NULL, OPTION_TEXT, SOURCES, AT(language), "LANG",
     "language of FILE (default: from its suffix)", 0, 0},
    {"--entry", NULL, OPTION_LIST, SOURCES, AT(entries), "NAME",
     "a function that the result must have; may be repeated", 0, 0},
    {"--target", NULL, OPTION_LIST, SOURCES, AT(targets), "WHAT",
     "x86-64-v3, host, avx2, sm_90, compute_90, module=NAME; may be repeated", 0, 0},
    {"--flag", NULL, OPTION_LIST, SOURCES, AT(flags), "FLAG",
     "a flag for the compiler, as in --flag=-O3; may be repeated", 0, 0},
    {"--env", NULL, OPTION_LIST, SOURCES, AT(variables), "NAME=VALUE",
     "a variable for the compiler, part of the key; may be repeated", 0, 0},
    {"--compile-threads", "-j", OPTION_COUNT, COMPILES | FINDS | TOOL_USE_KERNEL | TOOL_USE_DOCTOR,
     AT(compile_threads), "N",
     "number of compilers at a time (default: HENRY_COMPILE_THREADS, else one per CPU)",
     MOST_COMPILERS, TOOL_MODEL},
    {"--no-standby", NULL, OPTION_FLAG, COMPILES | FINDS | TOOL_USE_KERNEL | TOOL_USE_DOCTOR,
     AT(no_standby), NULL, "start the compiler's programs for each kernel", 0, TOOL_MODEL},
    {"--cache-dir", NULL, OPTION_TEXT, STORES, AT(cache_dir), "DIR",
     "folder of the cache (default: HENRY_CACHE_DIR, else ~/.cache/henry)", 0, TOOL_MODEL},
    {"--cache-tag", NULL, OPTION_TEXT, COMPILES | FINDS | SOURCES, AT(cache_tag), "TAG",
     "a word in every key, which keeps results apart (default: HENRY_CACHE_TAG)", 0, TOOL_MODEL},
    {"--remote", NULL, OPTION_TEXT, STORES, AT(remote), "URL",
     "a cache that machines share: redis:// or unix:// (default: HENRY_REDIS_URL)", 0, TOOL_MODEL},
    {"--no-cache", NULL, OPTION_FLAG, COMPILES | FINDS | TOOL_USE_KERNEL, AT(no_cache), NULL,
     "neither read nor write the cache", 0, 0},
    {"--max-bytes", "--max-size", OPTION_SIZE, TOOL_USE_CACHE, AT(max_bytes), "SIZE",
     "what gc leaves: bytes, or a number with K, M or G", 0, 0},
    {"--test", NULL, OPTION_TEXT, TOOL_USE_REDUCE, AT(test), "CMD",
     "what fails: 'CMD FILE.hnir' ends with another status than 0 (default: the results differ from the reference, compiling fails, or it crashes or hangs)",
     0, 0},
    {"--time-limit", NULL, OPTION_COUNT, TOOL_USE_REDUCE, AT(time_limit), "SECONDS",
     "what takes longer hangs (default: 60)", MOST_SECONDS, 0},
    {"--memory-limit", NULL, OPTION_SIZE, TOOL_USE_REDUCE, AT(max_bytes), "SIZE",
     "memory of an attempt: bytes, or a number with K, M or G (default: three quarters of the machine's)",
     0, 0},
    {"--json", NULL, OPTION_FLAG, PRINTS_JSON, AT(json), NULL, "print one JSON object", 0, 0},
    {"--quiet", "-q", OPTION_FLAG,
     TOOL_USE_RUN | TOOL_USE_COMPILE | TOOL_USE_REPORT | TOOL_USE_TUNE, AT(quiet), NULL,
     "print nothing but errors", 0, 0},
    {"--stats", NULL, OPTION_TEXT, COUNTS, AT(stats), "F.json", "write the JSON object to a file",
     0, 0},
    {"--metric-tables", NULL, OPTION_TEXT, COMPILES, AT(metric_tables), "NAMES",
     "add rows to metric_table_NAME.csv, or .jsonl for NAME.jsonl: graph_stats,kernel_metadata,... or all (default: HENRY_METRIC_TABLES; docs/metrics.md)",
     0, 0},
    {"--metric-dir", NULL, OPTION_TEXT, COMPILES, AT(metric_dir), "DIR",
     "the folder of these files (default: HENRY_METRIC_DIR, else the current one)", 0, 0},
    {"--trace", NULL, OPTION_TEXT, COUNTS | TOOL_USE_OPT | TOOL_USE_KERNEL | TOOL_USE_TUNE,
     AT(trace), "F.json", "write a timeline (Chrome trace format)", 0, 0},
    {"--log", NULL, OPTION_TEXT, ALL, AT(log), "SPEC",
     "log messages, as in HENRY_LOG: \"info\" or \"cache:debug,pass:info\"", 0, 0},
    {"--help", "-h", OPTION_FLAG, ALL, AT(help), NULL, "print this text", 0, 0},
};
_Static_assert(sizeof rows / sizeof *rows <= TOOL_OPTIONS_MAX,
               "tool_options.given has a bit for each row");

static uint64_t bit_of(const option_row *row) { return (uint64_t)1 << ((row - rows) % 64); }

/* Names that options had in earlier versions. */
static const struct {
    const char *name;
    unsigned uses;
    const char *now;
} old_names[] = {
    {"--weights", RUNS | TOOL_USE_BUNDLE, "--weights-file"},
};

static const option_row *find(const tool_command *command, const char *name, size_t len) {
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        if (!(rows[k].uses & command->use)) continue;
        if (strlen(rows[k].name) == len && memcmp(rows[k].name, name, len) == 0) return &rows[k];
        if (rows[k].other_name && strlen(rows[k].other_name) == len &&
            memcmp(rows[k].other_name, name, len) == 0)
            return &rows[k];
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

/* "500ms", "30s", "2m"; a number alone is seconds. Above 0. */
static bool parse_time(const char *text, int64_t *out) {
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ms", 1e6}, {"s", 1e9}, {"", 1e9}, {"m", 60e9}};
    char *end;
    const double number = strtod(text, &end);
    for (size_t k = 0; k < HN_COUNT_OF(units); k++) {
        if (end == text || strcmp(end, units[k].name) != 0) continue;
        if (!(number > 0) || number * units[k].ns > 1e18) return false;
        *out = (int64_t)(number * units[k].ns);
        return *out > 0;
    }
    return false;
}

static bool parse_number(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && *out >= 0;
}

static bool list_add(const tool_command *command, tool_list *list, uint32_t most,
                     const char *word) {
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

/* "--threads needs a whole number from 1 to 1024, not '0'". */
static void refuse_value(const tool_command *command, const option_row *row, const char *value) {
    if (row->kind == OPTION_TIME)
        tool_usage(command->name, "%s needs a time, such as 500ms, 30s or 2m, not '%s'", row->name,
                   value);
    else if (row->kind == OPTION_SIZE)
        tool_usage(command->name, "%s needs a size, such as 500M or 2G, not '%s'", row->name,
                   value);
    else if (row->kind == OPTION_NUMBER)
        tool_usage(command->name, "%s needs a number of at least 0, not '%s'", row->name, value);
    else if (row->most)
        tool_usage(command->name, "%s needs a whole number from 1 to %lld, not '%s'", row->name,
                   (long long)row->most, value);
    else
        tool_usage(command->name, "%s needs a whole number of at least %d, not '%s'", row->name,
                   row->kind == OPTION_COUNT, value);
}

static bool store(const tool_command *command, const option_row *row, const char *value,
                  tool_options *out) {
    void *place = (char *)out + row->offset;
    bool good = true;
    uint64_t *given = &out->given[(row - rows) / 64];
    if (*given & bit_of(row) && row->kind != OPTION_LIST && row->kind != OPTION_FLAG) {
        tool_usage(command->name, "%s is given twice; it takes one value", row->name);
        return false;
    }
    *given |= bit_of(row);
    if (row->kind == OPTION_FLAG) *(bool *)place = true;
    if (row->kind == OPTION_TEXT) *(const char **)place = value;
    if (row->kind == OPTION_INT) good = parse_int(value, place);
    if (row->kind == OPTION_TIME) good = parse_time(value, place);
    if (row->kind == OPTION_SIZE) good = hn_size_parse(value, place);
    if (row->kind == OPTION_COUNT)
        good = parse_int(value, place) && *(int64_t *)place > 0 &&
               (!row->most || *(int64_t *)place <= row->most);
    if (row->kind == OPTION_NUMBER) good = parse_number(value, place);
    if (row->kind == OPTION_LIST) return list_add(command, place, list_limit(row), value);
    if (!good) refuse_value(command, row, value);
    return good;
}

/* Tells that `word` is no option of the command, and which one may be meant. */
static void refuse_option(const tool_command *command, const char *word, size_t len) {
    char text[HN_NEAREST_TEXT_BYTES];
    hn_nearest nearest;
    for (size_t k = 0; k < HN_COUNT_OF(old_names); k++) {
        if (!(old_names[k].uses & command->use) ||
            !hn_str_eq(hn_str_of(old_names[k].name), (hn_str){word, len}))
            continue;
        tool_usage(command->name, "'%s' is now called '%s'", old_names[k].name, old_names[k].now);
        return;
    }
    hn_nearest_begin(&nearest, (hn_str){word, len});
    for (size_t k = 0; k < HN_COUNT_OF(rows) && len > 2; k++)
        if (rows[k].uses & command->use) hn_nearest_offer(&nearest, hn_str_of(rows[k].name));
    tool_usage(command->name, "unknown option '%s'%s", word, hn_nearest_text(&nearest, text));
}

/* One option and, unless it is a flag, its value: behind '=', behind a short name ("-j4"), or the
 * next word. */
static bool parse_option(const tool_command *command, int argc, char **argv, int *at,
                         tool_options *out) {
    const char *word = argv[*at], *equals = strchr(word, '=');
    const option_row *row = find(command, word, equals ? (size_t)(equals - word) : strlen(word));
    if (!row && word[1] != '-') {
        row = find(command, word, 2);
        if (row && row->kind != OPTION_FLAG) return store(command, row, word + 2, out);
        row = NULL;
    }
    if (!row) {
        refuse_option(command, word, equals ? (size_t)(equals - word) : strlen(word));
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

bool tool_options_parse(const tool_command *command, int argc, char **argv, int first,
                        tool_options *out) {
    *out = (tool_options){.threads = -1,
                          .repeat = -1,
                          .compile_threads = -1,
                          .max_bytes = -1,
                          .computed_weights = -1,
                          .device_memory = -1,
                          .index = -1,
                          .limit = -1,
                          .time_limit = -1,
                          .budget_ns = -1,
                          .radius = -1,
                          .forms_shipped = -1,
                          .rtol = -1,
                          .atol = -1};
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

static bool is_given(const tool_options *options, const option_row *row) {
    return options->given[(row - rows) / 64] & bit_of(row);
}

int tool_options_check_kind(const char *command, const tool_options *options, const char *path,
                            unsigned kinds) {
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        if (!is_given(options, &rows[k]) || !rows[k].only || rows[k].only & kinds) continue;
        if (rows[k].only == TOOL_MODEL)
            return tool_usage(command,
                              "%s has no effect: '%s' is a bundle, which is compiled already",
                              rows[k].name, path);
        return tool_usage(command, "%s has no effect: '%s' is a model, not a bundle", rows[k].name,
                          path);
    }
    return TOOL_OK;
}

int tool_options_check_action(const char *command, const tool_options *options, const char *action,
                              const char *allowed) {
    static const char always[] = " --log --help --json ";
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        char word[48];
        if (!is_given(options, &rows[k])) continue;
        snprintf(word, sizeof word, " %s ", rows[k].name);
        if (!strstr(always, word) && !strstr(allowed, word))
            return tool_usage(command, "%s has no effect with 'henry %s %s'", rows[k].name, command,
                              action);
    }
    return TOOL_OK;
}

int tool_options_check_with(const char *command, const tool_options *options, const char *name,
                            bool has_effect, const char *needs) {
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++)
        if (!has_effect && is_given(options, &rows[k]) && strcmp(rows[k].name, name) == 0)
            return tool_usage(command, "%s has no effect %s", name, needs);
    return TOOL_OK;
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

/* "-o, --output FILE" */
static void print_names(const option_row *row, hn_strbuf *out) {
    if (row->other_name) hn_strbuf_printf(out, "%s, ", row->other_name);
    hn_strbuf_puts(out, row->name);
    if (row->value) hn_strbuf_printf(out, " %s", row->value);
}

void tool_options_print(const tool_command *command, hn_strbuf *out) {
    hn_strbuf names;
    hn_strbuf_init(&names);
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        if (!(rows[k].uses & command->use)) continue;
        hn_strbuf_reset(&names);
        print_names(&rows[k], &names);
        hn_strbuf_printf(out, "  %-26s %s\n", hn_strbuf_str(&names).ptr, rows[k].help);
    }
    hn_strbuf_deinit(&names);
}

void tool_options_man(const tool_command *command, hn_strbuf *out) {
    hn_strbuf names;
    hn_strbuf_init(&names);
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        if (!(rows[k].uses & command->use)) continue;
        hn_strbuf_reset(&names);
        print_names(&rows[k], &names);
        hn_strbuf_puts(out, ".TP\n.B ");
        tool_man_text(hn_strbuf_str(&names).ptr, out);
        hn_strbuf_putc(out, '\n');
        tool_man_text(rows[k].help, out);
        hn_strbuf_putc(out, '\n');
    }
    hn_strbuf_deinit(&names);
}
