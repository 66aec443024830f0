/* tool.h: what the commands of `henry` share. Data goes to stdout, everything else to stderr; exit
 * status 0 ok, 1 failed, 2 wrong usage. A command is one file, one row of the table in main.c and,
 * for options of its own, rows in options.c. */
#ifndef HENRY_TOOL_H
#define HENRY_TOOL_H

#include "base/arena.h"
#include "base/str.h"
#include "henry/henry.h"
#include "henry/kernel.h"
#include "henry/tune.h"
#include "ir/graph.h"
#include "ir/interp.h"

#include <stdbool.h>
#include <stdint.h>

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2, TOOL_LIST_MAX = 128, TOOL_OPTIONS_MAX = 128 };

/* The words given to an option that may be repeated, in order. */
typedef struct tool_list {
    const char **items; /* owned, the words are argv's */
    uint32_t count, cap;
} tool_list;

/* What a path names. Bits. */
typedef enum tool_kind { TOOL_MODEL = 1, TOOL_HNB = 2 } tool_kind;

/* All options of all commands; options.c says which command takes which. Strings are argv's. */
typedef struct tool_options {
    tool_list args; /* what is no option */
    tool_list inputs, expects, passes, sizes, entries, flags, targets, variables, trusts, donated,
        hints;
    const char *output_dir, *output, *cache_dir, *cache_tag, *remote, *stats, *trace, *log,
        *model_name, *target, *emit, *dump_after, *forms;
    const char *device, *weights, *weights_file, *language, *key, *debug_tensors, *check, *compare,
        *kernel, *pool, *memory_plan, *test, *pool_fill, *metric_tables, *metric_dir, *tuning;
    /* -1: not given */
    int64_t threads, repeat, compile_threads, max_bytes, computed_weights, device_memory, index,
        limit, time_limit, budget_ns, radius, forms_shipped;
    double rtol, atol; /* negative: by dtype */
    /* a bit for each option of the table in options.c that is on the command line */
    uint64_t given[TOOL_OPTIONS_MAX / 64];
    bool help, json, no_cache, no_fusion, no_standby, explain_fusion, profile, weights_beside,
        verify, quiet, cuda_graphs, load_all, timing, deterministic, roofline, measure, tune,
        tune_fusion, again;
} tool_options;

typedef enum tool_use {
    TOOL_USE_RUN = 1,
    TOOL_USE_COMPILE = 2,
    TOOL_USE_INSPECT = 4,
    TOOL_USE_BENCH = 8,
    TOOL_USE_OPT = 16,
    TOOL_USE_CACHE = 32,
    TOOL_USE_DOCTOR = 64,
    TOOL_USE_VERSION = 128,
    TOOL_USE_KERNEL = 256,
    TOOL_USE_BUNDLE = 512,
    TOOL_USE_BISECT = 1024,
    TOOL_USE_REPRO = 2048,
    TOOL_USE_ACCURACY = 4096,
    TOOL_USE_REDUCE = 8192,
    TOOL_USE_REPORT = 16384,
    TOOL_USE_TUNE = 32768
} tool_use;

/* A row of the table of commands. */
typedef struct tool_command {
    const char *name;
    tool_use use;
    uint32_t args_min, args_max;
    const char *synopsis, *summary;
    const char *details; /* for `henry CMD --help`; may be "" */
    int (*run)(const tool_options *options);
} tool_command;

/* --- options.c --- */

/* Parses argv from `first` on. False after a line on stderr that says what is wrong. */
bool tool_options_parse(const tool_command *command, int argc, char **argv, int first,
                        tool_options *out);
void tool_options_deinit(tool_options *options);
/* Options that would have no effect are refused; each function gives TOOL_OK, or TOOL_USAGE after a
 * message. _kind: for models of these kinds (bits), of which `path` is one. _action: all but those
 * in `allowed`, " --output --key ". _with: the option `name`, unless `has_effect`; `needs` ends the
 * sentence: "without --expect". */
int tool_options_check_kind(const char *command, const tool_options *options, const char *path,
                            unsigned kinds);
int tool_options_check_action(const char *command, const tool_options *options, const char *action,
                              const char *allowed);
int tool_options_check_with(const char *command, const tool_options *options, const char *name,
                            bool has_effect, const char *needs);
/* The options that `command` takes, a line each. */
void tool_options_print(const tool_command *command, hn_strbuf *out);

/* The same for a manual page. */
void tool_options_man(const tool_command *command, hn_strbuf *out);

/* --- help.c --- */

typedef struct tool_variable {
    const char *name, *text; /* of the environment */
} tool_variable;

/* What help is made from. */
typedef struct tool_help {
    const tool_command *commands;
    uint32_t command_count;
    const tool_variable *variables;
    uint32_t variable_count;
} tool_help;

