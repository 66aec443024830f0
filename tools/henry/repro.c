/* repro.c: `henry repro`: one kernel of a model, with its inputs and what it should write, as a folder
 * that builds and runs alone. */
#include "subject.h"

#include "bisect/repro.h"

static void report(void *context, const char *what, hn_str name) {
    hn_strbuf_printf(context, "%s " HN_STR_FMT "\n", what, HN_STR_ARG(name));
}

static hn_status run(tool_subject *s, hn_strbuf *text) {
    HN_TRY(tool_subject_open(s->options, s));
    const hn_repro_options options = {.kernel = hn_str_of(s->options->kernel),
                                      .dir = s->options->output,
                                      .report = report,
                                      .context = text};
    HN_TRY(hn_repro_write(&s->subject, &s->whole, &options));
    return tool_print(text);
}

int tool_cmd_repro(const tool_options *options) {
    tool_subject s = {.options = options};
    hn_strbuf text;
    if (!options->kernel)
        return tool_usage("repro", "name a kernel, or the number of a step, with --kernel K");
    if (!options->output || strcmp(options->output, "-") == 0)
        return tool_usage("repro", "name a folder with -o DIR");
    hn_strbuf_init(&text);
    hn_status status = run(&s, &text);
    hn_strbuf_deinit(&text);
    tool_subject_deinit(&s);
    return tool_report(status);
}
