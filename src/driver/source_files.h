/* source_files.h: the texts that emitted projects are made of, inside the library. The table is
 * written by CMakeLists.txt from share/source and the files of the runtime that come along. */
#ifndef HN_DRIVER_SOURCE_FILES_H
#define HN_DRIVER_SOURCE_FILES_H

#include <stdbool.h>

typedef struct hn_source_text {
    /* in the project: "support.c", "lib/ops/cpu/gemm/gemm.c"; NULL ends the table */
    const char *path;
    const char *begin, *end;
    bool for_externs; /* only for programs that call operations of the runtime */
} hn_source_text;

extern const hn_source_text hn_source_texts[];

#endif
