/* threads.c: the public face of the process's workers (base/team.h). */
#include "base/team.h"

hn_status hn_threads_limit_set(int workers) {
    if (workers < 0 || workers >= HN_THREADS_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a process cannot have %d workers; give 0 to %d",
                        workers, HN_THREADS_MAX - 1);
    hn_team_limit_set(workers);
    return NULL;
}

int hn_threads_limit_get(void) { return hn_team_limit_get(); }
int hn_threads_count(void) { return hn_team_workers(); }
void hn_threads_stop(void) { hn_team_stop(); }
