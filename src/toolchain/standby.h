/* standby.h: tools that stand by: started and initialised once for a command line. Each job is done
 * by a child of the tool.
 *
 * For a worker only, which runs one tool at a time. The result of a run is the same, byte for byte,
 * as that of a process of its own; tests compare them. Whatever goes wrong with standing by makes a
 * run "not done", and the caller starts the tool in the ordinary way. Not for other folders, except
 * for making and ending. */
#ifndef HN_TOOLCHAIN_STANDBY_H
#define HN_TOOLCHAIN_STANDBY_H

#include "henry/status.h"
#include "toolchain/standby_wire.h"
#include "toolchain/tool.h"

#include <sys/types.h>

/* Threads: one at a time. */
typedef struct hn_standby hn_standby;

hn_status hn_standby_create(hn_standby **out) HN_MUST_USE;
/* Ends the tools. NULL is allowed. */
void hn_standby_destroy(hn_standby *standby);
/* Process ids of the tools that stand by now; returns how many. */
enum { HN_STANDBY_TOOLS = 8 }; /* at most; a set of flags needs three */
uint32_t hn_standby_pids(const hn_standby *standby, pid_t out[HN_STANDBY_TOOLS]);

/* Runs `run` by a tool that stands by, which is started when there is none for these arguments and
 * this environment. The arguments call the input HN_STANDBY_INPUT, and the output HN_STANDBY_OUTPUT
 * unless it is standard output; `run->stdin_fd` and `run->stdout_fd` are what the job gets for
 * them. `input_text`, if not NULL, is standard input of the tool while it is initialised. False:
 * not done. Else `errors` and `*out_exit` are as from hn_tool_run_wait. */
bool hn_standby_run(hn_standby *standby, const hn_tool_run *run, const char *input_text,
                    hn_strbuf *errors, int *out_exit);

#endif
