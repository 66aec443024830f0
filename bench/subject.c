/* subject.c: one model under Henry, for peers.py: loads, then times runs when told to on stdin.
 *
 *     subject MODEL.pt2 THREADS EXPECTED.npy INPUT.npy...
 *
 * Prints one JSON line when ready, then one line with N times in milliseconds for each line "N"
 * that it reads. */
#include "base/file.h"
#include "base/npy.h"
#include "base/trace.h"
#include "henry/henry.h"
#include "ir/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 8, MAX_OUTPUTS = 8 };

typedef struct subject {
    hn_module *module;
    hn_compile_stats stats;
    hn_tensor *inputs[MAX_INPUTS], *outputs[MAX_OUTPUTS];
    uint32_t input_count, output_count;
    double load_ms, first_ms, worst;
} subject;

static hn_status load(subject *s, const char *path, int threads) {
    hn_compiled *compiled;
    int64_t begin = hn_now_ns();
    HN_TRY(hn_compile_file(path, &(hn_compile_options){.threads = threads}, &compiled));
    hn_compiled_stats_get(compiled, &s->stats);
    hn_status status =
        hn_compiled_load(compiled, &(hn_module_options){.threads = threads}, &s->module);
    hn_compiled_release(compiled);
    s->load_ms = (double)(hn_now_ns() - begin) / 1e6;
    s->output_count = status ? 0 : hn_module_output_count(s->module);
    return s->output_count > MAX_OUTPUTS
               ? HN_ERROR(HN_UNSUPPORTED, "too many outputs for the benchmark")
               : status;
}

/* Elements of a file as `type`; it has none of bf16, which floats stand for. */
static void copy_elements(const hn_npy *npy, hn_scalar_type type, hn_tensor *out) {
    if (type != HN_BF16) {
        hn_npy_copy(npy, hn_tensor_data(out));
        return;
    }
    float *wide = malloc((size_t)hn_tensor_numel(out) * sizeof *wide + 1);
    uint16_t *narrow = hn_tensor_data(out);
    if (!wide) exit(1);
    hn_npy_copy(npy, wide);
    for (int64_t k = 0; k < hn_tensor_numel(out); k++) narrow[k] = hn_f32_to_bf16(wide[k]);
    free(wide);
}

/* float32, int64 and bf16 are all that the benchmark models take and give. */
static hn_status read_tensor(const char *path, hn_scalar_type wanted, hn_tensor **out) {
    hn_file_map map;
    hn_npy npy;
    HN_TRY(hn_file_map_init(&map, path));
    hn_status status = hn_npy_parse(map.data, map.size_bytes, &npy);
    hn_scalar_type type = status                          ? HN_NO_TYPE
                          : strcmp(npy.descr, "<f4") == 0 ? HN_F32
                          : strcmp(npy.descr, "<i8") == 0 ? HN_I64
                                                          : HN_NO_TYPE;
    if (!status && type == HN_NO_TYPE)
        status = HN_ERROR(HN_UNSUPPORTED, "elements of type '%s'", npy.descr);
    if (type == HN_F32 && wanted == HN_BF16) type = wanted;
    if (!status)
        status = hn_tensor_create(
            &(hn_tensor_desc){.type = type, .rank = npy.rank, .sizes = npy.sizes}, out);
    if (!status) copy_elements(&npy, type, *out);
    hn_file_map_deinit(&map);
    return hn_status_annotate(status, "cannot read '%s'", path);
}

static hn_status read_input(subject *s, const char *path) {
    hn_module_value_info info;
    HN_TRY(hn_module_input_info(s->module, s->input_count, &info));
    HN_TRY(read_tensor(path, info.type, &s->inputs[s->input_count]));
    s->input_count++;
    return NULL;
}

static hn_status run(subject *s, double *out_ms) {
    int64_t begin = hn_now_ns();
    HN_TRY(hn_module_run(s->module, s->inputs, s->input_count, s->outputs, s->output_count));
    *out_ms = (double)(hn_now_ns() - begin) / 1e6;
    return NULL;
}

static double element(const hn_tensor *t, int64_t k) {
    if (hn_tensor_type(t) == HN_BF16)
        return (double)hn_bf16_to_f32(((const uint16_t *)hn_tensor_data(t))[k]);
    return (double)((const float *)hn_tensor_data(t))[k];
}

