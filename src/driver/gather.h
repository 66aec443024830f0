/* gather.h: a project of `henry compile --emit source` on its way: source.c, source_code.c,
 * source_stats.c. */
#ifndef HN_DRIVER_GATHER_H
#define HN_DRIVER_GATHER_H

#include "driver/driver.h"
#include "driver/project.h"
#include "wrapper/to_source.h"

typedef struct hn_gathering {
    hn_driver *driver;
    hn_project files;
    hn_to_source source;
    /* per file of source.code_files and source.stats_files: machine code; empty: the project makes
     * it */
    hn_str *code, *stats;
} hn_gathering;

/* Adds a file; name and text are copied. */
hn_status hn_gathering_add(hn_gathering *g, hn_str name, hn_str text) HN_MUST_USE;

/* source_code.c: of a project for a GPU. Before the wrapper is made: the units, compiled if the
 * compiler is there, and the names of their files. */
hn_status hn_gathering_compile(hn_gathering *g) HN_MUST_USE;
/* Behind it: files of the kernels' text, of machine code, and kernels.c, which has that. */
hn_status hn_gathering_add_code(hn_gathering *g) HN_MUST_USE;
/* How the name of a file of machine code ends. */
const char *hn_gathering_code_kind(const hn_target *target);

/* source_stats.c: the kernels of the project's debugger. Names their files, of which none has
 * content yet. */
hn_status hn_gathering_stats_name(hn_gathering *g) HN_MUST_USE;
/* Gives them to the compiler, and waits for it. `futures`: one for each target, of the scope. */
hn_status hn_gathering_stats_submit(hn_gathering *g, hn_future **futures) HN_MUST_USE;
hn_status hn_gathering_stats_take(hn_gathering *g, hn_future *const *futures) HN_MUST_USE;
hn_status hn_gathering_stats_add(hn_gathering *g) HN_MUST_USE;

#endif
