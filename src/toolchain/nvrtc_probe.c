/* nvrtc_probe.c: learning NVRTC's version, its architectures and which of the options that we would
 * like it knows. The answers are remembered under the file's identity: a warm start does not load
 * the library, which has 100 MB. */
#include "toolchain/driver.h"
#include "toolchain/nvrtc.h"

#include "base/log.h"
#include "cache/record.h"

#include <glob.h>
#include <stdlib.h>

enum { NVRTC_REVISION = 2, ARCHS_MAX = 256 };

/* ---- asking ---- */

static void list_archs(const hn_nvrtc *nvrtc, hn_strbuf *out) {
    int count = 0, archs[ARCHS_MAX] = {0};
    if (!nvrtc->get_arch_count || !nvrtc->get_archs || nvrtc->get_arch_count(&count) != HN_NVRTC_OK)
        return;
    if (count > ARCHS_MAX || nvrtc->get_archs(archs) != HN_NVRTC_OK) return;
    for (int i = 0; i < count; i++) {
        hn_strbuf_i64(out, archs[i]);
        hn_strbuf_append(out, "", 1);
    }
}

/* Whether an empty program compiles with the option. */
static bool knows_option(const hn_nvrtc *nvrtc, const char *option) {
    hn_nvrtc_program program = NULL;
    if (nvrtc->create_program(&program, "", "empty.cu", 0, NULL, NULL) != HN_NVRTC_OK) return false;
    bool known = nvrtc->compile_program(program, 1, &option) == HN_NVRTC_OK;
    nvrtc->destroy_program(&program);
    return known;
}

/* -minimal leaves out what kernels seldom need, and most of the time with it; the library's own
 * cache on disk would be a second one behind ours; and a quoted #include must not find files of the
 * current directory. */
static void list_options(const hn_nvrtc *nvrtc, hn_strbuf *out) {
    static const char *const wished[] = {"-minimal", "--no-cache", "--no-source-include", NULL};
    for (int i = 0; wished[i]; i++)
        if (knows_option(nvrtc, wished[i])) hn_list_add(out, wished[i]);
}

static hn_status ask(const void *context, hn_strbuf *out) {
    const char *path = context;
    hn_nvrtc nvrtc;
    hn_strbuf archs, options;
    int major = 0, minor = 0;
    char version[32];
    hn_log("toolchain", HN_LOG_INFO, "asking NVRTC '%s' what it is", path);
    HN_TRY(hn_nvrtc_open(path, &nvrtc));
    hn_strbuf_init(&archs);
    hn_strbuf_init(&options);
    int result = nvrtc.version(&major, &minor);
    snprintf(version, sizeof(version), "%d.%d", major, minor);
    list_archs(&nvrtc, &archs);
    list_options(&nvrtc, &options);
    hn_record_add_string(out, "version", version);
    hn_record_add(out, "archs", hn_strbuf_str(&archs));
    hn_record_add(out, "options", hn_strbuf_str(&options));
    hn_status status = hn_strbuf_status(&archs);
    if (!status) status = hn_strbuf_status(&options);
    if (!status && result != HN_NVRTC_OK)
        status =
            HN_ERROR(HN_TOOLCHAIN, "cannot use NVRTC '%s': %s", path, nvrtc.error_string(result));
    hn_strbuf_deinit(&archs);
    hn_strbuf_deinit(&options);
    hn_nvrtc_close(&nvrtc);
    return status;
}

/* ---- putting it together ---- */

/* Path, size and time of the library and of the second one that it loads, which lies beside it. */
static hn_status describe_subject(const char *real, hn_strbuf *out) {
    char stamp[HN_STAMP_BYTES], pattern[PATH_MAX];
    glob_t files = {.gl_pathc = 0};
    hn_file_stamp(real, stamp);
    hn_record_add_i64(out, "nvrtc_revision", NVRTC_REVISION);
    hn_record_add(out, "path", hn_str_of(real));
    hn_record_add(out, "stamp", hn_str_of(stamp));
    const char *slash = strrchr(real, '/');
    snprintf(pattern, sizeof(pattern), "%.*s/libnvrtc-builtins.so*",
             slash ? (int)(slash - real) : 0, real);
    if (glob(pattern, 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc; i++) {
            hn_file_stamp(files.gl_pathv[i], stamp);
            hn_record_add(out, "builtins", hn_str_of(stamp));
        }
        globfree(&files);
    }
    return hn_strbuf_status(out);
}

hn_status hn_nvrtc_probe(hn_store *store, hn_toolchain *out) {
    char path[PATH_MAX];
    hn_strbuf subject, findings;
    HN_TRY(hn_nvrtc_find(path));
    char *real = realpath(path, NULL);
    if (!real) return HN_ERROR(HN_TOOLCHAIN, "cannot resolve '%s'", path);
    hn_strbuf_init(&subject);
    hn_strbuf_init(&findings);
    hn_status status = describe_subject(real, &subject);
    const hn_findings query = {hn_strbuf_str(&subject), NULL, ask, real};
    if (!status) status = hn_findings_learn(store, &query, &findings);
    if (!status) {
        out->identity = hn_digest_of_two(hn_strbuf_str(&subject), hn_strbuf_str(&findings));
        const char *version = hn_record_string(hn_strbuf_str(&findings), "version");
        char title[64];
        snprintf(title, sizeof(title), "NVRTC %s", version ? version : "");
        hn_record_add_string(&out->record, "title", title);
        hn_record_add_string(&out->record, "path", real);
        hn_strbuf_append(&out->record, findings.ptr, findings.len);
    }
    free(real);
    hn_strbuf_deinit(&subject);
    hn_strbuf_deinit(&findings);
    return status;
}
