/* debug_files.c: where the debugger writes: a file of lines, or a folder with a .npy file for each
 * tensor and manifest.json, which says what they are. The manifest is a whole JSON text after each
 * entry, so that a crash leaves one that can be read. */
#include "runtime/debug.h"

#include "base/file.h"
#include "base/npy.h"
#include "base/oserror.h"
#include "runtime/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum { LABEL_BYTES = 80 }; /* of a node in a file's name, at most */
static const char tail[] = "\n]}\n";

/* ---- opening ---- */

/* Whether a folder has something in it; one that is not there has not. */
static hn_status is_in_use(const char *path, bool *out) {
    DIR *dir = opendir(path);
    *out = false;
    if (!dir && errno == ENOENT) return NULL;
    if (!dir) return HN_OS_ERROR(errno, "cannot save tensors to the folder '%s'", path);
    for (struct dirent *e; (e = readdir(dir));)
        *out |= strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return NULL;
}

/* Whoever makes the manifest has the folder. */
static hn_status claim(hn_debug *d, const char *path, bool *out_taken) {
    char manifest[PATH_MAX];
    HN_TRY(is_in_use(path, out_taken));
    if (*out_taken) return NULL;
    HN_TRY(hn_dir_create_public(path));
    snprintf(manifest, sizeof manifest, "%s/manifest.json", path);
    d->out->manifest_fd = open(manifest, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *out_taken = d->out->manifest_fd < 0 && errno == EEXIST;
    return d->out->manifest_fd >= 0 || *out_taken
               ? NULL
               : HN_OS_ERROR(errno, "cannot create '%s'", manifest);
}

static hn_status write_at(hn_debug *d, const char *text, size_t len, int64_t at) {
    for (size_t done = 0; done < len;) {
        const ssize_t wrote =
            pwrite(d->out->manifest_fd, text + done, len - done, at + (int64_t)done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0)
            return HN_OS_ERROR(errno, "cannot write '%s/manifest.json'", d->options.path);
        done += (size_t)wrote;
    }
    return NULL;
}

static hn_status open_folder(hn_debug *d, bool may_rename) {
    static const char head[] =
        "{\"format\": \"henry tensors\", \"version\": 1, \"tensors\": [\n]}\n";
    const char *wanted = d->options.path;
    char path[PATH_MAX];
    bool is_taken = false;
    if (!wanted) return HN_ERROR(HN_INVALID_ARGUMENT, "saving tensors needs a folder: save,to=DIR");
    snprintf(path, sizeof path, "%s", wanted);
    HN_TRY(claim(d, path, &is_taken));
    for (int k = 2; is_taken && may_rename && k < 1000; k++) {
        snprintf(path, sizeof path, "%s.%d", wanted, k);
        HN_TRY(claim(d, path, &is_taken));
    }
    if (is_taken)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "'%s' is not empty; tensors are saved to a folder of their own", wanted);
    if (strcmp(path, wanted) != 0) {
        char *own = strdup(path);
        if (!own) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a debugger");
        free(d->texts[3]);
        d->options.path = d->texts[3] = own;
    }
    d->out->manifest_end = (int64_t)(sizeof head - sizeof tail);
    return write_at(d, head, sizeof head - 1, 0);
}

