/* terse.c: compile a model and run it, in as few lines as possible.
 *
 *     cc terse.c $(pkg-config --cflags --libs henry) -o terse && ./terse data/digits/model.pt2 */
#include <henry/henry.h>

#include <stdio.h>
#include <stdlib.h>

static void check(hn_status status) {
    if (!status) return;
    fprintf(stderr, "terse: %s\n", hn_status_message(status));
    exit(1);
}

int main(int argc, char **argv) {
    hn_compiled *compiled;
    hn_module *module;
    hn_tensor *input, *output = NULL;
    static float image[64];
    for (int k = 0; k < 8; k++) image[8 * k + 4] = 1; /* a stroke from top to bottom */

    check(hn_compile_file(argc > 1 ? argv[1] : "examples/data/digits/model.pt2", NULL, &compiled));
    check(hn_compiled_load(compiled, NULL, &module));
    hn_compiled_release(compiled);

    int64_t sizes[] = {1, 1, 8, 8};
    check(hn_tensor_create(
        &(hn_tensor_desc){.type = HN_F32, .rank = 4, .sizes = sizes, .data = image}, &input));
    check(hn_module_run(module, &input, 1, &output, 1));

    const float *probability = hn_tensor_data(output);
    for (int k = 0; k < 10; k++) printf("%d: %5.1f %%\n", k, 100.0 * (double)probability[k]);

    hn_tensor_release(input);
    hn_tensor_release(output);
    hn_module_release(module);
    return 0;
}
