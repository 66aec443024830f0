/* flags.h: the flags that a job may give to a compiler. There is one table of them, for all
 * languages: a flag that is not in it is refused, since no list of forbidden flags covers every
 * spelling of what runs a program, reads or writes a file that nobody knows of, or means "this
 * machine". Not for other folders. */
#ifndef HN_TOOLCHAIN_FLAGS_H
#define HN_TOOLCHAIN_FLAGS_H

#include "base/str.h"
#include "henry/status.h"
#include "toolchain/tool.h"

/* Who reads the flag. PTXAS and CUDAFE are behind -Xptxas= and -Xcudafe=. */
typedef enum hn_flag_user {
    HN_FLAGS_CC = 1,   /* gcc, clang, g++, clang++ */
    HN_FLAGS_NVCC = 2, /* starts its own steps through a shell */
    HN_FLAGS_NVRTC = 4,
    HN_FLAGS_PTXAS = 8,
    HN_FLAGS_CUDAFE = 16,
    HN_FLAGS_OPENCL = 32, /* the compilers of OpenCL's drivers */
} hn_flag_user;

/* In the order from harmless to refused. */
typedef enum hn_flag_kind {
    HN_FLAG_PURE,    /* the compiler proper understands it, and it reads no file */
    HN_FLAG_DRIVER,  /* for the driver; reads no file but those of the compiler */
    HN_FLAG_HEADERS, /* where headers are, or one that is read; the compiler names them */
    HN_FLAG_FILES,   /* may read files that nobody names */
    HN_FLAG_REFUSED, /* not in the table, or with a value that its row does not take */
} hn_flag_kind;

hn_flag_kind hn_flag_kind_of(const char *flag, hn_flag_user user);
/* Adds the flags of the list `flags` to `out` (may be NULL); `out_worst` is the kind of the worst
 * one. Errors: invalid-argument, naming the flag that is refused and saying what is allowed. */
hn_status hn_flags_read(hn_str flags, hn_flag_user user, hn_tool_args *out,
                        hn_flag_kind *out_worst) HN_MUST_USE;
/* Adds the directories that flags put on the search path for headers to a list. */
void hn_flags_dirs(hn_str flags, hn_flag_user user, hn_strbuf *dirs);
/* Whether one of the flags says how much to optimise. */
bool hn_flags_have_level(hn_str flags);
/* Whether a shell takes every character of the text as it is. */
bool hn_is_shell_safe(const char *text);

#endif
