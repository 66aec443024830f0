/* scratch.h: the directories in which workers put temporary files, and how they go away. */
#ifndef HN_SERVICE_SCRATCH_H
#define HN_SERVICE_SCRATCH_H

#include <limits.h>
#include <stdint.h>

/* A name in hn_dir_temp_root() that nobody has: the directory is made by the job that needs one.
 * "": the path is too long. */
void hn_scratch_name(char out[PATH_MAX]);

/* Removes one, with what is in it, while others may still be writing there: tries for `limit_ms`.
 * Never follows symbolic links. Safe in a signal handler. */
void hn_scratch_remove(const char *path, int32_t limit_ms);

/* Removes those of this user that nobody has touched for `age_s` seconds: of workers that were
 * killed with their program. A few at a time: the next program goes on. */
void hn_scratch_sweep(int64_t age_s);

#endif
