/* process_tree.h: everything that a process has started and that still runs, whatever group or
 * session it moved to.
 *
 * A process whose parent has ended belongs to the nearest ancestor that takes such orphans in
 * (PR_SET_CHILD_SUBREAPER): below one of these nothing gets lost. Kernels that do not list children
 * (CONFIG_PROC_CHILDREN) show empty trees. */
#ifndef HN_BASE_PROCESS_TREE_H
#define HN_BASE_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The calling thread gets a core soon after it wakes, also among thousands of processes that run:
 * for one that sleeps most of the time. What it starts does not inherit this. */
void hn_process_tree_watcher(void);

/* Whether /proc shows the children of this process: else the caller's own tree can be killed, and
 * nothing can be counted. */
bool hn_process_tree_is_visible(void);

/* How many descendants of `root` run; stops counting at `most`. */
uint32_t hn_process_tree_count(pid_t root, uint32_t most);

/* Kills the descendants of `root`, but not itself nor the `spared` children of it with theirs,
 * until there are none or the time is over. True: none. Those that are children of the caller are
 * waited for. Safe in a signal handler. Where /proc is hidden: of the caller alone, if it takes
 * orphans in, and of a namespace's first process without sparing any. */
bool hn_process_tree_kill(pid_t root, const pid_t *spared, uint32_t spared_count, int32_t limit_ms);

/* Kills the processes of this user whose environment holds `variable` ("NAME=VALUE"): the orphans
 * of a process that died before they could be found below it. How many there were. */
uint32_t hn_process_kill_marked(const char *variable);

#endif
