/* report.c: `henry report`: a model, a bundle or a trace as one page to look at. */
#include "tool.h"

#include "base/file.h"
#include "base/trace.h"
#include "bundle/view.h"
#include "driver/driver.h"
#include "front/importer.h"
#include "measure/roofline.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

/* Runs behind the first, where --repeat says nothing: as many as begin within this time. */
enum { RUNS_MOST = 10, RUNS_NS = 1000000000 };

/* What a command line asks for. `load` is what the others see: with the profile on. */
typedef struct reporter {
    const tool_options *options;
    tool_options load;
    tool_random random;
    int64_t gather_ns; /* spent on reports, not on compiling and running */
    uint32_t step_count;
} reporter;

/* ---- runs ---- */

typedef struct runs {
    tool_model model;
    hn_kept *kept;
    hn_tensor **inputs, **outputs;
    uint32_t input_count, output_count;
    int64_t times[1 + RUNS_MOST];
    hn_strbuf problem;
    hn_report_run report;
    hn_roofline roofline;
    hn_step_record *records; /* of each step, when it has run */
} runs;

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static hn_status make_inputs(reporter *r, runs *s) {
    s->input_count = hn_module_input_count(s->model.module);
    s->output_count = hn_module_output_count(s->model.module);
    s->inputs = calloc(s->input_count + 1u, sizeof *s->inputs);
    s->outputs = calloc(s->output_count + 1u, sizeof *s->outputs);
    if (!s->inputs || !s->outputs) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    bool found = r->options->inputs.count > 0;
    if (found) return tool_inputs_read(r->options, s->model.path, s->model.module, s->inputs);
    if (s->model.kind == TOOL_MODEL)
        HN_TRY(tool_examples_read(r->options, s->model.path, s->model.module, s->inputs, &found));
    s->report.is_random = !found;
    return found ? NULL : tool_random_inputs(&r->random, &s->model, s->input_count, s->inputs);
}

/* What a step moves and computes, for the sizes of the run. */
static hn_status note_record(void *user, const hn_step_info *step, uint64_t *note) {
    runs *s = user;
    (void)note;
    return step->has_failed ? NULL : hn_step_record_get(step, &s->records[step->index]);
}

/* The next run makes outputs of its own. */
static void drop_outputs(runs *s) {
    tool_tensors_release(s->outputs, s->output_count);
    memset(s->outputs, 0, s->output_count * sizeof *s->outputs);
}

static hn_status run_once(runs *s, int64_t *out_ns) {
    char name[32];
    drop_outputs(s);
    const int64_t begin = hn_now_ns();
    hn_status status =
        hn_module_run(s->model.module, s->inputs, s->input_count, s->outputs, s->output_count);
    const int64_t end = hn_now_ns();
    snprintf(name, sizeof name, "run %u", s->report.count + 1);
    hn_trace_span("call", name, begin, end);
    *out_ns = end - begin;
    s->report.count += !status;
    return status;
}

/* The first run, with records of its steps. */
static hn_status run_first(runs *s) {
    const hn_step_hook hook = {.after = note_record, .user = s};
    s->records = calloc(hn_module_step_count(s->model.module) + 1u, sizeof *s->records);
    if (!s->records) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    s->report.records = s->records;
    HN_TRY(hn_module_hook_add(s->model.module, &hook));
    hn_status status = run_once(s, &s->report.first_ns);
    hn_status removed = hn_module_hook_remove(s->model.module, &hook);
    if (status) hn_status_free(removed);
    return status ? status : removed;
}

static hn_status run_all(reporter *r, runs *s) {
    const int64_t most = r->options->repeat > 0 ? r->options->repeat : 1 + RUNS_MOST;
    HN_TRY(make_inputs(r, s));
    s->report.inputs = s->inputs;
    s->report.input_count = s->input_count;
    HN_TRY(run_first(s));
    s->report.median_ns = s->report.first_ns;
    uint32_t count = 0;
    for (int64_t spent = 0; count + 1 < most && (r->options->repeat > 0 || spent < RUNS_NS);
         count++) {
        HN_TRY(run_once(s, &s->times[count]));
        spent += s->times[count];
    }
    qsort(s->times, count, sizeof *s->times, by_value);
    if (count) s->report.median_ns = s->times[count / 2];
    return NULL;
}

/* Random numbers may be no inputs of a model, and a report is worth having without its times. What
 * the user has given must run. */
static hn_status run(reporter *r, runs *s) {
    hn_strbuf_init(&s->problem);
    s->report.module = s->model.module;
    hn_status status = run_all(r, s);
    if (!status || r->options->inputs.count) return status;
    hn_strbuf_puts(&s->problem, hn_status_message(status));
    hn_status_free(status);
    s->report.problem = hn_strbuf_str(&s->problem).ptr;
    fprintf(stderr, "henry: the report has no times: a run with random inputs failed: %s\n",
            s->report.problem);
    return hn_strbuf_status(&s->problem);
}

/* Behind the trace: it runs the model once more, and measures the machine if nobody has. A report
 * without limits is worth having as well. */
