/* library.c: see library.h. */
#include "ops/cuda/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, HOW = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

static void *open_at(const char *folder, const char *tail, const char *name) {
    char path[PATH_BYTES];
    if (!folder || !*folder) return NULL;
    const int len = snprintf(path, sizeof path, "%s%s/%s", folder, tail, name);
    return len > 0 && len < (int)sizeof path ? dlopen(path, HOW) : NULL;
}

static void *open_named(const char *name) {
    void *handle = dlopen(name, HOW);
    if (!handle) handle = open_at(getenv("CUDA_HOME"), "/lib64", name);
    return handle ? handle : open_at("/usr/local/cuda", "/lib64", name);
}

static hn_status open_wanted(const hn_nvidia_library *library, void **out) {
    *out = dlopen(library->wanted, HOW);
    const char *why = *out ? NULL : dlerror();
    return *out ? NULL
                : HN_ERROR(HN_NOT_FOUND, "cannot load '%s' (%s): %s", library->wanted,
                           library->variable, why ? why : "");
}

static hn_status open_any(const hn_nvidia_library *library, void **out) {
    const char *const *names = library->names;
    for (*out = NULL; *names && !*out; names++) *out = open_named(*names);
    return *out
               ? NULL
               : HN_ERROR(HN_NOT_FOUND,
                          "cannot load '%s'; install %s (pip's %s has it, too), or name the "
                          "library in %s",
                          library->names[0], library->subject, library->package, library->variable);
}

static hn_status open_library(const hn_nvidia_library *library, void **out) {
    const char *wanted = library->wanted;
    if (wanted && strcmp(wanted, "off") == 0)
        return HN_ERROR(HN_NOT_FOUND, "%s is switched off (%s)", library->subject,
                        library->variable);
    return wanted && *wanted ? open_wanted(library, out) : open_any(library, out);
}

hn_status hn_nvidia_library_load(const hn_nvidia_library *library,
                                 const hn_nvidia_function *functions, size_t count) {
    void *handle = NULL;
    HN_TRY(open_library(library, &handle));
    for (size_t k = 0; k < count; k++) {
        void *address = dlsym(handle, functions[k].name);
        if (!address)
            return HN_ERROR(HN_INCOMPATIBLE, "the library of %s has no function '%s'",
                            library->subject, functions[k].name);
        memcpy(functions[k].place, &address, sizeof address);
    }
    return NULL;
}

void *hn_nvidia_library_open(const hn_nvidia_library *library) {
    void *handle = NULL;
    hn_status_free(open_library(library, &handle)); /* who needs it is told */
    return handle;
}

void hn_nvidia_library_open_beside(void *handle, const char *const *names) {
    char folder[PATH_MAX];
    if (dlinfo(handle, RTLD_DI_ORIGIN, folder) != 0) return;
    for (; *names; names++) (void)open_at(folder, "", *names);
}
