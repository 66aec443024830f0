/* c.h: what is shared by the rows that call a C or C++ compiler. Not for other folders. */
#ifndef HN_TOOLCHAIN_C_H
#define HN_TOOLCHAIN_C_H

#include "toolchain/driver.h"
#include "toolchain/flags.h"
#include "toolchain/toolchain.h"

/* Raised when the way of calling the tools changes what comes out: it is part of the identity. */
enum { HN_C_REVISION = 2 };

/* What tells the languages of one compiler apart. */
typedef struct hn_c_dialect {
    const char *language;     /* of option -x */
    const char *source;       /* the name that messages show: "kernel.c" */
    const char *part;         /* the program behind the driver: "cc1" */
    const char *title;        /* "C compiler" */
    const char *variable;     /* names the compiler: "HENRY_CC" */
    const char *const *usual; /* else the first of these in PATH; NULL-terminated */
    /* Linked against nothing, so ld can be called directly. C++ needs its runtime and the driver,
     * which knows it. */
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

/* ---- reads.c ---- */

hn_toolchain_reads hn_job_reads(hn_str text, hn_str flags, hn_flag_user user);
/* The same for C and C++. */
hn_toolchain_reads hn_c_reads(hn_str text, hn_str flags);
/* Whether a text without headers may have assembler in it, as far as its letters tell. */
bool hn_text_may_assemble(hn_str text, hn_str flags);
/* Whether the assembler may read files for this assembly: by a directive, or by a macro that puts
 * one together. */
bool hn_assembly_may_read(hn_str assembly);

#endif