static hn_status find_roofline(reporter *r, runs *s) {
    const hn_ceilings_options ceilings = tool_ceilings_options(r->options);
    const tool_tensors tensors = {s->inputs, s->outputs, s->input_count, s->output_count};
    s->report.profiled = s->report.count;
    if (s->report.problem) return NULL;
    drop_outputs(s);
    hn_status status = tool_roofline_make(&ceilings, &s->model, &tensors, &s->roofline);
    if (hn_status_code(status) == HN_OUT_OF_MEMORY) return status;
    s->report.profiled++;
    if (!status) s->report.roofline = &s->roofline;
    else fprintf(stderr, "henry: the report has no limits: %s\n", hn_status_message(status));
    hn_status_free(status);
    return NULL;
}

static void runs_deinit(runs *s) {
    hn_roofline_deinit(&s->roofline);
    if (s->inputs) tool_tensors_release(s->inputs, s->input_count);
    if (s->outputs) tool_tensors_release(s->outputs, s->output_count);
    free(s->inputs);
    free(s->outputs);
    free(s->records);
    hn_strbuf_deinit(&s->problem);
    tool_model_deinit(&s->model);
    hn_kept_destroy(s->kept);
}

/* ---- the object ---- */

/* The graph as the model has it: passes have changed that of the compilation. */
static hn_status import(const tool_options *o, hn_model_file *file, hn_arena *arena,
                        hn_graph **out) {
    hn_sym *sym;
    HN_TRY(hn_sym_create(arena, &sym));
    return file->importer->import(file, o->model_name, arena, sym, out);
}

static hn_status gather_model(const tool_options *o, const char *path, hn_report_source *source,
                              hn_strbuf *out) {
    hn_model_file *file;
    hn_graph *graph = NULL;
    hn_arena arena;
    HN_TRY(hn_model_open(path, &file));
    hn_arena_init(&arena);
    hn_status status = import(o, file, &arena, &graph);
    source->graph = graph;
    if (!status) status = hn_report_data(source, out);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    hn_model_close(file);
    return status;
}

/* The program that was loaded, of a file that may have several. */
static hn_status open_program(const runs *s, const void *image, size_t len, hn_bundle *out) {
    hn_bundle file;
    hn_module_device_info info;
    uint32_t program;
    hn_module_device_get(s->model.module, &info);
    HN_TRY(hn_bundle_open(image, len, false, &file));
    if (!hn_bundle_program_find(&file, info.device.kind, &program)) program = 0;
    return hn_bundle_program_open(&file, program, false, out);
}

static hn_status gather(reporter *r, runs *s, const char *path, hn_str trace, hn_strbuf *out) {
    hn_bundle bundle;
    hn_file_map map = {0};
    size_t len;
    const void *image;
    hn_report_source source = {.path = path, .bundle = &bundle, .run = &s->report, .trace = trace};
    if (s->model.kind == TOOL_HNB) {
        source.kind = "bundle";
        HN_TRY(hn_file_map_init(&map, path));
        image = map.data, len = map.size_bytes;
    } else {
        source.kind = "model";
        source.compiled = s->model.compiled;
        source.driver = hn_kept_driver(s->kept);
        image = hn_compiled_image(s->model.compiled, &len);
    }
    hn_status status = open_program(s, image, len, &bundle);
    if (!status) r->step_count = bundle.steps_count;
    if (!status)
        status = s->model.kind == TOOL_HNB ? hn_report_data(&source, out)
                                           : gather_model(r->options, path, &source, out);
    hn_file_map_deinit(&map);
    return status;
}

/* Compiles, runs and gathers, with one recording of all. */
static hn_status object_of_program(reporter *r, const char *path, hn_strbuf *out) {
    runs s = {.report = {0}};
    hn_strbuf trace;
    hn_strbuf_init(&trace);
    hn_trace_start();
    tool_kind kind;
    hn_status status = tool_kind_of(path, &kind);
    const int64_t begin = hn_now_ns();
    if (!status)
        status = kind == TOOL_HNB ? tool_model_load(&r->load, path, &s.model)
                                  : tool_model_load_kept(&r->load, path, &s.model, &s.kept);
    if (!status)
        hn_trace_span("call", kind == TOOL_HNB ? "load" : "compile and load", begin, hn_now_ns());
    if (!status) status = run(r, &s);
    hn_status taken = hn_trace_take(&trace);
    if (status) hn_status_free(taken);
    else status = taken;
    if (!status) status = find_roofline(r, &s);
    const int64_t gathering = hn_now_ns();
    if (!status) status = gather(r, &s, path, hn_strbuf_str(&trace), out);
    r->gather_ns += hn_now_ns() - gathering;
    hn_strbuf_deinit(&trace);
    runs_deinit(&s);
    return status;
}

/* ---- other files ---- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* A trace is JSON: an object or a list. */
static bool is_json(hn_str bytes) {
    size_t k = 0;
    while (k < bytes.len && is_space(bytes.ptr[k])) k++;
    return k < bytes.len && (bytes.ptr[k] == '{' || bytes.ptr[k] == '[');
}

