/* reduce.c: `henry reduce`: a small graph that fails as a model does, as one file with its
 * inputs. */
#include "subject.h"

#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/trace.h"
#include "reduce/reduce.h"
#include "toolchain/tool.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>

typedef struct state {
    const tool_options *options;
    hn_compile_options compile;
    hn_module_options load;
    hn_arena arena;
    hn_model_file *file;
    hn_graph *graph;
    hn_reduction reduction;
    bool has_reduction;
    char *attempt;   /* the file that --test gets */
    hn_strbuf again; /* the command that shows the failure */
    int64_t begin_ns;
    bool shows_progress;
} state;

static volatile sig_atomic_t stop;

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

static void catch_signals(void) {
    const struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

static void note(void *user, const char *text) {
    const state *s = user;
    if (s->shows_progress)
        fprintf(stderr, "\r%.1f s: %s\033[K", (double)(hn_now_ns() - s->begin_ns) / 1e9, text);
}

/* --- the model and its inputs --- */

static bool is_of_call(const hn_input *input) {
    return input->kind == HN_INPUT_USER || input->kind == HN_INPUT_SCALAR;
}

static bool is_tensor(const hn_graph *g, const hn_input *input) {
    return input->kind == HN_INPUT_USER && hn_graph_value(g, input->value)->kind == HN_VALUE_TENSOR;
}

/* What every run refuses is a mistake of the call, and no failure of the model. */
static hn_status check_sizes(const hn_graph *g, const hn_value_info *value,
                             const hn_tensor *tensor) {
    const int64_t *sizes = hn_tensor_sizes(tensor);
    int64_t size;
    if (hn_tensor_rank(tensor) != value->rank)
        return HN_ERROR(HN_INVALID_ARGUMENT, "has %u dimensions, and the input has %u",
                        hn_tensor_rank(tensor), value->rank);
    for (uint32_t d = 0; d < value->rank; d++)
        if (hn_sym_is_int(g->sym, value->sizes[d], &size) && sizes[d] != size)
            return HN_ERROR(HN_INVALID_ARGUMENT, "size %u is %lld, and that of the input is %lld",
                            d, (long long)sizes[d], (long long)size);
    return NULL;
}

static hn_status read_input(state *s, const char *path, hn_input *input) {
    const hn_value_info *value = hn_graph_value(s->graph, input->value);
    const hn_module_value_info info = {.kind = HN_VALUE_KIND_TENSOR,
                                       .name = "",
                                       .type = (hn_scalar_type)value->dtype,
                                       .rank = UINT32_MAX}; /* no layout is recorded */
    hn_tensor *tensor;
    hn_example *e;
    int64_t *sizes;
    uint8_t *bytes;
    HN_TRY(tool_input_read(path, &info, &tensor));
    const size_t size_bytes =
        (size_t)hn_tensor_numel(tensor) * hn_scalar_type_bytes(hn_tensor_type(tensor));
    const uint32_t rank = hn_tensor_rank(tensor);
    hn_status status = hn_status_annotate(check_sizes(s->graph, value, tensor), "'%s'", path);
    if (!status) status = hn_arena_array(&s->arena, 1, sizeof *e, &e);
    if (!status) status = hn_arena_array(&s->arena, rank + 1u, sizeof *sizes, &sizes);
    if (!status) status = hn_arena_array(&s->arena, size_bytes + 1, 1, &bytes);
    if (!status) status = hn_tensor_copy_out(tensor, bytes);
    if (!status) {
        memcpy(sizes, hn_tensor_sizes(tensor), rank * sizeof *sizes);
        *e = (hn_example){rank, sizes, bytes, size_bytes};
        input->example = e;
    }
    hn_tensor_release(tensor);
    return status;
}

/* As for a run: for tensors only, or for all inputs of a call. */
static hn_status read_inputs(state *s) {
    const tool_list *files = &s->options->inputs;
    uint32_t total = 0, tensors = 0, used = 0;
    for (uint32_t k = 0; k < s->graph->inputs.count; k++) {
        total += is_of_call(&s->graph->inputs.items[k]);
        tensors += is_tensor(s->graph, &s->graph->inputs.items[k]);
    }
    if (!files->count) return NULL;
    if (files->count != total && files->count != tensors)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u input%s given, the model takes %u", files->count,
                        files->count == 1 ? "" : "s", tensors);
    for (uint32_t k = 0; k < s->graph->inputs.count; k++) {
        hn_input *input = &s->graph->inputs.items[k];
        if (!is_of_call(input) || (files->count != total && !is_tensor(s->graph, input))) continue;
        if (input->kind == HN_INPUT_USER) HN_TRY(read_input(s, files->items[used], input));
        used++;
    }
    return NULL;
}

