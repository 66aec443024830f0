/* debugger.c: what the tensor debugger costs a model.
 *
 *     debugger MODEL [THREADS [ROUNDS]]      MODEL: a .pt2 model or a bundle
 *
 * The program is loaded three times: by itself (`plain`), with a debugger that was attached and
 * detached (`off`), and with one that makes statistics of every tensor, whose lines go to /dev/null
 * (`stats`). They take turns, with THREADS (2) threads, in ROUNDS (15) rounds, on the sizes of the
 * export; whole numbers in inputs are 0. One JSON object on stdout: medians in ms, of the wall and
 * of the processor, and the ratios to `plain` (medians over rounds). Weights are looked at once, in
 * the first run, which does not count. */
#include "bench/median.h"

#include "base/trace.h"
#include "henry/henry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INPUTS_MOST = 16, OUTPUTS_MOST = 64, ROUNDS_MOST = 100, CONTESTANTS = 3 };
static const char *const names[CONTESTANTS] = {"plain", "off", "stats"};

typedef struct contestant {
    hn_module *module;
    double wall[ROUNDS_MOST], cpu[ROUNDS_MOST];
} contestant;

static hn_tensor *inputs[INPUTS_MOST];

static void must(hn_status status) {
    if (!status) return;
    fprintf(stderr, "debugger: %s\n", hn_status_message(status));
    exit(1);
}

static bool ends_in(const char *text, const char *end) {
    const size_t len = strlen(text), tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

static hn_module *load(const char *path, hn_compiled *compiled, int threads, const char *debug) {
    const hn_module_options options = {.threads = threads, .debug_tensors = debug};
    hn_module *module = NULL;
    must(compiled ? hn_compiled_load(compiled, &options, &module)
                  : hn_module_load_file(path, &options, &module));
    return module;
}

/* ---- inputs ---- */

static int64_t size_of(const hn_module_dim *dim) {
    return dim->is_static ? dim->value : dim->hint > 0 ? dim->hint : 32;
}

static hn_tensor *make_input(const hn_module *module, uint32_t k) {
    hn_module_value_info info;
    int64_t sizes[HN_TENSOR_MAX_RANK];
    hn_tensor *t = NULL;
    must(hn_module_input_info(module, k, &info));
    if (info.kind != HN_VALUE_KIND_TENSOR) return NULL;
    for (uint32_t d = 0; d < info.rank; d++) sizes[d] = size_of(&info.sizes[d]);
    must(hn_tensor_create(&(hn_tensor_desc){.type = info.type, .rank = info.rank, .sizes = sizes},
                          &t));
    memset(hn_tensor_data(t), 0, (size_t)hn_tensor_numel(t) * hn_scalar_type_bytes(info.type));
    for (int64_t e = 0; info.type == HN_F32 && e < hn_tensor_numel(t); e++)
        ((float *)hn_tensor_data(t))[e] = (float)(e * 37 % 101) / 50 - 1;
    return t;
}

/* ---- turns ---- */

static double cpu_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void run(contestant *c, int round) {
    hn_tensor *outputs[OUTPUTS_MOST] = {NULL};
    const uint32_t count = hn_module_output_count(c->module);
    const double cpu = cpu_ms();
    const int64_t begin = hn_now_ns();
    must(hn_module_run(c->module, inputs, hn_module_input_count(c->module), outputs, count));
    if (round >= 0) {
        c->wall[round] = (double)(hn_now_ns() - begin) / 1e6;
        c->cpu[round] = cpu_ms() - cpu;
    }
    for (uint32_t k = 0; k < count; k++) hn_tensor_release(outputs[k]);
}

/* Each begins as often as the others. */
static void take_turns(contestant *all, int rounds) {
    for (int k = 0; k < CONTESTANTS; k++) run(&all[k], -1);
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < CONTESTANTS; k++) run(&all[(round + k) % CONTESTANTS], round);
}

static double ratio(const double *times, const double *plain, int rounds) {
    double ratios[ROUNDS_MOST];
    for (int k = 0; k < rounds; k++) ratios[k] = times[k] / plain[k];
    return median(ratios, rounds);
}

static void report(contestant *all, int threads, int rounds) {
    printf("{\"threads\": %d, \"rounds\": %d", threads, rounds);
    for (int k = 0; k < CONTESTANTS; k++) {
        contestant *c = &all[k];
        if (k)
            printf(", \"%s_of_plain\": %.4f, \"%s_of_plain_cpu\": %.4f", names[k],
                   ratio(c->wall, all->wall, rounds), names[k], ratio(c->cpu, all->cpu, rounds));
    }
    for (int k = 0; k < CONTESTANTS; k++)
        printf(", \"%s_ms\": %.4f, \"%s_cpu_ms\": %.4f", names[k], median(all[k].wall, rounds),
               names[k], median(all[k].cpu, rounds));
    puts("}");
}

static void attach_and_detach(hn_module *module) {
    hn_debug *debug = NULL;
    must(hn_debug_attach(module, &(hn_debug_options){.level = HN_DEBUG_STATS, .path = "/dev/null"},
                         &debug));
    hn_debug_detach(debug);
}

int main(int argc, char **argv) {
    static contestant all[CONTESTANTS];
    const int threads = argc > 2 ? atoi(argv[2]) : 2, rounds = argc > 3 ? atoi(argv[3]) : 15;
    hn_compiled *compiled = NULL;
    if (argc < 2 || threads < 1 || rounds < 1 || rounds > ROUNDS_MOST) {
        fprintf(stderr, "usage: debugger MODEL [THREADS [ROUNDS]]\n");
        return 2;
    }
    if (!ends_in(argv[1], ".hnb"))
        must(hn_compile_file(argv[1], &(hn_compile_options){.threads = threads}, &compiled));
    for (int k = 0; k < CONTESTANTS; k++)
        all[k].module = load(argv[1], compiled, threads, k == 2 ? "stats,to=/dev/null" : "off");
    attach_and_detach(all[1].module);
    const uint32_t count = hn_module_input_count(all->module);
    if (count > INPUTS_MOST || hn_module_output_count(all->module) > OUTPUTS_MOST) {
        fprintf(stderr, "debugger: the model has too many inputs or outputs\n");
        return 1;
    }
    for (uint32_t k = 0; k < count; k++) inputs[k] = make_input(all->module, k);
    take_turns(all, rounds);
    report(all, threads, rounds);
    for (uint32_t k = 0; k < count; k++) hn_tensor_release(inputs[k]);
    for (int k = 0; k < CONTESTANTS; k++) hn_module_release(all[k].module);
    hn_compiled_release(compiled);
    return 0;
}