static hn_status object_of_file(reporter *r, const char *path, bool *out_is_one, hn_strbuf *out) {
    hn_file_map map;
    hn_str object;
    HN_TRY(hn_file_map_init(&map, path));
    const hn_str bytes = {(const char *)map.data, map.size_bytes};
    hn_status status = NULL;
    *out_is_one = true;
    if (hn_report_claims(bytes)) {
        status = hn_report_read(bytes, &object);
        if (!status) hn_strbuf_append(out, object.ptr, object.len);
    } else if (is_json(bytes)) {
        const int64_t begin = hn_now_ns();
        status =
            hn_report_data(&(hn_report_source){.kind = "trace", .path = path, .trace = bytes}, out);
        r->gather_ns += hn_now_ns() - begin;
    } else {
        *out_is_one = false;
    }
    hn_file_map_deinit(&map);
    return hn_status_annotate(status, "'%s'", path);
}

static hn_status object_of(reporter *r, const char *path, hn_strbuf *out) {
    bool is_one;
    HN_TRY(object_of_file(r, path, &is_one, out));
    return is_one ? hn_strbuf_status(out) : object_of_program(r, path, out);
}

/* ---- the command ---- */

static hn_status write_page(reporter *r, const hn_str *objects, uint32_t count) {
    hn_strbuf page;
    hn_strbuf_init(&page);
    const int64_t begin = hn_now_ns();
    hn_status status = hn_report_page(objects, count, &page);
    if (!status) status = tool_deliver(r->options, &page);
    r->gather_ns += hn_now_ns() - begin;
    const bool is_shown = !r->options->quiet && strcmp(r->options->output, "-") != 0;
    if (!status && is_shown)
        fprintf(stderr, "%s: %.1f MB, made in %.0f ms\n", r->options->output,
                (double)page.len / 1e6, (double)r->gather_ns / 1e6);
    hn_strbuf_deinit(&page);
    return status;
}

static hn_status report(reporter *r) {
    hn_strbuf texts[2];
    hn_str objects[2];
    uint32_t count = 0;
    const char *paths[2] = {r->options->compare, r->options->args.items[0]};
    for (uint32_t k = 0; k < 2; k++) hn_strbuf_init(&texts[k]);
    hn_status status = NULL;
    for (uint32_t k = r->options->compare ? 0 : 1; k < 2 && !status; k++) {
        status = object_of(r, paths[k], &texts[count]);
        objects[count] = hn_strbuf_str(&texts[count]);
        count++;
    }
    if (!status && !r->options->inputs.count) status = tool_random_check(&r->random);
    if (!status && r->options->output) status = write_page(r, objects, count);
    if (!status && r->options->json) {
        hn_strbuf_putc(&texts[count - 1], '\n');
        status = tool_print(&texts[count - 1]);
    }
    for (uint32_t k = 0; k < 2; k++) hn_strbuf_deinit(&texts[k]);
    return status;
}

/* Which kinds of files that are compiled or run there are: bits. */
static hn_status note_kind(const char *path, unsigned *kinds) {
    hn_file_map map;
    tool_kind kind;
    HN_TRY(hn_file_map_init(&map, path));
    const hn_str bytes = {(const char *)map.data, map.size_bytes};
    const bool is_read_only = hn_report_claims(bytes) || is_json(bytes);
    hn_file_map_deinit(&map);
    if (is_read_only) return NULL;
    HN_TRY(tool_kind_of(path, &kind));
    *kinds |= kind;
    return NULL;
}

/* Options mean something for one of the files at least. */
static int check_kinds(const tool_options *o) {
    unsigned kinds = 0;
    hn_status status = o->compare ? note_kind(o->compare, &kinds) : NULL;
    if (!status) status = note_kind(o->args.items[0], &kinds);
    if (status) return tool_report(status);
    if (kinds) return tool_options_check_kind("report", o, o->args.items[0], kinds);
    return tool_options_check_action("report", o, "TRACE", " --output --compare --quiet ");
}

static int check_options(const tool_options *o) {
    if (!o->output && !o->json)
        return tool_usage("report", "give the name of the page with -o REPORT.html");
    if (o->output && o->json && strcmp(o->output, "-") == 0)
        return tool_usage("report", "only one of --json and -o - can go to standard output");
    if (o->repeat > 1 + RUNS_MOST)
        return tool_usage("report", "--repeat needs a whole number from 1 to %d here, not '%lld'",
                          1 + RUNS_MOST, (long long)o->repeat);
    if (tool_options_check_with("report", o, "--size", !o->inputs.count,
                                "together with --input, which gives the sizes"))
        return TOOL_USAGE;
    const int refused = tool_compile_check("report", o);
    return refused ? refused : check_kinds(o);
}

int tool_cmd_report(const tool_options *options) {
    reporter r = {.options = options, .load = *options};
    r.load.profile = true;
    const int refused = check_options(options);
    if (refused) return refused;
    if (!tool_random_init("report", options, &r.random)) return TOOL_USAGE;
    r.random.prefers_hints = true;
    hn_status status = tool_device_check(options);
    if (!status) status = report(&r);
    return tool_report(status);
}