void tool_help_overview(const tool_help *help, hn_strbuf *out);
void tool_help_command(const tool_command *command, hn_strbuf *out);
/* The manual page henry(1). */
void tool_help_man(const tool_help *help, hn_strbuf *out);
/* Text with what man(7) gives a meaning of its own escaped. */
void tool_man_text(const char *text, hn_strbuf *out);

/* --- main.c --- */

/* Prints "henry: <message>", control characters as escapes, and frees the status. TOOL_OK for NULL,
 * else TOOL_FAILED. */
int tool_report(hn_status status);
/* whether standard error is one that a line of progress can be drawn on */
bool tool_is_terminal(void);
/* Prints "henry: <command>: <text>; see 'henry <command> --help'". Returns TOOL_USAGE. */
int tool_usage(const char *command, const char *fmt, ...) HN_PRINTF(2, 3);
/* "; did you mean 'run'?" for an unknown `word`, or "". `names` ends with NULL. */
const char *tool_suggest(const char *word, const char *const *names, char out[100]);
/* Writes all of `text` to stdout. Errors: io, when the reader is gone or the disk is full. */
hn_status tool_print(const hn_strbuf *text) HN_MUST_USE;

/* Writes `text` to the file of --output, or to stdout when that is absent or "-". Errors: io. */
hn_status tool_deliver(const tool_options *options, const hn_strbuf *text) HN_MUST_USE;

/* --- json.c: writing one JSON object, indented --- */

typedef struct tool_json {
    hn_strbuf text;
    uint32_t depth;
    bool has_items[8]; /* per level */
    char closing[8];
} tool_json;

void tool_json_init(tool_json *json);
void tool_json_deinit(tool_json *json);
/* `key` is NULL inside lists. `bracket` is '{' or '['. */
void tool_json_open(tool_json *json, const char *key, char bracket);
void tool_json_close(tool_json *json);
void tool_json_str(tool_json *json, const char *key, const char *value); /* NULL: null */
void tool_json_text(tool_json *json, const char *key, hn_str value);
/* on one line */
void tool_json_ints(tool_json *json, const char *key, const int64_t *values, uint32_t count);
void tool_json_int(tool_json *json, const char *key, int64_t value);
void tool_json_num(tool_json *json, const char *key, double value); /* not finite: as a string */
void tool_json_bool(tool_json *json, const char *key, bool value);
void tool_json_ms(tool_json *json, const char *key, int64_t ns);
/* Closes all that is open: `text` is the object. */
hn_status tool_json_end(tool_json *json) HN_MUST_USE;
/* Prints the finished text to stdout when `print`, and writes it to `path` when that is not
 * NULL. */
hn_status tool_json_finish(tool_json *json, bool print, const char *path) HN_MUST_USE;

/* --- model.c --- */

/* By the first bytes. Errors: not-found, io, invalid-argument for anything else. */
hn_status tool_kind_of(const char *path, tool_kind *out) HN_MUST_USE;
/* tune_bundle.c */
hn_status tool_tune_bundle(const tool_options *options, const char *path) HN_MUST_USE;

/* A model ready to run: compiled from a .pt2 or read from a bundle. */
typedef struct tool_model {
    const char *path;
    tool_kind kind;
    hn_module *module;
    hn_compiled *compiled;  /* NULL for a bundle */
    hn_metrics metrics;     /* of a bundle: zeros */
    hn_compile_stats stats; /* of a bundle: kernels_generated, _unique and _extern, else zeros */
    int64_t load_ns;
} tool_model;

hn_status tool_model_load(const tool_options *options, const char *path,
                          tool_model *out) HN_MUST_USE;
void tool_model_deinit(tool_model *model);
/* A model with the IR that its program came from (driver/driver.h), which a bundle does not have.
 * Owns: `*out_kept`, until hn_kept_destroy. Errors: also invalid-argument for a bundle. */
struct hn_kept;
hn_status tool_model_load_kept(const tool_options *options, const char *path, tool_model *out,
                               struct hn_kept **out_kept) HN_MUST_USE;
/* Whether --pool names a mode, and the options of tuning go together: TOOL_OK, or TOOL_USAGE after
 * a message. */
int tool_compile_check(const char *command, const tool_options *options);
/* Sets what the command line says; the other members stay. */
void tool_compile_options(const tool_options *options, hn_compile_options *out);
/* The same of loading: device, threads, where the weights are. */
void tool_load_options(const tool_options *options, hn_module_options *out);
/* hn_compile_file with the options of the command line; a line of progress when stderr is a
 * terminal. */
hn_status tool_compile(const tool_options *options, const char *path, hn_compile_options extra,
                       hn_compiled **out) HN_MUST_USE;
/* hn_tune_file, likewise. Owns: the caller destroys the report. */
hn_status tool_tune(const tool_options *options, const char *path,
                    hn_tune_report **out) HN_MUST_USE;
