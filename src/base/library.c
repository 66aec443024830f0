/* library.c: shared objects from memory.
 *
 * The loader wants a path, so the object lies in a file in memory and is opened through /proc. The
 * loader also takes two equal paths for one library, and descriptor numbers come again as soon as
 * one is closed. So each path is spelt differently: "/proc/self/fd/7" with dots and slashes put in
 * at random (48 bits) names the same file. Keeping the descriptors open instead would cost one for
 * each library. Where /proc is hidden the object is copied to a file in TMPDIR, which is removed as
 * soon as it is open. */
#include "base/library.h"

#include "base/file.h"
#include "base/oserror.h"
#include "base/trace.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

struct hn_library {
    void *handle;
    char *name;
};

enum { RUN_COUNT = 8, RUN_BITS = 6, PATH_BYTES = 64 + RUN_COUNT * ((1 << RUN_BITS) + 1) };

/* "/proc/self/", eight times a dot and 1 to 64 slashes, then the rest. Slashes rather than many
 * dots: each name in a path costs a look-up. */
static void spell_path(int fd, char out[PATH_BYTES]) {
    uint64_t bits;
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits)) bits = (uint64_t)hn_now_ns();
    int len = snprintf(out, PATH_BYTES, "/proc/self/");
    for (int i = 0; i < RUN_COUNT; i++, bits >>= RUN_BITS) {
        int slashes = 1 + (int)(bits & ((1 << RUN_BITS) - 1));
        out[len++] = '.';
        memset(out + len, '/', (size_t)slashes);
        len += slashes;
    }
    snprintf(out + len, (size_t)(PATH_BYTES - len), "fd/%d", fd);
}

/* What the loader says, without the path that nobody knows. */
static hn_status load_error(const char *path, const char *name) {
    const char *reason = dlerror();
    size_t len = strlen(path);
    if (reason && strncmp(reason, path, len) == 0 && reason[len] == ':')
        reason += len + 1 + (reason[len + 1] == ' ');
    return HN_ERROR(HN_TOOLCHAIN, "cannot load kernel '%s': %s", name,
                    reason ? reason : "the loader gives no reason");
}

static hn_status load_path(const char *path, const char *name, hn_library **out) {
    hn_library *library = calloc(1, sizeof(*library));
    char *copy = strdup(name);
    void *handle = library && copy ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle) {
        hn_status status = library && copy
                               ? load_error(path, name)
                               : HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load kernel '%s'", name);
        free(library);
        free(copy);
        return status;
    }
    *library = (hn_library){handle, copy};
    *out = library;
    return NULL;
}

/* Through a directory that nobody else may enter. */
static hn_status load_copy(int fd, const char *name, hn_library **out) {
    char dir[PATH_MAX - 16], path[PATH_MAX];
    struct stat info;
    HN_TRY(hn_dir_temp(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/kernel.so", dir);
    hn_status status = NULL;
    void *bytes = MAP_FAILED;
    if (fstat(fd, &info) != 0 ||
        (bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        status = HN_OS_ERROR(errno, "cannot load kernel '%s': it cannot be read", name);
    if (!status) status = hn_file_write_atomic(path, bytes, (size_t)info.st_size, false);
    if (bytes != MAP_FAILED) munmap(bytes, (size_t)info.st_size);
    if (!status) status = load_path(path, name, out);
    if (status)
        status =
            hn_status_annotate(status, "/proc is not mounted, so a copy in '%s' was tried", dir);
    hn_status_free(hn_dir_remove(dir)); /* what is loaded stays */
    return status;
}

hn_status hn_library_load_fd(int fd, const char *name, hn_library **out) {
    char path[PATH_BYTES];
    spell_path(fd, path);
    return access("/proc/self/fd", F_OK) == 0 ? load_path(path, name, out)
                                              : load_copy(fd, name, out);
}

/* Since Linux 6.3 a system may ask that files in memory say whether they will be executed. */
static int memory_file(void) {
    int fd = memfd_create("henry-kernel", MFD_CLOEXEC | MFD_EXEC);
    return fd < 0 && errno == EINVAL ? memfd_create("henry-kernel", MFD_CLOEXEC) : fd;
}

static hn_status write_all(int fd, const char *bytes, size_t len) {
    while (len) {
        ssize_t done = write(fd, bytes, len);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return HN_OS_ERROR(done ? errno : EIO, "cannot write a kernel to memory");
        bytes += done;
        len -= (size_t)done;
    }
    return NULL;
}

hn_status hn_library_load(const void *bytes, size_t len, const char *name, hn_library **out) {
    int fd = memory_file();
    if (fd < 0) return HN_OS_ERROR(errno, "cannot load kernel '%s': no file in memory", name);
    hn_status status = write_all(fd, bytes, len);
    if (!status) status = hn_library_load_fd(fd, name, out);
    close(fd);
    return status;
}

hn_status hn_library_symbol(const hn_library *library, const char *symbol, void **out_address) {
    *out_address = dlsym(library->handle, symbol);
    if (*out_address) return NULL;
    return HN_ERROR(HN_NOT_FOUND, "kernel '%s' has no function '%s'", library->name, symbol);
}

void hn_library_close(hn_library *library) {
    if (!library) return;
    dlclose(library->handle);
    free(library->name);
    free(library);
}
