/* artifact.c: compiled code as a counted object. */
#include "service/core.h"

#include "base/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct hn_artifact {
    atomic_uint refs;
    char key[HN_DIGEST_HEX_BYTES];
    const void *bytes;
    size_t len;
    hn_strbuf buffer;     /* what `bytes` lies in: this, */
    hn_store_entry entry; /* or this */
    /* Where the bytes lie on the disk, and how to know that it is still that file. Empty for fresh code. */
    char path[PATH_MAX];
    ino_t inode;
    dev_t device;
};

static hn_artifact *artifact_create(const hn_digest *key) {
    hn_artifact *artifact = calloc(1, sizeof(*artifact));
    if (!artifact) return NULL;
    atomic_init(&artifact->refs, 1);
    hn_digest_hex(key, artifact->key);
    hn_strbuf_init(&artifact->buffer);
    artifact->entry.fd = -1;
    return artifact;
}

hn_artifact *hn_artifact_from_bytes(const hn_digest *key, hn_strbuf *bytes) {
    hn_artifact *artifact = artifact_create(key);
    if (!artifact) return NULL;
    artifact->buffer = *bytes;
    hn_strbuf_init(bytes);
    artifact->bytes = hn_strbuf_str(&artifact->buffer).ptr;
    artifact->len = artifact->buffer.len;
    return artifact;
}

hn_artifact *hn_artifact_from_entry(const hn_store *store, const hn_digest *key, hn_store_entry *entry) {
    hn_artifact *artifact = artifact_create(key);
    if (!artifact) return NULL;
    struct stat info;
    if (fstat(entry->fd, &info) == 0) {
        artifact->inode = info.st_ino;
        artifact->device = info.st_dev;
        hn_store_entry_path(store, HN_STORE_KERNEL, key, artifact->path);
    }
    close(entry->fd); /* hundreds of results would use up the descriptors */
    entry->fd = -1;
    artifact->entry = *entry;
    artifact->bytes = entry->bytes;
    artifact->len = entry->len;
    *entry = (hn_store_entry){.fd = -1};
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

/* Loads the file in the store, if it is still the one that was verified: no copy, the same pages for every
 * process, and a path that debuggers and profilers understand. */
static bool load_from_store(const hn_artifact *artifact, const char *name, hn_library **out_library) {
    struct stat info;
    if (!artifact->path[0]) return false;
    int fd = open(artifact->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    bool ok = fstat(fd, &info) == 0 && info.st_ino == artifact->inode && info.st_dev == artifact->device;
    hn_status status = ok ? hn_library_load_fd(fd, name, out_library) : NULL;
    close(fd);
    if (!status) return ok;
    hn_log("service", HN_LOG_DEBUG, "%s; loading a copy",
           hn_status_message(status)); /* mounted noexec, say */
    hn_status_free(status);
    return false;
}

hn_status hn_artifact_load(const hn_artifact *artifact, hn_library **out_library) {
    char name[16];
    snprintf(name, sizeof(name), "%.12s", artifact->key);
    if (load_from_store(artifact, name, out_library)) return NULL;
    return hn_library_load(artifact->bytes, artifact->len, name, out_library);
}