hn_status hn_debug_files_open(hn_debug *d, bool may_rename) {
    if (!d->options.sink) d->out->line_fd = STDERR_FILENO;
    if (d->options.level == HN_DEBUG_SAVE) return open_folder(d, may_rename);
    if (!d->options.path) return NULL;
    d->out->line_fd = open(d->options.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return d->out->line_fd >= 0 ? NULL : HN_OS_ERROR(errno, "cannot open '%s'", d->options.path);
}

void hn_debug_files_close(hn_debug *d) {
    if (d->out->line_fd >= 0 && d->out->line_fd != STDERR_FILENO) close(d->out->line_fd);
    if (d->out->manifest_fd >= 0) close(d->out->manifest_fd);
}

/* ---- one tensor ---- */

/* What .npy files have for a type; bf16 becomes f32, which holds all of it. */
static const char *descr_of(hn_scalar_type type) {
    static const char *const descrs[HN_SCALAR_TYPE_COUNT] = {
        [HN_F64] = "<f8", [HN_F32] = "<f4", [HN_F16] = "<f2", [HN_BF16] = "<f4", [HN_I64] = "<i8",
        [HN_I32] = "<i4", [HN_I16] = "<i2", [HN_I8] = "|i1",  [HN_U8] = "|u1",   [HN_BOOL] = "|b1"};
    return descrs[type];
}

/* Backwards: the wide elements overlap the narrow ones. */
static void widen(uint8_t *elements, int64_t count) {
    for (int64_t k = count; k-- > 0;) {
        uint16_t narrow;
        memcpy(&narrow, elements + k * 2, sizeof narrow);
        const uint32_t wide = (uint32_t)narrow << 16;
        memcpy(elements + k * 4, &wide, sizeof wide);
    }
}

/* The elements in row-major order, as a file has them. Owned by the caller. */
static hn_status pack(const hn_debug_tensor *t, uint8_t **out) {
    const hn_step_operand *o = t->operand;
    int64_t count = 1, strides[HN_TENSOR_MAX_RANK];
    for (uint32_t d = 0; d < o->rank; d++) count *= o->sizes[d];
    const size_t bytes = hn_scalar_type_bytes(o->type), wide = o->type == HN_BF16 ? 4 : bytes;
    *out = malloc((size_t)count * wide + 1);
    if (!*out) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a copy of a tensor");
    if (!count) return NULL;
    hn_packed_strides(o->sizes, o->rank, strides);
    hn_copy_strided(*out, strides, t->data, o->strides, o->sizes, o->rank, bytes);
    if (o->type == HN_BF16) widen(*out, count);
    return NULL;
}

/* "000012_add_1.npy" */
static char *name_file(uint64_t number, const hn_step_operand *o) {
    const char *label = *o->node ? o->node : o->name;
    char text[LABEL_BYTES + 48];
    int len = snprintf(text, sizeof text, "%06llu_", (unsigned long long)number);
    if (!*label) len += snprintf(text + len, 16, "b%u", o->buffer);
    for (size_t k = 0; label[k] && k < LABEL_BYTES; k++) {
        const char c = label[k];
        const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
        text[len++] = is_plain ? c : '_';
    }
    snprintf(text + len, 5, ".npy");
    return strdup(text);
}

static hn_status write_file(hn_debug *d, const hn_debug_tensor *t) {
    char path[PATH_MAX];
    uint8_t *elements = NULL;
    char *name = name_file(++d->out->saved, t->operand);
    if (!name) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the name of a file");
    snprintf(path, sizeof path, "%s/%s", d->options.path, name);
    hn_status status = pack(t, &elements);
    if (!status)
        status = hn_npy_write(path, descr_of(t->operand->type), t->operand->rank, t->operand->sizes,
                              elements);
    free(elements);
    if (status) {
        free(name);
        return status;
    }
    free(t->seen->file);
    t->seen->file = name;
    return NULL;
}

/* ---- the manifest ---- */

static void put_text(hn_strbuf *out, const char *key, const char *text) {
    hn_strbuf_printf(out, ", \"%s\": ", key);
    hn_strbuf_json(out, hn_str_of(text));
}

static void put_dims(hn_strbuf *out, const char *key, uint32_t rank, const int64_t *dims) {
    hn_strbuf_printf(out, ", \"%s\": [", key);
    for (uint32_t d = 0; d < rank; d++)
        hn_strbuf_printf(out, "%s%lld", d ? ", " : "", (long long)dims[d]);
    hn_strbuf_putc(out, ']');
}

static void put_entry(const hn_debug_tensor *t, hn_strbuf *out) {
    static const char *const whens[] = {"input", "before", "after"};
    const hn_step_operand *o = t->operand;
    const bool has_step = t->when != HN_DEBUG_INPUT;
    hn_strbuf_printf(out, "{\"call\": %llu", (unsigned long long)t->call);
    if (has_step) hn_strbuf_printf(out, ", \"step\": %u", t->step->index);
    if (*t->step->program) put_text(out, "program", t->step->program);
    put_text(out, "when", whens[t->when]);
    put_text(out, "kernel", has_step ? t->step->name : "");
    put_text(out, "kernel_node", has_step ? t->step->node : "");
    put_text(out, "source", has_step ? t->step->source : "");
    hn_strbuf_printf(out, ", \"operand\": \"b%u\"", o->buffer);
    put_text(out, "name", o->name);
    put_text(out, "node", o->node);
    put_text(out, "dtype", hn_scalar_type_name(o->type));
    put_dims(out, "shape", o->rank, o->sizes);
    put_dims(out, "strides", o->rank, o->strides);
    hn_strbuf_printf(out, ", \"complete\": %s", o->is_partial ? "false" : "true");
    put_text(out, "file", t->seen->file);
    hn_strbuf_putc(out, '}');
}

/* Behind an entry that did not fit: what was there before takes no more room. */
static void restore_end(hn_debug *d) {
    hn_status_free(write_at(d, tail, sizeof tail - 1, d->out->manifest_end));
    if (ftruncate(d->out->manifest_fd, d->out->manifest_end + (int64_t)sizeof tail - 1) != 0)
        return;
}

static hn_status add_entry(hn_debug *d, const hn_debug_tensor *t) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, d->out->entries ? ",\n" : "\n");
    put_entry(t, &text);
    const size_t len = text.len;
    hn_strbuf_puts(&text, tail);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = write_at(d, text.ptr, text.len, d->out->manifest_end);
    if (!status) d->out->manifest_end += (int64_t)len, d->out->entries++;
    else restore_end(d);
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_debug_files_save(hn_debug *d, const hn_debug_tensor *t) {
    if (!t->seen->file) HN_TRY(write_file(d, t));
    return add_entry(d, t);
}
