/* artifact.c: compiled code as a counted object. */
#include "service/core.h"

#include "base/log.h"
#include "toolchain/images.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct hn_artifact {
    atomic_uint refs;
    const hn_toolchain_row *row;
    bool is_images; /* and they are sound */
    char key[HN_DIGEST_HEX_BYTES];
    const void *bytes;
    size_t len;
    hn_strbuf buffer;     /* what `bytes` lies in: this, */
    hn_store_entry entry; /* or this */
    /* Where the bytes lie on the disk, and how to know that it is still that file. Empty for fresh
     * code. */
    char path[PATH_MAX];
    ino_t inode;
    dev_t device;
};

static hn_artifact *artifact_create(const hn_digest *key, const hn_toolchain_row *row) {
    hn_artifact *artifact = calloc(1, sizeof(*artifact));
    if (!artifact) return NULL;
    atomic_init(&artifact->refs, 1);
    hn_digest_hex(key, artifact->key);
    hn_strbuf_init(&artifact->buffer);
    artifact->entry.fd = -1;
    artifact->row = row;
    return artifact;
}

static hn_str bytes_of(const hn_artifact *artifact) {
    return (hn_str){artifact->bytes, artifact->len};
}

/* Looks at the bytes once, so that nothing later can fail for them. */
static void look_at_bytes(hn_artifact *artifact) {
    if (!hn_images_are(bytes_of(artifact))) return;
    hn_status status = hn_images_check(bytes_of(artifact));
    if (status) hn_log("service", HN_LOG_WARN, "%s", hn_status_message(status));
    artifact->is_images = !status;
    hn_status_free(status);
}

hn_artifact *hn_artifact_from_bytes(const hn_digest *key, const hn_toolchain_row *row,
                                    hn_strbuf *bytes) {
    hn_artifact *artifact = artifact_create(key, row);
    if (!artifact) return NULL;
    artifact->buffer = *bytes;
    hn_strbuf_init(bytes);
    artifact->bytes = hn_strbuf_str(&artifact->buffer).ptr;
    artifact->len = artifact->buffer.len;
    look_at_bytes(artifact);
    return artifact;
}

hn_artifact *hn_artifact_from_entry(const hn_store *store, const hn_digest *key,
                                    const hn_toolchain_row *row, const hn_digest *entry_key,
                                    hn_store_entry *entry) {
    hn_artifact *artifact = artifact_create(key, row);
    if (!artifact) return NULL;
    struct stat info;
    /* A file on a network file system is not to be mapped, and loading maps it. */
    if (entry->fd >= 0 && hn_store_is_mappable(store) && fstat(entry->fd, &info) == 0) {
        artifact->inode = info.st_ino;
        artifact->device = info.st_dev;
        hn_store_entry_path(store, HN_STORE_KERNEL, entry_key, artifact->path);
    }
    if (entry->fd >= 0) close(entry->fd); /* hundreds of results would use up the descriptors */
    entry->fd = -1;
    artifact->entry = *entry;
    artifact->bytes = entry->bytes;
    artifact->len = entry->len;
    *entry = (hn_store_entry){.fd = -1};
    look_at_bytes(artifact);
    return artifact;
}

hn_artifact *hn_artifact_retain(hn_artifact *artifact) {
    if (artifact) atomic_fetch_add(&artifact->refs, 1);
    return artifact;
}

void hn_artifact_release(hn_artifact *artifact) {
    if (!artifact || atomic_fetch_sub(&artifact->refs, 1) != 1) return;
    hn_strbuf_deinit(&artifact->buffer);
    hn_store_entry_deinit(&artifact->entry);
    free(artifact);
}

const void *hn_artifact_bytes(const hn_artifact *artifact, size_t *out_len) {
    *out_len = artifact->len;
    return artifact->bytes;
}

const char *hn_artifact_key(const hn_artifact *artifact) { return artifact->key; }

/* Loads the file in the store, if it is still the one that was verified: no copy, the same pages
 * for every process, and a path that debuggers and profilers understand. */