/* The largest difference of output 0, in units of what is allowed: 1e-5 + 1e-4 of the value, of
 * bf16 2^-8. */
static hn_status compare(subject *s, const hn_tensor *expected) {
    int64_t count = hn_tensor_numel(expected);
    const hn_scalar_type type = hn_tensor_type(s->outputs[0]);
    const double relative = type == HN_BF16 ? 0x1p-8 : 1e-4;
    if (hn_tensor_numel(s->outputs[0]) != count || (type != HN_F32 && type != HN_BF16) ||
        hn_tensor_type(expected) != HN_F32)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "output 0 has another shape or type than the expected array");
    for (int64_t k = 0; k < count; k++) {
        const double want = element(expected, k);
        double part = fabs(element(s->outputs[0], k) - want) / (1e-5 + relative * fabs(want));
        if (!(part <= s->worst)) s->worst = part;
    }
    return NULL;
}

static hn_status serve(subject *s) {
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        int count = atoi(line);
        for (int k = 0; k < count; k++) {
            double ms;
            HN_TRY(run(s, &ms));
            printf("%.6f ", ms);
        }
        printf("\n");
        fflush(stdout);
    }
    return NULL;
}

/* A line of /proc/self/status, such as "VmHWM:", in bytes; 0 when there is none. */
static int64_t own_memory(const char *name) {
    char line[128];
    long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0) sscanf(line + strlen(name), "%lld", &kib);
    if (f) fclose(f);
    return kib * 1024;
}

static void print_ready(const subject *s) {
    hn_module_stats m;
    hn_module_stats_get(s->module, &m);
    printf("{\"load_ms\": %.3f, \"first_ms\": %.3f, \"error\": %.4f", s->load_ms, s->first_ms,
           s->worst);
    printf(", \"import_ms\": %.3f, \"opt_ms\": %.3f, \"lower_ms\": %.3f",
           (double)s->stats.import_ns / 1e6, (double)s->stats.opt_ns / 1e6,
           (double)s->stats.lower_ns / 1e6);
    printf(", \"sched_ms\": %.3f, \"codegen_ms\": %.3f, \"bundle_ms\": %.3f",
           (double)s->stats.sched_ns / 1e6, (double)s->stats.codegen_ns / 1e6,
           (double)s->stats.bundle_ns / 1e6);
    printf(", \"kernels\": %u, \"unique\": %u, \"extern\": %u", s->stats.kernels_generated,
           s->stats.kernels_unique, s->stats.kernels_extern);
    printf(", \"workspace\": %llu, \"mapped\": %llu, \"copied\": %llu, \"packed\": %llu",
           (unsigned long long)m.peak_workspace_bytes, (unsigned long long)m.weights_mapped_bytes,
           (unsigned long long)m.weights_copied_bytes, (unsigned long long)m.weights_packed_bytes);
    printf(", \"peak\": %lld, \"peak_file\": %lld}\n", (long long)own_memory("VmHWM:"),
           (long long)own_memory("RssFile:"));
    fflush(stdout);
}

static hn_status start(subject *s, int argc, char **argv) {
    hn_tensor *expected;
    HN_TRY(load(s, argv[1], atoi(argv[2])));
    for (int k = 4; k < argc; k++) HN_TRY(read_input(s, argv[k]));
    HN_TRY(run(s, &s->first_ms));
    HN_TRY(read_tensor(argv[3], HN_F32, &expected));
    hn_status status = compare(s, expected);
    hn_tensor_release(expected);
    if (!status) print_ready(s);
    return status;
}

int main(int argc, char **argv) {
    static subject s;
    if (argc < 5 || argc - 4 > MAX_INPUTS) {
        fprintf(stderr, "usage: subject MODEL.pt2 THREADS EXPECTED.npy INPUT.npy...\n");
        return 2;
    }
    hn_status status = start(&s, argc, argv);
    if (!status) status = serve(&s);
    if (status) fprintf(stderr, "subject: %s\n", hn_status_message(status));
    int failed = status != NULL;
    hn_status_free(status);
    for (uint32_t k = 0; k < s.input_count; k++) hn_tensor_release(s.inputs[k]);
    for (uint32_t k = 0; k < s.output_count; k++) hn_tensor_release(s.outputs[k]);
    hn_module_release(s.module);
    return failed;
}
