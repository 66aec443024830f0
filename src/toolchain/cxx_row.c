/* cxx_row.c: the language "c++": shared objects by g++ or clang++. An entry is a function with C
 * linkage. */
#include "toolchain/c.h"
#include "toolchain/symbols.h"

static const char *const compilers[] = {"g++", "clang++", "c++", NULL};
static const char *const suffixes[] = {".cc", ".cpp", ".cxx", NULL};

const hn_c_dialect hn_c_dialect_cxx = {
    .language = "c++",
    .source = "kernel.cc",
    .part = "cc1plus",
    .title = "C++ compiler",
    .variable = "HENRY_CXX",
    .usual = compilers,
};

static hn_status probe(hn_store *store, hn_toolchain *out) {
    return hn_c_probe(&hn_c_dialect_cxx, store, out);
}

static hn_status compile(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                         hn_toolchain_result *out) {
    HN_TRY(hn_c_compile(&hn_c_dialect_cxx, toolchain, job, out));
    return hn_symbols_check(out, job->entries, "extern \"C\"");
}

const hn_toolchain_row hn_toolchain_row_cxx = {
    .language = "c++",
    .suffixes = suffixes,
    .env_names = hn_c_env_names,
    .probe = probe,
    .compile = compile,
    .reads = hn_c_reads,
    .is_for_cpu = true,
    .default_flag = "-O2",
};
