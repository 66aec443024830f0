/* source_files.h: the texts that emitted projects are made of, inside the library. The table is
 * written by CMakeLists.txt from share/source and the files of the runtime that come along. */
#ifndef HN_DRIVER_SOURCE_FILES_H
#define HN_DRIVER_SOURCE_FILES_H

/* Projects that have a text: whose host calls operations of the runtime; for a device; for the host
 * alone. 0: all. */
enum { HN_TEXT_EXTERNS = 1, HN_TEXT_DEVICE = 2, HN_TEXT_HOST = 4 };

typedef struct hn_source_text {
    /* in the project: "support.c", "lib/ops/cpu/gemm/gemm.c"; NULL ends the table */
    const char *path;
    const char *begin, *end;
    unsigned wanted_by;
} hn_source_text;

extern const hn_source_text hn_source_texts[];

#endif
