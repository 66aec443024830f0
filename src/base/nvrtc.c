/* nvrtc.c: finding NVRTC, with a CUDA toolkit or alone, and loading it. */
#include "base/nvrtc.h"

#include "base/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

hn_status hn_nvrtc_find(char out[PATH_MAX]) {
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