static hn_status open_model(state *s) {
    const char *path = s->options->args.items[0];
    hn_sym *sym;
    HN_TRY(tool_device_check(s->options));
    HN_TRY(tool_refuse_bundle(s->options));
    tool_compile_options(s->options, &s->compile);
    tool_load_options(s->options, &s->load);
    HN_TRY(hn_model_open(path, &s->file));
    HN_TRY(hn_sym_create(&s->arena, &sym));
    hn_status status =
        s->file->importer->import(s->file, s->options->model_name, &s->arena, sym, &s->graph);
    return status ? hn_status_annotate(status, "'%s'", path) : read_inputs(s);
}

/* --- reports --- */

/* As a shell reads it. */
static void put_word(const char *word, hn_strbuf *out) {
    hn_tool_args one = {.count = 0};
    hn_tool_args_add(&one, word);
    hn_strbuf_putc(out, ' ');
    hn_tool_args_print(&one, out);
}

/* Of results, bisect tells whether they are right; everything else shows in a run. */
static void put_command(const tool_options *o, bool judged, hn_strbuf *out) {
    hn_strbuf_printf(out, "henry %s", judged ? "bisect" : "run");
    put_word(o->output, out);
    if (o->device) hn_strbuf_printf(out, " --device %s", o->device);
    if (o->target) hn_strbuf_printf(out, " --target %s", o->target);
    if (o->threads > 0) hn_strbuf_printf(out, " --threads %lld", (long long)o->threads);
    if (o->deterministic) hn_strbuf_puts(out, " --deterministic");
    if (judged && o->rtol >= 0) hn_strbuf_printf(out, " --rtol %g", o->rtol);
    if (judged && o->atol >= 0) hn_strbuf_printf(out, " --atol %g", o->atol);
}

static hn_status make_command(state *s) {
    const hn_failure_kind kind = s->reduction.failure.kind;
    const bool judged = kind == HN_FAILURE_DIFFERS || kind == HN_FAILURE_NOT_FINITE;
    if (s->options->test) {
        hn_strbuf_puts(&s->again, s->options->test);
        put_word(s->options->output, &s->again);
    } else {
        put_command(s->options, judged, &s->again);
    }
    return hn_strbuf_status(&s->again);
}

