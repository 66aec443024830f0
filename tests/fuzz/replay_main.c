/* replay_main.c: runs a fuzz target over the files and directories given, without libFuzzer. */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    uint8_t *data = malloc(16 << 20);
    size_t size = data ? fread(data, 1, 16 << 20, file) : 0;
    fclose(file);
    uint8_t *exact = malloc(size ? size : 1); /* exact size, so that sanitizers see over-reads */
    if (data && exact) {
        memcpy(exact, data, size);
        LLVMFuzzerTestOneInput(exact, size);
    }
    free(exact);
    free(data);
    return 0;
}

int main(int argc, char **argv) {
    int count = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            if (replay_file(argv[i]) == 0) count++;
            else failed++;
            continue;
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
            char path[PATH_MAX];
            if (entry->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            if (replay_file(path) == 0) count++;
            else failed++;
        }
        closedir(dir);
    }
    printf("%d passed, %d failed\n", count, failed);
    return failed != 0;
}
