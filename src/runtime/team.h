/* team.h: the threads that OpenMP regions of the calling thread use. Internal to src/runtime. */
#ifndef HN_RUNTIME_TEAM_H
#define HN_RUNTIME_TEAM_H

/* Makes them before the first region needs them, each on a processor of its own; later they go where the system puts them. In a child that
 * is forked afterwards regions have one thread. */
void hn_team_start(int threads);

/* Wakes them after a rest, and sends one that woke up on the caller's processor to another. */
void hn_team_wake(int threads);

#endif
