/* nvrtc.c: makes machine code of the kernels by NVRTC, the library of CUDA's compiler, where the
 * project came without it or the kernels were changed. A program of the build, no part of the model.
 *
 *     nvrtc ARCHITECTURE KERNELS.cu CODE [OPTION]...
 *
 * NVRTC names the library; without it the loader finds libnvrtc.so (pip's nvidia-cuda-nvrtc has it,
 * too). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program program; /* nvrtcProgram */

static struct {
    int (*create)(program **out, const char *text, const char *name, int count,
                  const char *const *headers, const char *const *names);
    int (*compile)(program *p, int count, const char *const *options);
    int (*log_size)(program *p, size_t *out);
    int (*log)(program *p, char *out);
    int (*cubin_size)(program *p, size_t *out);
    int (*cubin)(program *p, char *out);
    int (*ptx_size)(program *p, size_t *out);
    int (*ptx)(program *p, char *out);
} nvrtc;

static void die(const char *what, const char *which) {
    fprintf(stderr, "nvrtc: %s%s%s\n", what, *which ? ": " : "", which);
    exit(1);
}

static void *open_library(void) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"};
    const char *wanted = getenv("NVRTC");
    void *handle = wanted && *wanted ? dlopen(wanted, RTLD_NOW) : NULL;
    if (wanted && *wanted && !handle) die("cannot load the library that NVRTC names", wanted);
    for (size_t k = 0; k < sizeof names / sizeof *names && !handle; k++)
        handle = dlopen(names[k], RTLD_NOW);
    if (!handle) die("there is no libnvrtc.so; name it in NVRTC, or use nvcc: make NVCC=nvcc", "");
    return handle;
}

static void load(void) {
    const struct {
        void *place; /* a pointer to function; all have one size and form here */
        const char *name;
    } functions[] = {
        {&nvrtc.create, "nvrtcCreateProgram"},       {&nvrtc.compile, "nvrtcCompileProgram"},
        {&nvrtc.log_size, "nvrtcGetProgramLogSize"}, {&nvrtc.log, "nvrtcGetProgramLog"},
        {&nvrtc.cubin_size, "nvrtcGetCUBINSize"},    {&nvrtc.cubin, "nvrtcGetCUBIN"},
        {&nvrtc.ptx_size, "nvrtcGetPTXSize"},        {&nvrtc.ptx, "nvrtcGetPTX"},
    };
    void *library = open_library();
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        void *address = dlsym(library, functions[k].name);
        if (!address) die("the library has no function", functions[k].name);
        memcpy(functions[k].place, &address, sizeof address);
    }
}

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes + 1);
    if (!memory) die("out of memory", "");
    return memory;
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) die("cannot read", path);
    const long bytes = ftell(file);
    char *text = allocate((size_t)bytes);
    rewind(file);
    if (fread(text, 1, (size_t)bytes, file) != (size_t)bytes) die("cannot read", path);
    fclose(file);
    return text;
}

static void compile(program *p, int count, const char *const *options) {
    size_t bytes = 0;
    const int failed = nvrtc.compile(p, count, options);
    if (!failed) return;
    nvrtc.log_size(p, &bytes);
    char *log = allocate(bytes);
    nvrtc.log(p, log);
    die("the kernels do not compile", log);
}

static void write_code(program *p, int is_ptx, const char *path) {
    size_t bytes = 0;
    if (is_ptx ? nvrtc.ptx_size(p, &bytes) : nvrtc.cubin_size(p, &bytes)) die("no code", path);
    char *code = allocate(bytes);
    if (is_ptx ? nvrtc.ptx(p, code) : nvrtc.cubin(p, code)) die("no code", path);
    if (is_ptx && bytes && !code[bytes - 1]) bytes--;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(code, 1, bytes, file) != bytes || fclose(file) != 0)
        die("cannot write", path);
    free(code);
}

int main(int argc, char **argv) {
    const char *options[64];
    char architecture[80];
    program *p = NULL;
    if (argc < 4 || argc > 64) die("usage: nvrtc ARCHITECTURE KERNELS.cu CODE [OPTION]...", "");
    load();
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", argv[1]);
    options[0] = architecture;
    for (int k = 4; k < argc; k++) options[k - 3] = argv[k];
    char *text = read_text(argv[2]);
    if (nvrtc.create(&p, text, argv[2], 0, NULL, NULL)) die("cannot make a program", "");
    compile(p, argc - 3, options);
    write_code(p, strncmp(argv[1], "compute_", 8) == 0, argv[3]);
    free(text);
    return 0;
}
