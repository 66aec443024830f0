/* team.c: threads of a team start spread over the processors.
 *
 * A new thread is often put on the processor of its maker. There it waits for milliseconds, as the maker spins for it in
 * libgomp's barrier, and the first steps of a process run at half their speed. So the maker sleeps until its threads have
 * come, and each of them goes to a free processor by narrowing its own mask for a moment.
 *
 * The same happens to threads that slept: often one wakes up on the processor of the caller, who then spins for it (3 to 7 ms with
 * 2 processors, or several runs of a small model at half their speed). So a caller that has been away wakes them in this way first.
 *
 * A child that is forked has none of these threads, and libgomp would wait for them for ever: there, regions run on the caller alone. */
#include "runtime/team.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>

/* The calling thread to the processor that is `steps` places behind `from` among the allowed ones. Best effort. */
static void move_on(const cpu_set_t *allowed, int from, int steps) {
    int count = CPU_COUNT(allowed), cpu = from;
    if (count < 2 || from < 0 || from >= CPU_SETSIZE || steps % count == 0) return;
    for (int left = steps % count; left > 0; left -= CPU_ISSET(cpu, allowed) != 0) cpu = (cpu + 1) % CPU_SETSIZE;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) (void)sched_setaffinity(0, sizeof *allowed, allowed);
}

/* The team's threads, each on a processor of its own; always: wherever they are now. */
static void spread(int threads, bool always) {
    cpu_set_t allowed;
    sem_t arrived;
    if (threads == 1 || sched_getaffinity(0, sizeof allowed, &allowed) || sem_init(&arrived, 0, 0)) return;
    const int cpu = sched_getcpu();
#pragma omp parallel num_threads(threads)
    {
        const int rank = omp_get_thread_num();
        int others = rank == 0 ? omp_get_num_threads() - 1 : 0;
        if (rank > 0) {
            if (always || sched_getcpu() == cpu) move_on(&allowed, cpu, rank);
            sem_post(&arrived);
        }
        while (others > 0) others -= sem_wait(&arrived) == 0; /* again after a signal */
    }
    sem_destroy(&arrived);
}

static void work_alone(void) { omp_set_max_active_levels(0); }
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, work_alone); /* without memory for it a child must not run modules */ }

void hn_team_start(int threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (threads > 1) pthread_once(&once, watch_forks);
    spread(threads, true);
}
void hn_team_wake(int threads) { spread(threads, false); }
