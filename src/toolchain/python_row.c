/* python_row.c: the language "python": a CPython extension from C++ source.
 *
 * Each entry is a signature, "void scale(ptr, i64, f32)", of a function that the source defines,
 * with C linkage or not. python_binding.c makes the module from them. Target "module=NAME" names
 * the module (default "kernel"); the artefact is to be written to NAME.abi3.so. Everything else,
 * flags, headers and CPU features, is as for "c++".
 *
 * Nothing of Python is needed to compile: the binding declares the part of the stable ABI that it
 * calls. */
#include "toolchain/c.h"
#include "toolchain/python.h"
#include "toolchain/symbols.h"

#include <ctype.h>

/* Raised when the binding changes: it is part of the identity. */
enum { PYTHON_REVISION = 1 };

static const char *const suffixes[] = {".cc", NULL};

static hn_status probe(hn_store *store, hn_toolchain *out) {
    HN_TRY(hn_c_probe(&hn_c_dialect_cxx, store, out));
    const char revision[] = {'p', 'y', 't', 'h', 'o', 'n', PYTHON_REVISION};
    out->identity =
        hn_digest_of_two((hn_str){(const char *)out->identity.bytes, sizeof(out->identity.bytes)},
                         (hn_str){revision, sizeof(revision)});
    return NULL;
}

static bool is_identifier(const char *name) {
    if (!isalpha((unsigned char)name[0]) && name[0] != '_') return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_') return false;
    return true;
}

/* Takes "module=NAME" out of the target; what is left goes to the C++ compiler. */
static hn_status read_target(hn_str target, const char **out_module, hn_strbuf *out_rest) {
    const char *item;
    *out_module = "kernel";
    while (hn_list_next(&target, &item)) {
        if (strncmp(item, "module=", 7) != 0) {
            hn_list_add(out_rest, item);
            continue;
        }
        *out_module = item + 7;
        if (!is_identifier(*out_module) || strlen(*out_module) > 200)
            return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' cannot be the name of a Python module",
                            *out_module);
    }
    return hn_strbuf_status(out_rest);
}

static hn_status compile_bound(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                               const char *module, hn_str target, hn_toolchain_result *out) {
    hn_strbuf text, init;
    hn_strbuf_init(&text);
    hn_strbuf_init(&init);
    hn_strbuf_append(&text, job->text.ptr, job->text.len);
    bool has_headers = hn_c_reads(job->text, job->flags) != HN_READS_NOTHING;
    hn_status status = hn_python_binding(module, job->entries, has_headers, &text);
    hn_toolchain_job bound = *job;
    bound.text = hn_strbuf_str(&text);
    bound.target = target;
    if (!status) status = hn_c_compile(&hn_c_dialect_cxx, toolchain, &bound, out);
    hn_strbuf_printf(&init, "PyInit_%s", module);
    hn_strbuf_append(&init, "", 1);
    if (!status) status = hn_symbols_check(out, hn_strbuf_str(&init), "");
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&init);
    return status;
}

static hn_status compile(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                         hn_toolchain_result *out) {
    const char *module;
    hn_strbuf rest;
    hn_strbuf_init(&rest);
    hn_status status = read_target(job->target, &module, &rest);
    if (!status) status = compile_bound(toolchain, job, module, hn_strbuf_str(&rest), out);
    hn_strbuf_deinit(&rest);
    return status;
}

const hn_toolchain_row hn_toolchain_row_python = {
    .language = "python",
    .suffixes = suffixes,
    .env_names = hn_c_env_names,
    .probe = probe,
    .compile = compile,
    .reads = hn_c_reads,
    .is_for_cpu = true,
    .default_flag = "-O2",
    .load_advice =
        "it is a Python extension; write its bytes to MODULE.abi3.so and import it in Python",
};
