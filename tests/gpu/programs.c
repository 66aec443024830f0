/* programs.c: the programs of the pack for machines with a GPU (tools/gpu_pack.sh) as one, since
 * each holds the whole library. It is what it is called, by a link of that name, or what its first
 * argument says; `--names` lists what there is. */
#include <stdio.h>
#include <string.h>

/* HN_PROGRAMS: PROGRAM(NAME) for each one (CMakeLists.txt), whose main is NAME_main. */
#define PROGRAM(name) int name##_main(int argc, char **argv);
HN_PROGRAMS
#undef PROGRAM

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} programs[] = {
#define PROGRAM(name) {#name, name##_main},
    HN_PROGRAMS
#undef PROGRAM
};

enum { COUNT = sizeof(programs) / sizeof(*programs) };

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* COUNT: there is none of that name. */
static size_t find(const char *path) {
    size_t k = 0;
    while (k < COUNT && strcmp(programs[k].name, file_name(path)) != 0) k++;
    return k;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--names") && find(argv[0]) == COUNT) {
        for (size_t k = 0; k < COUNT; k++) puts(programs[k].name);
        return 0;
    }
    for (int first = 0; first < 2 && first < argc; first++) {
        const size_t k = find(argv[first]);
        if (k < COUNT) return programs[k].run(argc - first, argv + first);
    }
    fprintf(stderr, "no program is called '%s'; '%s --names' lists them\n",
            file_name(argv[argc > 1]), argv[0]);
    return 2;
}
