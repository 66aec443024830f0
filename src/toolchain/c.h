/* c.h: what is shared by the rows that call a C or C++ compiler. Not for other folders. */
#ifndef HN_TOOLCHAIN_C_H
#define HN_TOOLCHAIN_C_H

#include "toolchain/driver.h"
#include "toolchain/toolchain.h"

/* Raised when the way of calling the tools changes what comes out: it is part of the identity. */
enum { HN_C_REVISION = 1 };

/* What tells the languages of one compiler apart. */
typedef struct hn_c_dialect {
    const char *language;     /* of option -x */
    const char *source;       /* the name that messages show: "kernel.c" */
    const char *part;         /* the program behind the driver: "cc1" */
    const char *title;        /* "C compiler" */
    const char *variable;     /* names the compiler: "HENRY_CC" */
    const char *const *usual; /* else the first of these in PATH; NULL-terminated */
    /* Linked against nothing, so ld can be called directly. C++ needs its runtime and the driver, which knows
     * it. */
    bool is_bare;
} hn_c_dialect;

extern const hn_c_dialect hn_c_dialect_c, hn_c_dialect_cxx;

/* The tools of a toolchain, as its record tells them. Paths are borrowed from the record. */
typedef struct hn_c_tools {
    const char *cc;            /* the driver, as the user named it, absolute */
    const char *cc1, *as, *ld; /* "" when not known */
    bool is_clang;
    bool is_direct; /* the parts can be called without the driver */
} hn_c_tools;

hn_status hn_c_tools_read(hn_str record, hn_c_tools *out) HN_MUST_USE;
hn_status hn_c_probe(const hn_c_dialect *dialect, hn_store *store, hn_toolchain *out) HN_MUST_USE;
/* The compile of a row. Does not look at the entries. */
hn_status hn_c_compile(const hn_c_dialect *dialect, const hn_toolchain *toolchain,
                       const hn_toolchain_job *job, hn_toolchain_result *out) HN_MUST_USE;

/* Variables that gcc, clang and ld obey and that the tools are given. NULL-terminated. */
extern const char *const hn_c_env_names[];

/* ---- c_flags.c: the flags of a job ---- */

typedef enum hn_flag_kind {
    HN_FLAG_PURE,    /* cc1 understands it, and it reads no file */
    HN_FLAG_DRIVER,  /* for the driver; reads no file that matters */
    HN_FLAG_HEADERS, /* where headers are, or one that is read; the compiler tells about it */
    HN_FLAG_FILES,   /* may read files that nobody tells about */
    HN_FLAG_REFUSED, /* changes what comes out, or depends on this machine */
} hn_flag_kind;

hn_flag_kind hn_c_flag_kind(const char *flag);
/* Whether a flag of gcc or clang names where output goes, or code or further flags to load. */
bool hn_c_flag_escapes(const char *flag);
/* The same of words for the linker: "-z,now,-Map=F". */
bool hn_linker_words_escape(const char *words);
/* Whether one of the words, with commas or blanks between, is such a flag. */
bool hn_flag_words_escape(const char *words, bool (*is_escape)(const char *word));
/* For the texts and flags of C, C++ and what is built on them. */
hn_toolchain_reads hn_c_reads(hn_str text, hn_str flags);
/* Adds the flags of a job to `out`; `out_worst` is the kind of the worst one. Errors: invalid-argument. */
hn_status hn_c_flags_read(hn_str flags, hn_tool_args *out, hn_flag_kind *out_worst) HN_MUST_USE;
/* Adds the directories that flags put on the search path for headers to a list. */
void hn_c_flags_dirs(hn_str flags, hn_strbuf *dirs);

#endif
