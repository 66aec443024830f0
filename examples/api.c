/* api.c: the C API, task by task. docs/api.md explains these functions with the same lines.
 *
 *     cc api.c $(pkg-config --cflags --libs henry) -o api && ./api data/digits/model.pt2 */
#include <henry/bench.h>
#include <henry/henry.h>

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE = 64, MAX_INPUTS = 16, MAX_OUTPUTS = 16 };

/* ---- load ---- */

static hn_status load(const char *path, hn_module **out_module) {
    hn_module_options options = {.threads = 2, .verify_weights = false};
    return hn_module_load_file(path, &options, out_module);
}

/* ---- inputs and outputs by name ---- */

static hn_status run_by_name(hn_module *module, hn_tensor *image) {
    hn_tensor *inputs[MAX_INPUTS] = {NULL}, *outputs[MAX_OUTPUTS] = {NULL};
    uint32_t x, y;
    HN_TRY(hn_module_input_find(module, "input", &x));
    HN_TRY(hn_module_output_find(module, "softmax", &y));
    inputs[x] = image;
    HN_TRY(hn_module_run(module, inputs, hn_module_input_count(module), outputs,
                         hn_module_output_count(module)));
    printf("first number of '%s': %g\n", "softmax",
           (double)*(const float *)hn_tensor_data(outputs[y]));
    hn_tensor_release(outputs[y]);
    return NULL;
}

/* ---- data that is only read ---- */

static hn_status make_constant(const float *pixels, hn_tensor **out_image) {
    const int64_t sizes[4] = {1, 1, 8, 8};
    hn_tensor_desc desc = {.type = HN_F32, .rank = 4, .sizes = sizes};
    return hn_tensor_create_const(&desc, pixels, out_image);
}

/* ---- sizes before a run ---- */

static hn_status print_symbols(const hn_module *module) {
    for (uint32_t k = 0; k < hn_module_symbol_count(module); k++) {
        hn_module_symbol_info s;
        HN_TRY(hn_module_symbol_info_get(module, k, &s));
        printf("%s is %" PRId64 " to %" PRId64, s.name, s.min, s.max);
        if (!s.is_data) printf(", from dimension %u of input %u", s.dim, s.input);
        printf("\n");
    }
    for (uint32_t k = 0; k < hn_module_guard_count(module); k++) {
        hn_module_guard_info g;
        HN_TRY(hn_module_guard_info_get(module, k, &g));
        printf("must hold: %s\n", g.text);
    }
    return NULL;
}

static hn_status print_output_sizes(const hn_module *module, int64_t batch) {
    const int64_t sizes[4] = {batch, 1, 8, 8};
    const hn_input_sizes input = {.rank = 4, .sizes = sizes};
    hn_output_sizes output;
    HN_TRY(hn_module_output_sizes(module, &input, 1, &output, 1));
    printf("a batch of %" PRId64 " gives %" PRId64 " x %" PRId64 "\n", batch, output.sizes[0],
           output.sizes[1]);
    return NULL;
}

/* ---- states ---- */

static hn_status run_two_sequences(hn_module *module, hn_tensor **inputs, uint32_t input_count,
                                   hn_tensor **outputs, uint32_t output_count) {
    hn_state *first, *second;
    HN_TRY(hn_state_create(module, &first));
    hn_status status = hn_state_create(module, &second);
    if (!status) {
        hn_run_options with_first = {.state = first}, with_second = {.state = second};
        status =
            hn_module_run_with(module, &with_first, inputs, input_count, outputs, output_count);
        if (!status)
            status = hn_module_run_with(module, &with_second, inputs, input_count, outputs,
                                        output_count);
        if (!status) status = hn_state_reset(first); /* for the next sequence */
        hn_state_destroy(second);
    }
    hn_state_destroy(first);
    return status;
}

/* ---- weights ---- */

