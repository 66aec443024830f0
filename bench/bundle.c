/* bundle.c: the warm start of a bundle with many kernels.
 *
 *     bundle [--kernels N] [--objects N] [--rounds N]
 *     bundle --open FILE      one start of FILE, in this process
 *
 * Default: 1,000 kernels, in as many objects as compilers that run at once.
 *
 * Makes a chain of N kernels, no two of which are equal, with the weights of each, compiles it into
 * a bundle file, and opens that in new processes. Prints one JSON object; times are medians in
 * milliseconds: opening (hn_module_load_file, digests verified), to the first launch (until the
 * first kernel has been loaded and begins), until all have run once, and the same with
 * hn_module_options.load_all until all are loaded. The file is in the page cache, as after a first
 * start. */
#include "bench/median.h"

#include "base/process.h"
#include "base/trace.h"
#include "bundle/view.h"
#include "driver/driver.h"
#include "henry/module.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 16, ROUNDS_MAX = 200 };

/* Row sums of x * c, then x - sum * d, in turns; every c and d is another number, so every kernel
 * another text. */
static void write_graph(uint32_t kernels, hn_strbuf *out) {
    hn_strbuf_printf(out, "graph @g {\n  input user %%v0 : f32[%d, %d] \"x\"\n", WIDTH, WIDTH);
    for (uint32_t k = 0; k < kernels; k += 2) {
        hn_strbuf_printf(
            out, "  %%c%u = full(value=%.9g, sizes=[], dtype=f32)\n  %%m%u = mul(%%v%u, %%c%u)\n",
            k, 1e-3 + 1e-6 * k, k, k, k);
        hn_strbuf_printf(out, "  %%s%u = sum(%%m%u, dims=[1], keepdim=true)\n", k, k);
        hn_strbuf_printf(
            out, "  %%d%u = full(value=%.9g, sizes=[], dtype=f32)\n  %%n%u = mul(%%s%u, %%d%u)\n",
            k, 1e-2 + 1e-5 * k, k, k, k);
        hn_strbuf_printf(out, "  %%v%u = sub(%%v%u, %%n%u)\n", k + 2, k, k);
    }
    hn_strbuf_printf(out, "  output user %%v%u \"y\"\n}\n", kernels);
}

static hn_status make_bundle(uint32_t kernels, int32_t objects, const char *path) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_strbuf text;
    hn_service *service = NULL;
    hn_compiled *compiled = NULL;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    write_graph(kernels, &text);
    hn_status status = hn_service_create(&(hn_service_options){.cache_dir = ""}, &service);
    if (!status) status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_parse(&arena, sym, (hn_str){text.ptr, text.len}, &graph);
    if (!status)
        status = hn_compile_graph(
            graph, service,
            &(hn_compile_options){.threads = 1, .no_fusion = true, .compile_threads = objects},
            &compiled);
    if (!status) status = hn_compiled_save(compiled, path);
    hn_compiled_release(compiled);
    hn_strbuf_deinit(&text);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    hn_service_destroy(service);
    return status;
}

typedef struct times {
    double open_ms, first_ms, run_ms, all_ms;
} times;

static double ms(int64_t ns) { return (double)ns / 1e6; }

/* A run with every step timed: what is not steps behind the first came before the first kernel
 * began, or is the walk. */
static hn_status run_once(hn_module *module, int64_t begin, times *out) {
    const int64_t sizes[] = {WIDTH, WIDTH};
    hn_tensor *input, *output = NULL;
    hn_module_step_profile step;
    int64_t steps = 0;
    HN_TRY(hn_tensor_create(&(hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = sizes}, &input));
    memset(hn_tensor_data(input), 0, sizeof(float) * WIDTH * WIDTH);
    HN_TRY(hn_module_run(module, &input, 1, &output, 1));
    int64_t end = hn_now_ns();
    for (uint32_t k = 1; k < hn_module_step_count(module); k++) {
        HN_TRY(hn_module_profile(module, k, &step));
        steps += step.total_ns;
    }
    out->first_ms = ms(end - begin - steps);
    out->run_ms = ms(end - begin);
    hn_tensor_release(input);
    hn_tensor_release(output);
    return NULL;
}