/* The keys that --trust names. Owns: the caller frees `*out`; NULL without any. */
hn_status tool_trust_read(const tool_options *options, hn_public_key **out) HN_MUST_USE;
/* Verifies a bundle in full, with the keys of --trust, if there are any, and the weights of
 * --weights-file. */
hn_status tool_bundle_verify(const tool_options *options, const char *path) HN_MUST_USE;
/* "f32[s0, 784]" */
void tool_value_print(const hn_module_value_info *info, hn_strbuf *out);
/* Whether --device names a device; not, whether there is one. */
hn_status tool_device_check(const tool_options *options) HN_MUST_USE;
/* "device": "opencl:0", "device_name": "...", of the module. */
void tool_device_json(tool_json *json, const hn_module *module);
const char *tool_cache_state_name(hn_cache_state state);
/* "kernels": {...}, "cache": {...} */
/* Counters of a compilation, as keys of the object at hand. */
void tool_counters_json(tool_json *json, const hn_metrics *metrics);
void tool_compile_stats_json(tool_json *json, const hn_compile_stats *stats);
/* The phases of a compilation as fields of the open object. */
void tool_phases_json(tool_json *json, const hn_compile_stats *stats);
/* --- ceilings.c: what a device can do at most --- */

struct hn_ceilings;
struct hn_ceilings_options;
/* What the command line says of them; the device is the CPU. */
struct hn_ceilings_options tool_ceilings_options(const tool_options *options);
/* From the cache, or measured. Errors: those of hn_ceilings_get. */
hn_status tool_ceilings_get(const tool_options *options, hn_device device,
                            struct hn_ceilings *out) HN_MUST_USE;
void tool_ceilings_print(const struct hn_ceilings *ceilings, hn_strbuf *out);
/* An object of a list. */
void tool_ceilings_json(tool_json *json, const struct hn_ceilings *ceilings);

/* --- roofline.c: steps beside what the device can do --- */

/* Of a run; borrowed. */
typedef struct tool_tensors {
    hn_tensor **inputs, **outputs;
    uint32_t input_count, output_count;
} tool_tensors;

struct hn_roofline;
/* Of a model that was loaded with `profile` and has run. Owns: hn_roofline_deinit, also after an
 * error. */
hn_status tool_roofline_make(const struct hn_ceilings_options *ceilings, const tool_model *model,
                             const tool_tensors *tensors, struct hn_roofline *out) HN_MUST_USE;
hn_status tool_roofline_print(const tool_options *options, const struct hn_roofline *roofline,
                              hn_strbuf *out) HN_MUST_USE;
/* The member "roofline" of an object. */
void tool_roofline_json(tool_json *json, const struct hn_roofline *roofline);

/* --- random.c: inputs where --input names none --- */

/* Floats in [-1, 1), integers 0 or 1: the same ones in each process. */
typedef struct tool_random {
    const tool_options *options;
    bool prefers_hints; /* sizes are those of the export where the model has recorded them */
    int64_t size_values[TOOL_LIST_MAX]; /* of --size NAME=N */
    size_t size_name_lens[TOOL_LIST_MAX];
    bool size_used[TOOL_LIST_MAX]; /* some model has a symbol of this name */
} tool_random;

/* Reads the options --size. False after a message. */
bool tool_random_init(const char *command, const tool_options *options, tool_random *out);
/* out[count]: tensors of the first `count` inputs, NULL for others. Sizes are those of --size, else
 * 32, or the nearest in a symbol's range. */
hn_status tool_random_inputs(tool_random *random, const tool_model *model, uint32_t count,
                             hn_tensor **out) HN_MUST_USE;
/* Each --size was of use. */
hn_status tool_random_check(const tool_random *random) HN_MUST_USE;

/* --- tables.c: metric tables --- */

/* All tables, with their columns. */
void tool_help_tables(const tool_help *help, hn_strbuf *out);
/* 0, or the exit status after a message about names that no table has. */
int tool_tables_check(const char *command, const tool_options *options);
/* On standard error, where the rows of this command are, once; nothing without --metric-tables. */
void tool_tables_say(const tool_options *options);
/* Whether a table is wanted that steps have to be timed for. */
bool tool_tables_time_steps(const tool_options *options);
/* Rows of what a bench has timed in `rounds` runs of a module that was loaded with `profile`: its
 * steps; and the kernels that are slower than those of the same model without fusion, which is
 * compiled and run as often here. Nothing where no such table is wanted. */
hn_status tool_tables_of_bench(const tool_options *options, const tool_model *model,
                               hn_tensor **inputs, uint32_t input_count,
                               int64_t rounds) HN_MUST_USE;

