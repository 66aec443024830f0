// compile.cpp: the public API from C++: compiles a model and saves it.
#include <henry/henry.h>

#include <cstdio>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    hn_compile_options options = {};
    options.embed_weights = true;
    hn_compiled *compiled = nullptr;
    hn_status status = hn_compile_file(argv[1], &options, &compiled);
    if (!status) status = hn_compiled_save(compiled, argv[2]);
    hn_compiled_release(compiled);
    if (!status) return 0;
    std::fprintf(stderr, "compile: %s\n", hn_status_message(status));
    hn_status_free(status);
    return 1;
}
