/* project.h: writing a project into a folder that may hold files of the user's own.
 *
 * The folder keeps a manifest, HN_PROJECT_MANIFEST: the name and the digest of each file that Henry
 * wrote. A file that is there may be replaced or removed only when its digest stands in the
 * manifest. Everything is compared before the first file is written. While files are written the
 * manifest has the digests from before and from after, so that a process which is killed leaves a
 * folder that the next one still knows as its own. */
#ifndef HN_DRIVER_PROJECT_H
#define HN_DRIVER_PROJECT_H

#include "base/arena.h"
#include "base/hash.h"
#include "henry/status.h"

#define HN_PROJECT_MANIFEST "henry-manifest.txt"

/* A file of the project. Its content is the parts, one after the other, so that weights need not be
 * gathered in memory. */
typedef struct hn_project_file {
    hn_str name; /* "lib/runtime/copy.c" */
    const hn_str *parts;
    uint32_t part_count;
    hn_digest digest; /* of the content */
} hn_project_file;

/* Borrows names and parts. */
typedef struct hn_project {
    hn_arena *arena;
    struct {
        hn_project_file *items;
        uint32_t count, cap;
    } files;
} hn_project;

hn_status hn_project_add(hn_project *project, hn_str name, const hn_str *parts,
                         uint32_t part_count) HN_MUST_USE;

/* What became of a file: "written", "unchanged", "removed" (an earlier export wrote it, this one
 * does not), or "kept" (the same, but it was edited since). */
typedef void (*hn_project_report)(void *context, const char *what, hn_str name);

/* Writes the files into `dir`, which is made when it is not there. A file that is right already
 * keeps its time. The file that was added last is removed first and written last: without it, what
 * an interruption leaves cannot be built. Symbolic links below `dir` are not followed. Processes
 * that write to the same folder take turns.
 * Errors: invalid-argument when a file of the user's is in the way, which the message names, and
 * nothing was written; io. */
hn_status hn_project_write(hn_project *project, const char *dir, hn_project_report report,
                           void *context) HN_MUST_USE;

#endif