static hn_status print_weights(const hn_module *module) {
    for (uint32_t k = 0; k < hn_module_weight_count(module); k++) {
        hn_module_weight_info w;
        HN_TRY(hn_module_weight_info_get(module, k, &w));
        printf("%s: %s, %" PRIu64 " bytes%s\n", w.name, hn_scalar_type_name(w.type), w.bytes,
               w.is_folded ? ", part of the program" : "");
    }
    return NULL;
}

static hn_status replace_bias(hn_module *module, const float *ten_numbers) {
    const int64_t sizes[1] = {10};
    hn_tensor_desc desc = {.type = HN_F32, .rank = 1, .sizes = sizes};
    hn_named_tensor bias = {.name = "11.bias"};
    HN_TRY(hn_tensor_create_const(&desc, ten_numbers, &bias.tensor));
    hn_status status = hn_module_weights_replace(module, &bias, 1, false);
    hn_tensor_release(bias.tensor);
    return status;
}

/* ---- memory ---- */

static void *own_alloc(void *context, size_t bytes, size_t alignment) {
    *(size_t *)context += bytes; /* one thread only: count atomically in a server */
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void own_free(void *context, void *memory) {
    (void)context;
    free(memory);
}

static hn_status load_with_allocator(const char *path, size_t *counter, hn_module **out_module) {
    hn_allocator allocator = {.context = counter, .alloc = own_alloc, .free = own_free};
    hn_module_options options = {.allocator = &allocator};
    return hn_module_load_file(path, &options, out_module);
}

/* ---- cancelling ---- */

static hn_cancel *interrupted;
static void on_interrupt(int number) {
    (void)number;
    hn_cancel_set(interrupted); /* may be called in a signal handler */
}

static hn_status run_until_interrupted(hn_module *module, hn_tensor **inputs, uint32_t input_count,
                                       hn_tensor **outputs, uint32_t output_count) {
    HN_TRY(hn_cancel_create(&interrupted));
    void (*before)(int) = signal(SIGINT, on_interrupt);
    hn_run_options options = {.cancel = interrupted, .threads = 1};
    hn_status status =
        hn_module_run_with(module, &options, inputs, input_count, outputs, output_count);
    (void)signal(SIGINT, before);
    hn_cancel_destroy(interrupted);
    return status;
}

/* ---- every step ---- */

/* After each step: are all numbers that it has written finite? */
static hn_status check_step(void *user, const hn_step_info *step, uint64_t *note) {
    (void)user, (void)note;
    for (uint32_t k = 0; k < step->operand_count; k++) {
        hn_step_operand o;
        HN_TRY(hn_step_operand_get(step, k, &o));
        if (!o.buffer || !o.is_written || !o.has_shape || o.type != HN_F32) continue;
        int64_t last = 0;
        for (uint32_t d = 0; d < o.rank; d++)
            last = o.sizes[d] && last >= 0 ? last + (o.sizes[d] - 1) * o.strides[d] : -1;
        for (int64_t e = 0; e <= last; e++) /* on the CPU; see hn_step_operand_read for others */
            if (!isfinite(((const float *)o.data)[e]))
                return HN_ERROR(HN_INTERNAL, "'%s' has written a number that is not finite",
                                step->name);
    }
    return NULL;
}

static hn_status run_checked(hn_module *module, hn_tensor **inputs, uint32_t input_count,
                             hn_tensor **outputs, uint32_t output_count) {
    hn_step_hook hook = {.after = check_step};
    HN_TRY(hn_module_hook_add(module, &hook));
    hn_status status = hn_module_run(module, inputs, input_count, outputs, output_count);
    return status ? status : hn_module_hook_remove(module, &hook);
}

/* ---- errors ---- */

static void report(hn_status status) {
    if (hn_status_code(status) == HN_UNSUPPORTED) printf("not possible: ");
    printf("%s\n", hn_status_message(status));
    hn_status_free(status);
}

/* ---- all of this with the digits model ---- */

/* ---- runs that are begun and ended ---- */

/* Two runs at the same time, of one thread. */
static hn_status run_both(hn_module *module, hn_tensor **first, hn_tensor **second,
                          uint32_t input_count, hn_tensor **outputs) {
    hn_run *a, *b;
    HN_TRY(hn_run_begin(module, NULL, first, input_count, &outputs[0], 1, &a));
    hn_status status = hn_run_begin(module, NULL, second, input_count, &outputs[1], 1, &b);
    if (!status) status = hn_run_end(b);
    hn_status other = hn_run_end(a);
    if (!status) return other;
    hn_status_free(other);
    return status;
}

/* ---- which is faster ---- */

/* A module that is called with a number of threads. */
typedef struct call {
    hn_module *module;
    hn_tensor *input, *output;
    int threads;
} call;

static hn_status run_call(void *user) {
    call *c = user;
    const hn_run_options options = {.threads = c->threads};
    return hn_module_run_with(c->module, &options, &c->input, 1, &c->output, 1);
}

/* Is a second thread worth it? */
static hn_status print_faster(hn_module *module, hn_tensor *input) {
    call one = {module, input, NULL, 1}, two = {module, input, NULL, 2};
    const hn_bench_candidate ways[] = {{.name = "one thread", .run = run_call, .user = &one},
                                       {.name = "two threads", .run = run_call, .user = &two}};
    const hn_bench_options options = {.budget_ns = 100000000, .noise = 0.05};
    hn_bench_report *report;
    hn_status status = hn_bench(&options, ways, 2, &report);
    hn_tensor_release(one.output);
    hn_tensor_release(two.output);
    if (status) return status;
    const hn_bench_result *won = &report->results[report->winner];
    printf("%s: %.1f us\n", won->name, won->median_ns / 1e3);
    hn_bench_report_destroy(report);
    return NULL;
}

/* ---- all of it ---- */

static hn_status use_module(hn_module *module) {
    static float pixels[IMAGE];
    static const float bias[10] = {0};
    hn_tensor *image, *output = NULL;
    HN_TRY(print_symbols(module));
    HN_TRY(print_output_sizes(module, 5));
    HN_TRY(print_weights(module));
    HN_TRY(replace_bias(module, bias));
    HN_TRY(make_constant(pixels, &image));
    hn_status status = run_by_name(module, image);
    if (!status) status = run_until_interrupted(module, &image, 1, &output, 1);
    hn_tensor_release(output);
    output = NULL;
    if (!status) status = run_checked(module, &image, 1, &output, 1);
    hn_tensor_release(output);
    output = NULL;
    if (!status) status = run_two_sequences(module, &image, 1, &output, 1);
    hn_tensor_release(output);
    hn_tensor *both[2] = {NULL, NULL};
    if (!status) status = run_both(module, &image, &image, 1, both);
    hn_tensor_release(both[0]);
    hn_tensor_release(both[1]);
    if (!status) status = print_faster(module, image);
    hn_tensor_release(image);
    if (!status) report(hn_module_weights_load(module, "no-such-file.safetensors"));
    return status;
}

static hn_status run(const char *model, const char *bundle) {
    hn_compiled *compiled;
    hn_module *module;
    size_t counter = 0;
    hn_compile_options options = {.embed_weights = true};
    HN_TRY(hn_compile_file(model, &options, &compiled));
    hn_status status = hn_compiled_save(compiled, bundle);
    hn_compiled_release(compiled);
    if (status) return status;
    HN_TRY(load(bundle, &module));
    status = use_module(module);
    hn_module_release(module);
    if (status) return status;
    HN_TRY(load_with_allocator(bundle, &counter, &module));
    status = use_module(module);
    hn_module_release(module);
    printf("%zu bytes came from the caller's allocator\n", counter);
    return status;
}

int main(int argc, char **argv) {
    hn_status status =
        run(argc > 1 ? argv[1] : "examples/data/digits/model.pt2", argc > 2 ? argv[2] : "api.hnb");
    if (!status) return 0;
    report(status);
    return 1;
}