static bool load_from_store(const hn_artifact *artifact, const char *name,
                            hn_library **out_library) {
    struct stat info;
    if (!artifact->path[0]) return false;
    int fd = open(artifact->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    bool ok =
        fstat(fd, &info) == 0 && info.st_ino == artifact->inode && info.st_dev == artifact->device;
    hn_status status = ok ? hn_library_load_fd(fd, name, out_library) : NULL;
    close(fd);
    if (!status) return ok;
    hn_log("service", HN_LOG_DEBUG, "%s; loading a copy",
           hn_status_message(status)); /* mounted noexec, say */
    hn_status_free(status);
    return false;
}

/* ---- device code ---- */

uint32_t hn_artifact_image_count(const hn_artifact *artifact) {
    return artifact->is_images ? hn_images_count(bytes_of(artifact)) : 0;
}

/* "sm_90, compute_90" */
static void list_images(const hn_artifact *artifact, hn_strbuf *out) {
    for (uint32_t i = 0; i < hn_artifact_image_count(artifact); i++) {
        hn_image image;
        hn_images_get(bytes_of(artifact), i, &image);
        hn_strbuf_printf(out, "%s%s", i ? ", " : "", image.arch);
    }
    if (!out->len) hn_strbuf_puts(out, "none");
}

hn_status hn_artifact_image(const hn_artifact *artifact, uint32_t idx, hn_image *out_image) {
    uint32_t count = hn_artifact_image_count(artifact);
    if (idx >= count)
        return HN_ERROR(HN_NOT_FOUND, "no image %u: kernel '%.12s' has %u", idx, artifact->key,
                        count);
    hn_images_get(bytes_of(artifact), idx, out_image);
    return NULL;
}

hn_status hn_artifact_image_find(const hn_artifact *artifact, const char *arch,
                                 hn_image *out_image) {
    if (artifact->is_images && hn_images_find(bytes_of(artifact), arch, out_image)) return NULL;
    hn_strbuf there;
    hn_strbuf_init(&there);
    list_images(artifact, &there);
    hn_status status =
        HN_ERROR(HN_NOT_FOUND, "kernel '%.12s' has no code for '%s'; it has: " HN_STR_FMT,
                 artifact->key, arch, HN_STR_ARG(hn_strbuf_str(&there)));
    hn_strbuf_deinit(&there);
    return status;
}

hn_status hn_artifact_image_symbol(const hn_artifact *artifact, const char *entry,
                                   const char **out_symbol) {
    *out_symbol = artifact->is_images ? hn_images_symbol(bytes_of(artifact), entry) : NULL;
    if (*out_symbol) return NULL;
    return HN_ERROR(HN_NOT_FOUND,
                    "'%s' is no entry of kernel '%.12s'; name it in the job's entries", entry,
                    artifact->key);
}

/* ---- loading ---- */

static hn_status refuse_images(const hn_artifact *artifact) {
    hn_strbuf there;
    hn_strbuf_init(&there);
    list_images(artifact, &there);
    hn_status status = HN_ERROR(
        HN_UNSUPPORTED,
        "cannot load kernel '%.12s' into this process: it is device code (" HN_STR_FMT
        "); take the device's image with hn_artifact_image_find and give it to the GPU's driver, for "
        "example cuModuleLoadData",
        artifact->key, HN_STR_ARG(hn_strbuf_str(&there)));
    hn_strbuf_deinit(&there);
    return status;
}

hn_status hn_artifact_load(const hn_artifact *artifact, hn_library **out_library) {
    char name[16];
    if (hn_images_are(bytes_of(artifact))) return refuse_images(artifact);
    if (artifact->row->load_advice)
        return HN_ERROR(HN_UNSUPPORTED, "cannot load kernel '%.12s' into this process: %s",
                        artifact->key, artifact->row->load_advice);
    snprintf(name, sizeof(name), "%.12s", artifact->key);
    if (load_from_store(artifact, name, out_library)) return NULL;
    return hn_library_load(artifact->bytes, artifact->len, name, out_library);
}
