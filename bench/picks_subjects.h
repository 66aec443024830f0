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

typedef struct picks_cells {
    const picks_subject *subjects;
    uint32_t subject_count;
    const picks_size *sizes;
    uint32_t size_count;
} picks_cells;

extern const picks_cells picks_of_cpu, picks_of_gpu;

#endif
