/* run_bundle.c: what a program that only runs bundles looks like to the compiler and the linker:
 * public headers, libhenry_rt, nothing else. Runs a bundle of one f32 input on ones and prints the
 * outputs' bytes as hexadecimal sums.
 *
 *     run_bundle BUNDLE SIZE... */
#include <henry/henry.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hn_status run(const char *path, const int64_t *sizes, uint32_t rank) {
    hn_module *module;
    hn_tensor *input, *output = NULL;
    HN_TRY(hn_module_load_file(path, NULL, &module));
    hn_status status =
        hn_tensor_create(&(hn_tensor_desc){.type = HN_F32, .rank = rank, .sizes = sizes}, &input);
    if (!status) {
        float *at = hn_tensor_data(input);
        for (int64_t k = 0; k < hn_tensor_numel(input); k++) at[k] = (float)(k % 7) / 8;
        status = hn_module_run(module, &input, 1, &output, 1);
        hn_tensor_release(input);
    }
    for (int64_t k = 0; !status && k < hn_tensor_numel(output); k++) {
        unsigned bits;
        memcpy(&bits, (const float *)hn_tensor_data(output) + k, sizeof bits);
        printf("%08x%c", bits, k + 1 == hn_tensor_numel(output) ? '\n' : ' ');
    }
    hn_tensor_release(output);
    hn_module_release(module);
    return status;
}

int main(int argc, char **argv) {
    int64_t sizes[HN_TENSOR_MAX_RANK];
    if (argc < 2 || argc - 2 > HN_TENSOR_MAX_RANK) return 2;
    for (int k = 2; k < argc; k++) sizes[k - 2] = atoll(argv[k]);
    hn_status status = run(argv[1], sizes, (uint32_t)(argc - 2));
    if (!status) return 0;
    fprintf(stderr, "run_bundle: %s\n", hn_status_message(status));
    hn_status_free(status);
    return 1;
}
