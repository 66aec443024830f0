/* safetensors.c: see safetensors.h. */
#include "bundle/safetensors.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/map.h"
#include "base/oserror.h"
#include "base/trace.h"
#include "bundle/view.h"
#include "henry/tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

const char *const hn_safetensors_types[HN_SCALAR_TYPE_COUNT] = {
    [HN_F64] = "F64", [HN_F32] = "F32", [HN_F16] = "F16", [HN_BF16] = "BF16", [HN_I64] = "I64",
    [HN_I32] = "I32", [HN_I16] = "I16", [HN_I8] = "I8",   [HN_U8] = "U8",     [HN_BOOL] = "BOOL",
};

/* The largest power of two, up to 64, that divides the size. */
static uint64_t alignment_of(uint64_t len) {
    uint64_t power = len & (~len + 1);
    return !power || power > ALIGNMENT ? ALIGNMENT : power;
}

/* Offsets into the data, in classes of alignment, each in the given order. */
static void place(hn_safetensor *tensors, uint32_t count, uint32_t *order) {
    uint64_t end = 0;
    uint32_t at = 0;
    for (uint64_t alignment = ALIGNMENT; alignment; alignment /= 2) {
        for (uint32_t k = 0; k < count; k++) {
            if (alignment_of(tensors[k].len) != alignment) continue;
            tensors[k].offset = end;
            end += tensors[k].len;
            order[at++] = k;
        }
    }
}

static void put_entry(const hn_safetensor *t, hn_str name, hn_strbuf *out) {
    hn_strbuf_puts(out, ",");
    hn_strbuf_json(out, name);
    hn_strbuf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[",
                     t->dtype ? hn_safetensors_types[t->dtype] : "U8");
    for (uint32_t d = 0; t->dtype && d < t->rank; d++)
        hn_strbuf_printf(out, "%s%" PRId64, d ? "," : "", t->sizes[d]);
    if (!t->dtype) hn_strbuf_printf(out, "%" PRIu64, t->len);
    hn_strbuf_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", t->offset,
                     t->offset + t->len);
}

/* The name, with a number when another tensor has it. */
static hn_status own_name(hn_strmap *known, hn_arena *arena, hn_str name, hn_str *out) {
    *out = name;
    for (uint32_t number = 2; hn_strmap_get(known, *out); number++) {
        char *text = hn_arena_printf(arena, HN_STR_FMT "#%u", HN_STR_ARG(name), number);
        if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the names of weights");
        *out = hn_str_of(text);
    }
    return hn_strmap_put(known, *out, 1);
}

/* Length and JSON, with spaces up to a multiple of 64. */
static hn_status make_header(const hn_safetensor *tensors, uint32_t count, hn_strbuf *out) {
    hn_arena arena;
    hn_strmap known;
    hn_status status = NULL;
    uint64_t len = 0;
    hn_arena_init(&arena);
    hn_strmap_init(&known, &arena);
    hn_strbuf_append(out, (const char *)&len, sizeof len);
    hn_strbuf_puts(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint32_t k = 0; k < count && !status; k++) {
        hn_str name;
        status = own_name(&known, &arena, tensors[k].name, &name);
        if (!status) put_entry(&tensors[k], name, out);
    }
    hn_strbuf_putc(out, '}');
    while (!out->failed && out->len % ALIGNMENT) hn_strbuf_putc(out, ' ');
    hn_arena_deinit(&arena);
    if (status || (status = hn_strbuf_status(out))) return status;
    len = out->len - sizeof len;
    memcpy(out->ptr, &len, sizeof len);
    return NULL;
}

static hn_status write_all(int fd, const void *bytes, uint64_t len) {
    for (const uint8_t *at = bytes, *end = at + len; at < end;) {
        ssize_t n = write(fd, at, (size_t)(end - at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return HN_OS_ERROR(n ? errno : EIO, "cannot write weights");
        at += n;
    }
    return NULL;
}

static hn_status write_file(int fd, const hn_safetensor *tensors, const uint32_t *order,
                            uint32_t count, const hn_strbuf *header) {
    HN_TRY(write_all(fd, header->ptr, header->len));
    for (uint32_t k = 0; k < count; k++)
        HN_TRY(write_all(fd, tensors[order[k]].bytes, tensors[order[k]].len));
    return fdatasync(fd) == 0 ? NULL : HN_OS_ERROR(errno, "cannot write weights");
}

/* What a reader will compare, from the file as it was written. */
static hn_status look_at(const char *path, hn_safetensors_facts *out) {
    hn_file_map map;
    struct stat st;
    HN_TRY(hn_file_map_init(&map, path));
    *out = (hn_safetensors_facts){.bytes = map.size_bytes,
                                  .ends = hn_bundle_ends_digest(map.data, map.size_bytes),
                                  .full = hn_digest_of(map.data, map.size_bytes)};
    if (fstat(map.fd, &st) == 0)
        out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    hn_file_map_deinit(&map);
    return NULL;
}

static hn_status save(const hn_safetensor *tensors, const uint32_t *order, uint32_t count,
                      const hn_strbuf *header, const char *path, const char *temp,
                      hn_safetensors_facts *out) {
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return HN_OS_ERROR(errno, "cannot create '%s'", temp);
    hn_status status = write_file(fd, tensors, order, count, header);
    if (close(fd) != 0 && !status) status = HN_OS_ERROR(errno, "cannot write '%s'", temp);
    if (!status) status = look_at(temp, out);
    if (!status && rename(temp, path) != 0)
        status = HN_OS_ERROR(errno, "cannot rename '%s' to '%s'", temp, path);
    if (status) (void)unlink(temp);
    return status;
}

hn_status hn_safetensors_save(hn_safetensor *tensors, uint32_t count, const char *path,
                              hn_safetensors_facts *out) {
    hn_strbuf header;
    size_t bytes = strlen(path) + 64;
    uint32_t *order = calloc((size_t)count + 1, sizeof *order);
    char *temp = malloc(bytes);
    hn_strbuf_init(&header);
    hn_status status =
        order && temp ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory to write '%s'", path);
    if (!status) {
        snprintf(temp, bytes, "%s.henry-tmp-%ld-%llx", path, (long)getpid(),
                 (unsigned long long)hn_now_ns());
        place(tensors, count, order);
        status = make_header(tensors, count, &header);
    }
    if (!status) status = save(tensors, order, count, &header, path, temp, out);
    for (uint32_t k = 0; k < count; k++) tensors[k].offset += header.len;
    hn_strbuf_deinit(&header);
    free(order);
    free(temp);
    return hn_status_annotate(status, "cannot save weights '%s'", path);
}
