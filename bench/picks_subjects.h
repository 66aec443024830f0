/* picks_subjects.h: the kernels and sizes of bench_picks. In a text R, C and H stand for rows,
 * columns and half of the columns. */
#ifndef HN_BENCH_PICKS_SUBJECTS_H
#define HN_BENCH_PICKS_SUBJECTS_H

#include <stdint.h>

typedef struct picks_subject {
    const char *name, *text;
} picks_subject;

typedef struct picks_size {
    int64_t rows, columns;
} picks_size;

extern const picks_subject picks_subjects[];
extern const uint32_t picks_subject_count;
extern const picks_size picks_sizes[];
extern const uint32_t picks_size_count;

#endif