/* timing.c */
typedef struct tool_times {
    int64_t begin_ns; /* of the program */
    int64_t first_ns; /* the first run */
} tool_times;
/* Members of an object: times of a start, in ms; memory of a device, in bytes. */
void tool_start_json(tool_json *json, const hn_module_stats *stats);
void tool_device_memory_json(tool_json *json, const hn_module_stats *stats);
void tool_timing_print(const tool_model *model, const tool_times *times, hn_strbuf *out);

/* "steps": [...], of a module that was loaded with `profile`. */
hn_status tool_steps_json(tool_json *json, hn_module *module) HN_MUST_USE;

/* --- io.c --- */

/* Reads an .npy for an input: laid out as the program recorded, float32 converted to types that
 * .npy lacks.
 * Errors: those of reading; invalid-argument for another type or rank. */
hn_status tool_input_read(const char *path, const hn_module_value_info *info,
                          hn_tensor **out) HN_MUST_USE;
/* The same of recorded values. */
hn_status tool_input_of(const hn_module_value_info *info, const hn_example *example,
                        hn_tensor **out) HN_MUST_USE;
/* The sizes of the arrays that --input names, for hn_compile_options.inputs. */
typedef struct tool_sizes {
    hn_input_sizes *items;               /* owned */
    int64_t (*dims)[HN_TENSOR_MAX_RANK]; /* owned */
    uint32_t count; /* 0: none are named, or one cannot be read, which is told when it is */
} tool_sizes;
void tool_sizes_read(const tool_list *files, tool_sizes *out);
void tool_sizes_deinit(tool_sizes *sizes);
void tool_tensors_release(hn_tensor **tensors, uint32_t count);
/* The array in `path`, for a tensor of `type`, as the reference interpreter has it. Owns: it lives
 * in `arena`. Errors: those of reading; invalid-argument for elements of another type. */
struct hn_ref_tensor;
hn_status tool_array_read(hn_arena *arena, const char *path, hn_scalar_type type,
                          struct hn_ref_tensor *out) HN_MUST_USE;
/* Types that .npy lacks are written as float32. */
hn_status tool_tensor_write(const hn_tensor *tensor, const char *path) HN_MUST_USE;

typedef struct tool_difference {
    bool same;
    double abs, rel;   /* the largest; of infinities and NaNs that differ: infinity */
    int64_t count;     /* elements beyond the tolerance */
    int64_t first;     /* row-major position of the first of these */
    double got, want;  /* there */
    double rtol, atol; /* that were used */
} tool_difference;
/* One more element, at row-major position `at`. */
void tool_difference_add(tool_difference *difference, double got, double want, int64_t at);
/* Reads a whole .npy file. */
hn_status tool_npy_load(hn_arena *arena, const char *path, hn_ref_tensor *out) HN_MUST_USE;
/* Compares with the array in `path`: |got - want| <= atol + rtol * |want|, NaN equals NaN. Errors:
 * those of reading; invalid-argument when type or shape differ. */
hn_status tool_tensor_compare(const hn_tensor *tensor, const char *path, double rtol, double atol,
                              tool_difference *out) HN_MUST_USE;
/* "f32[2, 3] min -1 max 2 mean 0.5: -1 0 2 ..." */
void tool_tensor_summary(const hn_tensor *tensor, hn_strbuf *out);
/* "[2, 3]" */
void tool_shape_print(const hn_tensor *tensor, hn_strbuf *out);

/* --- inputs.c --- */

/* The tensors for a run: those that --input names in order, for tensor inputs only or for all; NULL
 * for the rest. Without any, those that the model's file has recorded. `out` has
 * hn_module_input_count entries. Errors: those of reading; a wrong count, naming what is wanted. */
hn_status tool_inputs_read(const tool_options *options, const char *path, const hn_module *module,
                           hn_tensor **out) HN_MUST_USE;
/* Those that the file has recorded. `*out_found` false: it has none, or not for all tensors. */
hn_status tool_examples_read(const tool_options *options, const char *path, const hn_module *module,
                             hn_tensor **out, bool *out_found) HN_MUST_USE;

/* --- one function a command --- */

int tool_cmd_run(const tool_options *options);
int tool_cmd_compile(const tool_options *options);
int tool_cmd_inspect(const tool_options *options);
int tool_cmd_bench(const tool_options *options);
int tool_cmd_opt(const tool_options *options);
int tool_cmd_cache(const tool_options *options);
int tool_cmd_doctor(const tool_options *options);
int tool_cmd_version(const tool_options *options);
int tool_cmd_kernel(const tool_options *options);
int tool_cmd_bundle(const tool_options *options);
int tool_cmd_bisect(const tool_options *options);
int tool_cmd_repro(const tool_options *options);
int tool_cmd_accuracy(const tool_options *options);
int tool_cmd_reduce(const tool_options *options);
int tool_cmd_report(const tool_options *options);
int tool_cmd_tune(const tool_options *options);

#endif
