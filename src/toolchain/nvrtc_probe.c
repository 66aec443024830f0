/* nvrtc_probe.c: finding NVRTC, with a CUDA toolkit or alone, and learning its version, its
 * architectures and which of the options that we would like it knows. The answers are remembered
 * under the file's identity: a warm start does not load the library, which has 100 MB. */
#include "toolchain/driver.h"
#include "toolchain/nvrtc.h"

#include "base/log.h"
#include "base/process.h"
#include "cache/record.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

enum { NVRTC_REVISION = 2, ARCHS_MAX = 256 };

/* ---- the library ---- */

hn_status hn_nvrtc_open(const char *path, hn_nvrtc *out) {
    *out = (hn_nvrtc){.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (!out->handle) return HN_ERROR(HN_TOOLCHAIN, "cannot load NVRTC: %s", dlerror());
    const struct {
        void *place; /* a pointer to function; all have one size and form here */
        const char *name;
        bool is_optional;
    } symbols[] = {
        {&out->version, "nvrtcVersion", false},
        {&out->error_string, "nvrtcGetErrorString", false},
        {&out->create_program, "nvrtcCreateProgram", false},
        {&out->destroy_program, "nvrtcDestroyProgram", false},
        {&out->compile_program, "nvrtcCompileProgram", false},
        {&out->add_name_expression, "nvrtcAddNameExpression", false},
        {&out->get_lowered_name, "nvrtcGetLoweredName", false},
        {&out->get_log_size, "nvrtcGetProgramLogSize", false},
        {&out->get_log, "nvrtcGetProgramLog", false},
        {&out->get_ptx_size, "nvrtcGetPTXSize", false},
        {&out->get_ptx, "nvrtcGetPTX", false},
        {&out->get_cubin_size, "nvrtcGetCUBINSize", false},
        {&out->get_cubin, "nvrtcGetCUBIN", false},
        {&out->get_arch_count, "nvrtcGetNumSupportedArchs", true},
        {&out->get_archs, "nvrtcGetSupportedArchs", true},
        {&out->set_flow_callback, "nvrtcSetFlowCallback", true},
    };
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(out->handle, symbols[i].name);
        memcpy(symbols[i].place, &address, sizeof(address));
        if (address || symbols[i].is_optional) continue;
        hn_nvrtc_close(out);
        return HN_ERROR(HN_TOOLCHAIN,
                        "'%s' has no function '%s': NVRTC of CUDA 11.2 or newer is needed", path,
                        symbols[i].name);
    }
    return NULL;
}

void hn_nvrtc_close(hn_nvrtc *nvrtc) {
    if (nvrtc->handle) dlclose(nvrtc->handle);
    nvrtc->handle = NULL;
}

/* ---- looking for it ---- */

static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                      "libnvrtc.so", NULL};

/* The newest library in `dir` plus `tail`. */
static bool find_in(const char *dir, size_t dir_len, const char *tail, char out[PATH_MAX]) {
    if (!dir_len || dir[0] != '/') return false;
    for (int i = 0; sonames[i]; i++)
        if (snprintf(out, PATH_MAX, "%.*s%s/%s", (int)dir_len, dir, tail, sonames[i]) < PATH_MAX &&
            access(out, R_OK) == 0)
            return true;
    return false;
}

static bool find_in_toolkit(const char *home, char out[PATH_MAX]) {
    size_t len = home ? strlen(home) : 0;
    return find_in(home, len, "/lib64", out) || find_in(home, len, "/lib", out);
}

/* Where `make setup-cuda` puts it: in `cuda`, beside the programs of a build. */
static bool find_beside_program(char out[PATH_MAX]) {
    const char *dir = hn_process_exe_dir();
    return find_in(dir, strlen(dir), "/cuda", out);
}

static bool find_in_list(const char *list, char out[PATH_MAX]) {
    while (list && *list) {
        size_t len = strcspn(list, ":");
        if (find_in(list, len, "", out)) return true;
        list += len + (list[len] == ':');
    }
    return false;
}

/* Where the system's loader finds it; this loads it. */
static bool find_by_loader(char out[PATH_MAX]) {
    for (int i = 0; sonames[i]; i++) {
        struct link_map *map = NULL;
        void *handle = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!handle) continue;
        bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] == '/';
        if (known) snprintf(out, PATH_MAX, "%s", map->l_name);
        dlclose(handle);
        if (known) return true;
    }
    return false;
}

static hn_status find_library(char out[PATH_MAX]) {
    const char *wanted = getenv("HENRY_NVRTC");
    if (wanted && wanted[0]) {
        if (wanted[0] != '/' || snprintf(out, PATH_MAX, "%s", wanted) >= PATH_MAX)
            return HN_ERROR(
                HN_TOOLCHAIN,
                "cannot use the NVRTC library '%s' that HENRY_NVRTC names: it must be an absolute path",
                wanted);
        if (access(out, R_OK) == 0) return NULL;
        return HN_ERROR(HN_TOOLCHAIN,
                        "cannot read the NVRTC library '%s' that HENRY_NVRTC names: %s", wanted,
                        strerror(errno));
    }
    if (find_in_list(getenv("LD_LIBRARY_PATH"), out) || find_in_toolkit(getenv("CUDA_HOME"), out) ||
        find_in_toolkit(getenv("CUDA_PATH"), out) || find_beside_program(out) ||
        find_in_toolkit("/usr/local/cuda", out) || find_by_loader(out))
        return NULL;
    return HN_ERROR(
        HN_TOOLCHAIN,
        "cannot find NVRTC: libnvrtc.so is neither in LD_LIBRARY_PATH, below CUDA_HOME, CUDA_PATH or "
        "/usr/local/cuda, in 'cuda' beside the program, nor known to the loader; install the CUDA "
        "toolkit or only its NVRTC package, or set HENRY_NVRTC to the library");
}

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
    HN_TRY(find_library(path));
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
