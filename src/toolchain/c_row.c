/* c_row.c: the language "c". */
#include "toolchain/c.h"
#include "toolchain/symbols.h"

static const char *const compilers[] = {"gcc", "clang", "cc", NULL};
static const char *const suffixes[] = {".c", NULL};

const hn_c_dialect hn_c_dialect_c = {
    .language = "c",
    .source = "kernel.c",
    .part = "cc1",
    .title = "C compiler",
    .variable = "HENRY_CC",
    .usual = compilers,
    .is_bare = true,
};

static hn_status probe(hn_store *store, hn_toolchain *out) {
    return hn_c_probe(&hn_c_dialect_c, store, out);
}

static hn_status compile(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                         hn_toolchain_result *out) {
    HN_TRY(hn_c_compile(&hn_c_dialect_c, toolchain, job, out));
    return hn_symbols_check(out, job->entries, "");
}

const hn_toolchain_row hn_toolchain_row_c = {
    .language = "c",
    .suffixes = suffixes,
    .env_names = hn_c_env_names,
    .probe = probe,
    .compile = compile,
    .reads = hn_c_reads,
    .is_for_cpu = true,
    .default_flag = "-O2",
};