static hn_status write_best(state *s) {
    const hn_reduction *r = &s->reduction;
    char from[300], what[500], how[400];
    hn_strbuf text;
    snprintf(from, sizeof from, "henry reduce: %u of the %u nodes of %s", r->nodes_after,
             r->nodes_before, s->options->args.items[0]);
    snprintf(what, sizeof what, "%s: %s", hn_failure_name(r->last.kind), r->last.text);
    snprintf(how, sizeof how, "to see it: %s", hn_strbuf_str(&s->again).ptr);
    const char *const comments[] = {from, what, how};
    hn_strbuf_init(&text);
    hn_status status = hn_slice_write(&r->best, comments, 3, &text);
    if (!status) status = hn_file_write_atomic(s->options->output, text.ptr, text.len, false);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status print_text(const state *s) {
    const hn_reduction *r = &s->reduction;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "%s: %s\n", hn_failure_name(r->failure.kind), r->failure.text);
    hn_strbuf_printf(&text, "  nodes     %u of %u\n", r->nodes_after, r->nodes_before);
    hn_strbuf_printf(&text, "  elements  %llu of %llu\n", (unsigned long long)r->elements_after,
                     (unsigned long long)r->elements_before);
    hn_strbuf_printf(&text, "  attempts  %u in %.1f s%s\n", r->trials,
                     (double)(hn_now_ns() - s->begin_ns) / 1e9,
                     r->is_complete ? "" : ", stopped before the end");
    hn_strbuf_printf(&text, "  there     %s\n", r->last.text);
    hn_strbuf_printf(&text, "  written   %s\n", s->options->output);
    hn_strbuf_printf(&text, "  see it    " HN_STR_FMT "\n", HN_STR_ARG(hn_strbuf_str(&s->again)));
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status print_json(const state *s) {
    const hn_reduction *r = &s->reduction;
    tool_json json;
    tool_json_init(&json);
    tool_json_str(&json, "model", s->options->args.items[0]);
    tool_json_str(&json, "failure", hn_failure_name(r->failure.kind));
    tool_json_str(&json, "text", r->failure.text);
    tool_json_str(&json, "file", s->options->output);
    tool_json_str(&json, "command", hn_strbuf_str(&s->again).ptr);
    tool_json_int(&json, "nodes", r->nodes_after);
    tool_json_int(&json, "nodes_before", r->nodes_before);
    tool_json_int(&json, "elements", (int64_t)r->elements_after);
    tool_json_int(&json, "elements_before", (int64_t)r->elements_before);
    tool_json_int(&json, "attempts", r->trials);
    tool_json_bool(&json, "complete", r->is_complete);
    tool_json_ms(&json, "total_ms", hn_now_ns() - s->begin_ns);
    hn_status status = tool_json_finish(&json, true, NULL);
    tool_json_deinit(&json);
    return status;
}

/* --- all --- */

/* Three quarters of the memory: what takes more has no end. */
static uint64_t usual_memory(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes / 4 * 3 : 0;
}

static hn_status reduce(state *s) {
    enum { LIMIT_S = 60 };
    const tool_options *o = s->options;
    const hn_reduce_options options = {
        .trial = {.compile = &s->compile,
                  .load = &s->load,
                  .rtol = o->rtol,
                  .atol = o->atol,
                  .test = o->test,
                  .path = s->attempt,
                  .limit_ms = (o->time_limit > 0 ? o->time_limit : LIMIT_S) * 1000,
                  .memory_bytes = o->max_bytes > 0 ? (uint64_t)o->max_bytes : usual_memory(),
                  .stop = &stop},
        .note = note,
        .user = s};
    s->has_reduction = true;
    hn_status status = hn_reduce(s->graph, &options, &s->reduction);
    if (s->shows_progress) fputs("\r\033[K", stderr);
    return status;
}

/* A file of its own beside the result: where it cannot be, nor can the result, which is said before
 * the search. */
static hn_status make_attempt(state *s) {
    static const char end[] = ".XXXXXX.hnir";
    struct stat st;
    const char *output = s->options->output;
    if (stat(output, &st) == 0 && S_ISDIR(st.st_mode))
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot write '%s': it is a folder", output);
    s->attempt = malloc(strlen(output) + sizeof end);
    if (!s->attempt) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    sprintf(s->attempt, "%s%s", output, end);
    const int fd = mkstemps(s->attempt, sizeof ".hnir" - 1);
    if (fd < 0) return HN_OS_ERROR(errno, "cannot write '%s'", output);
    close(fd);
    return NULL;
}

static hn_status run(state *s) {
    HN_TRY(open_model(s));
    catch_signals();
    HN_TRY(make_attempt(s));
    hn_status status = reduce(s);
    (void)unlink(s->attempt);
    HN_TRY(status);
    if (s->reduction.failure.kind == HN_FAILURE_CANCELLED)
        return HN_ERROR(HN_CANCELLED, "stopped before the model was run");
    if (s->reduction.failure.kind == HN_FAILURE_NONE)
        return HN_ERROR(HN_NOT_FOUND,
                        s->options->test ? "the model does not fail: the command ends with status 0"
                                         : "the model does not fail: its results are those of the "
                                           "reference interpreter");
    HN_TRY(make_command(s));
    HN_TRY(write_best(s));
    return s->options->json ? print_json(s) : print_text(s);
}

int tool_cmd_reduce(const tool_options *options) {
    state s = {.options = options,
               .begin_ns = hn_now_ns(),
               .shows_progress = tool_is_terminal() && !options->json};
    if (!options->output || strcmp(options->output, "-") == 0)
        return tool_usage("reduce", "name the file for the result with -o SMALL.hnir");
    if (tool_options_check_with("reduce", options, "--rtol", !options->test, "with --test") ||
        tool_options_check_with("reduce", options, "--atol", !options->test, "with --test"))
        return TOOL_USAGE;
    hn_arena_init(&s.arena);
    hn_strbuf_init(&s.again);
    hn_status status = run(&s);
    if (s.has_reduction) hn_reduction_deinit(&s.reduction);
    if (s.graph) hn_graph_deinit(s.graph);
    hn_model_close(s.file);
    hn_strbuf_deinit(&s.again);
    hn_arena_deinit(&s.arena);
    free(s.attempt);
    return tool_report(status);
}
