/* opt.c: `henry opt`: passes on a graph or on loop IR in text form, for tests and for looking at
 * one pass alone. The first word of the text tells which it is; of loop IR there is one pass,
 * "sched". */
#include "tool.h"

#include "base/file.h"
#include "base/trace.h"
#include "driver/driver.h"

static hn_status run_on_graph(const tool_options *o, hn_arena *arena, hn_arena *scratch,
                              hn_str text, hn_strbuf *out) {
    hn_sym *sym;
    hn_graph *graph = NULL;
    HN_TRY(hn_sym_create(arena, &sym));
    hn_status status = hn_graph_parse(arena, sym, text, &graph);
    if (!status) status = hn_graph_verify(graph, HN_LEGAL_ANY);
    for (uint32_t k = 0; k < o->passes.count && !status; k++)
        status = hn_driver_pass_run(graph, o->passes.items[k], scratch);
    if (!status) hn_graph_print(graph, out);
    if (graph) hn_graph_deinit(graph);
    return status;
}

/* Fusion on the loops of a program; prints what planning is given. */
static hn_status run_on_program(const tool_options *o, hn_arena *arena, hn_arena *scratch,
                                hn_str text, hn_strbuf *out) {
    hn_sym *sym;
    hn_program *program;
    HN_TRY(hn_sym_create(arena, &sym));
    HN_TRY(hn_program_parse(arena, sym, text, &program));
    if (!o->passes.count) {
        hn_program_print(program, out);
        return NULL;
    }
    if (o->passes.count > 1 || strcmp(o->passes.items[0], "sched") != 0)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "loop IR has only the pass 'sched', which runs once, and not '%s'",
                        o->passes.items[o->passes.count - 1]);
    hn_schedule schedule;
    int64_t begin = hn_now_ns();
    hn_status status = hn_schedule_program(
        program,
        &(hn_sched_options){.threads = 1, .limits = hn_target_host().kind->limits, .fused = out},
        arena, scratch, &schedule);
    hn_trace_span("pass", "sched", begin, hn_now_ns());
    return status;
}

static hn_status run_all(const tool_options *o, hn_arena *arena, hn_arena *scratch, hn_str text,
                         hn_strbuf *out) {
    return hn_program_is_text(text) ? run_on_program(o, arena, scratch, text, out)
                                    : run_on_graph(o, arena, scratch, text, out);
}

int tool_cmd_opt(const tool_options *o) {
    const char *path = o->args.items[0];
    if (o->trace && !o->passes.count)
        return tool_usage("opt", "--trace has no effect without --pass");
    hn_arena arena, scratch;
    hn_strbuf text, out;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_init(&out);
    hn_status status = hn_file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &text);
    if (!status)
        status = hn_status_annotate(run_all(o, &arena, &scratch, hn_strbuf_str(&text), &out),
                                    "'%s'", path);
    if (!status) status = tool_deliver(o, &out);
    hn_strbuf_deinit(&out);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return tool_report(status);
}
