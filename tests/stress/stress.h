/* stress.h: what the programs of `make stress` share: options, random numbers, and the rows of
 * their table.
 *
 *     stress_NAME [--quick] [--seed N] [--rounds N] [--seconds N] [TEST]
 *
 * Without options a program does what the table of docs/reliability.md asks for; --quick is the
 * short form of `make test`. A line that begins with "row|" is a row: what | asked | reached | seed
 * | seconds. */
#ifndef HN_TESTS_STRESS_H
#define HN_TESTS_STRESS_H

#include "base/file.h"
#include "base/trace.h"
#include "unit/harness.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static struct stress_options {
    bool is_quick;
    uint64_t seed;
    long rounds;  /* 0: as many as asked for */
    long seconds; /* the same */
    int64_t begin_ns;
} stress = {.seed = 1};

/* How many rounds: what the command line says, else the full number or the short one. */
static inline long stress_rounds(long full, long quick) {
    return stress.rounds ? stress.rounds : stress.is_quick ? quick : full;
}
static inline long stress_seconds(long full, long quick) {
    return stress.seconds ? stress.seconds : stress.is_quick ? quick : full;
}

/* splitmix64 */
static inline uint64_t stress_next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* From 0 to `count` - 1. */
static inline uint64_t stress_below(uint64_t *state, uint64_t count) {
    return stress_next(state) % count;
}

static inline void stress_sleep_us(int64_t us) {
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* Begins what the next row tells of. */
static inline void stress_begin(void) { stress.begin_ns = hn_now_ns(); }

static inline void stress_row(const char *what, const char *asked, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline void stress_row(const char *what, const char *asked, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("row|%s|%s|", what, asked);
    vprintf(format, args);
    printf("|%llu|%.1f\n", (unsigned long long)stress.seed,
           (double)(hn_now_ns() - stress.begin_ns) / 1e9);
    fflush(stdout);
    va_end(args);
}

/* How many files and folders lie in a folder; 0 when there is none. */
static inline long stress_count_files(const char *dir, const char *below) {
    char path[PATH_MAX + 64];
    long count = 0;
    snprintf(path, sizeof(path), "%s/%s", dir, below);
    DIR *list = opendir(path);
    if (!list) return 0;
    for (struct dirent *entry; (entry = readdir(list));) count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}

/* The one fill of every payload: `len` bytes that follow from `seed`, which itself stands in front.
 */
static inline void stress_fill(uint8_t *bytes, size_t len, uint64_t seed) {
    uint64_t state = seed;
    if (len < sizeof(seed)) return;
    memcpy(bytes, &seed, sizeof(seed));
    for (size_t at = sizeof(seed); at < len; at += 8) {
        uint64_t word = stress_next(&state);
        memcpy(bytes + at, &word, len - at < 8 ? len - at : 8);
    }
}

static inline int stress_main(int argc, char **argv) {
    char *words[2] = {argv[0], NULL};
    int count = 1;
    for (int i = 1; i < argc; i++) {
        long *number = strcmp(argv[i], "--rounds") == 0    ? &stress.rounds
                       : strcmp(argv[i], "--seconds") == 0 ? &stress.seconds
                                                           : NULL;
        if (strcmp(argv[i], "--quick") == 0) {
            stress.is_quick = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            stress.seed = strtoull(argv[++i], NULL, 10);
        } else if (number && i + 1 < argc) {
            *number = strtol(argv[++i], NULL, 10);
        } else if (argv[i][0] != '-' && count == 1) {
            words[count++] = argv[i];
        } else {
            fprintf(stderr, "usage: %s [--quick] [--seed N] [--rounds N] [--seconds N] [TEST]\n",
                    argv[0]);
            return 2;
        }
    }
    stress_begin();
    return hn_test_main(count, words);
}

#endif
