/* print_kernels.c: the kernels that come of a graph in text form, as source text, one after another.
 *
 *     print_kernels [--deterministic] [--target TARGET] FILE.hnir
 *
 * Only different kernels are printed, without the snippets that they call. Nothing is compiled. */
#include "base/file.h"
#include "driver/driver.h"

#include <stdio.h>
#include <string.h>

static void print_text(void *context, const char *text) { fprintf(context, "\n%s", text); }

static hn_status print_graph(hn_graph *graph, hn_compile_options options) {
    hn_driver d;
    options.threads = 2;
    options.dump_after = "codegen";
    options.dump = print_text;
    options.dump_context = stdout;
    hn_driver_init(&d, &options, NULL);
    d.graph = graph;
    d.sym = graph->sym;
    hn_status status = hn_driver_targets(&d);
    if (!status) status = hn_driver_passes(&d);
    if (!status) status = hn_driver_kernels(&d);
    hn_driver_deinit(&d);
    return status;
}

static hn_status print_file(const char *path, hn_compile_options options) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    hn_status status = hn_file_read(path, &text);
    if (!status) status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_parse(&arena, sym, hn_strbuf_str(&text), &graph);
    if (!status) status = print_graph(graph, options);
    if (graph) hn_graph_deinit(graph);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
    return status;
}

int main(int argc, char **argv) {
    hn_compile_options options = {.target = "x86-64-v3"};
    int at = 1;
    if (argc > at && strcmp(argv[at], "--deterministic") == 0) options.deterministic = true, at++;
    if (argc > at + 1 && strcmp(argv[at], "--target") == 0) options.target = argv[at + 1], at += 2;
    if (argc != at + 1) {
        fprintf(stderr, "usage: print_kernels [--deterministic] [--target TARGET] FILE.hnir\n");
        return 2;
    }
    hn_status status = print_file(argv[at], options);
    if (!status) return 0;
    fprintf(stderr, "print_kernels: %s\n", hn_status_message(status));
    hn_status_free(status);
    return 1;
}