static hn_status open_once(const char *path, bool all, times *out) {
    hn_module *module;
    int64_t begin = hn_now_ns();
    HN_TRY(hn_module_load_file(
        path, &(hn_module_options){.threads = 1, .profile = true, .load_all = all}, &module));
    if (all) out->all_ms = ms(hn_now_ns() - begin);
    else out->open_ms = ms(hn_now_ns() - begin);
    hn_status status = all ? NULL : run_once(module, begin, out);
    hn_module_release(module);
    return status;
}

static int report_failure(hn_status status) {
    if (!status) return 0;
    fprintf(stderr, "bundle: %s\n", hn_status_message(status));
    hn_status_free(status);
    return 1;
}

static int open_file(const char *path, bool all) {
    times t = {0};
    hn_status status = open_once(path, all, &t);
    if (!status) printf("%.6f %.6f %.6f %.6f\n", t.open_ms, t.first_ms, t.run_ms, t.all_ms);
    return report_failure(status);
}

/* One new process. */
static hn_status start(const char *self, const char *option, const char *path, times *out) {
    const char *argv[] = {self, option, path, NULL};
    hn_strbuf output;
    int code = -1;
    hn_strbuf_init(&output);
    hn_status status =
        hn_process_run(&(hn_spawn){.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1},
                       30000, &output, &code);
    if (!status && (code || sscanf(output.ptr, "%lf %lf %lf %lf", &out->open_ms, &out->first_ms,
                                   &out->run_ms, &out->all_ms) != 4))
        status = HN_ERROR(HN_INTERNAL, "a start failed: %s", output.ptr ? output.ptr : "");
    hn_strbuf_deinit(&output);
    return status;
}

static hn_status print_facts(const char *path) {
    hn_file_map map;
    hn_bundle b;
    HN_TRY(hn_file_map_init(&map, path));
    hn_status status = hn_bundle_open(map.data, map.size_bytes, true, &b);
    if (!status)
        printf(
            "{\"kernels\": %u, \"steps\": %u, \"objects\": %u, \"tables_bytes\": %llu, \"code_bytes\": %llu, ",
            b.kernels_count - 1, b.steps_count, b.objects_count,
            (unsigned long long)b.header->meta_bytes, (unsigned long long)b.header->code_bytes);
    hn_file_map_deinit(&map);
    return status;
}

static hn_status measure(const char *self, const char *path, uint32_t rounds) {
    double open_ms[ROUNDS_MAX], first_ms[ROUNDS_MAX], run_ms[ROUNDS_MAX], all_ms[ROUNDS_MAX];
    HN_TRY(print_facts(path));
    for (uint32_t k = 0; k < rounds; k++) {
        times lazy, all;
        HN_TRY(start(self, "--open", path, &lazy));
        HN_TRY(start(self, "--open-all", path, &all));
        open_ms[k] = lazy.open_ms, first_ms[k] = lazy.first_ms, run_ms[k] = lazy.run_ms,
        all_ms[k] = all.all_ms;
    }
    printf(
        "\"rounds\": %u, \"open_ms\": %.3f, \"first_launch_ms\": %.3f, \"first_run_ms\": %.3f, \"all_loaded_ms\": %.3f}\n",
        rounds, median(open_ms, rounds), median(first_ms, rounds), median(run_ms, rounds),
        median(all_ms, rounds));
    return NULL;
}

int main(int argc, char **argv) {
    long kernels = 1000, objects = 0, rounds = 21;
    char path[] = "/tmp/henry-bundle-XXXXXX";
    if (argc == 3 && strcmp(argv[1], "--open") == 0) return open_file(argv[2], false);
    if (argc == 3 && strcmp(argv[1], "--open-all") == 0) return open_file(argv[2], true);
    for (int k = 1; k + 1 < argc; k += 2) {
        long value = strtol(argv[k + 1], NULL, 10);
        if (strcmp(argv[k], "--kernels") == 0) kernels = value;
        if (strcmp(argv[k], "--objects") == 0) objects = value;
        if (strcmp(argv[k], "--rounds") == 0) rounds = value;
    }
    if (kernels < 2 || kernels % 2 || rounds < 1 || rounds > ROUNDS_MAX || objects < 0)
        return report_failure(HN_ERROR(HN_INVALID_ARGUMENT, "wrong numbers"));
    int fd = mkstemp(path);
    if (fd < 0) return report_failure(HN_ERROR(HN_IO, "cannot make a temporary file"));
    close(fd);
    hn_status status = make_bundle((uint32_t)kernels, (int32_t)objects, path);
    if (!status) status = measure(argv[0], path, (uint32_t)rounds);
    unlink(path);
    return report_failure(status);
}
