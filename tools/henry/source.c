/* source.c: reading a kernel's source file: its language, and what the command line adds. See
 * source.h. */
#include "source.h"

#include "base/compiler.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/oserror.h"
#include "toolchain/flags.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

static bool ends_with(const char *text, const char *suffix) {
    size_t len = strlen(text), suffix_len = strlen(suffix);
    return len > suffix_len && strcmp(text + len - suffix_len, suffix) == 0;
}

/* The first language whose sources have this suffix. */
static const char *language_of(const char *path) {
    for (uint32_t k = 0; k < HN_TOOLCHAIN_ROWS; k++) {
        const hn_toolchain_row *row = hn_toolchain_row_at(k);
        for (const char *const *suffix = row->suffixes; *suffix; suffix++)
            if (ends_with(path, *suffix)) return row->language;
    }
    return NULL;
}

/* Whether there is an #include "...", as it is usually written. */
static bool has_quoted_include(hn_str text) {
    for (const char *at = text.ptr;
         (at = memmem(at, (size_t)(text.ptr + text.len - at), "include", 7));) {
        at += 7;
        while (at < text.ptr + text.len && (*at == ' ' || *at == '\t')) at++;
        if (at < text.ptr + text.len && *at == '"') return true;
    }
    return false;
}

/* How a language is told of a directory for quoted headers. */
static const char *directory_flag(const char *language) {
    return strcmp(language, "cuda") == 0 || strcmp(language, "nvcc") == 0 ? "-I" : "-iquote";
}

static hn_status directory_of(const char *path, char out[PATH_MAX]) {
    char *real = realpath(path, NULL);
    if (!real) return HN_OS_ERROR(errno, "cannot resolve '%s'", path);
    snprintf(out, PATH_MAX, "%.*s", (int)(strrchr(real, '/') - real), real);
    free(real);
    return NULL;
}

/* The flag that the language adds when none says how to optimise; NULL: there is one, or it needs
 * none. */
static const char *default_flag(const hn_toolchain_row *row, const tool_list *flags) {
    for (uint32_t k = 0; k < flags->count; k++)
        if (hn_flags_have_level((hn_str){flags->items[k], strlen(flags->items[k]) + 1}))
            return NULL;
    return row->default_flag;
}

static size_t add_flags(const hn_toolchain_row *row, const tool_list *given, const char *own,
                        const char **out) {
    const char *level = default_flag(row, given);
    size_t count = 0;
    if (level) out[count++] = level;
    for (uint32_t k = 0; k < given->count; k++) out[count++] = given->items[k];
    if (own) out[count++] = own;
    return count;
}

/* A job means the same on every machine; whoever types a command may mean this one. */
static const char *target_item(const hn_toolchain_row *row, const char *item) {
    bool is_here = row->is_for_cpu && (strcmp(item, "host") == 0 || strcmp(item, "native") == 0);
    return is_here ? hn_cpu_level_host()->name : item;
}

static size_t add_targets(const hn_toolchain_row *row, const tool_list *given, const char *own,
                          const char **out) {
    size_t count = 0;
    for (uint32_t k = 0; k < given->count; k++) out[count++] = target_item(row, given->items[k]);
    if (own) out[count++] = own;
    return count;
}

static bool names_module(const tool_list *targets) {
    for (uint32_t k = 0; k < targets->count; k++)
        if (strncmp(targets->items[k], "module=", 7) == 0) return true;
    return false;
}

/* "-iquote/dir" and "module=name" into `own`; which of the two there are. */
static hn_status add_own(const tool_options *o, const char *path, tool_source *out, bool *has_flag,
                         bool *has_module) {
    const char *language = out->source.language, *slash = strrchr(path, '/'),
               *name = slash ? slash + 1 : path;
    *has_flag = has_quoted_include(hn_strbuf_str(&out->text));
    *has_module = strcmp(language, "python") == 0 && !names_module(&o->targets);
    if (*has_flag) {
        char dir[PATH_MAX];
        HN_TRY(directory_of(path, dir));
        hn_strbuf_puts(&out->own, directory_flag(language));
        hn_strbuf_puts(&out->own, dir);
        hn_strbuf_append(&out->own, "", 1);
    }
    if (*has_module) hn_strbuf_printf(&out->own, "module=%.*s", (int)strcspn(name, "."), name);
    return hn_strbuf_status(&out->own);
}

hn_status tool_source_read(const tool_options *o, const char *path, tool_source *out) {
    bool has_flag, has_module;
    *out = (tool_source){
        .source = {.name = path, .language = o->language ? o->language : language_of(path)}};
    hn_strbuf_init(&out->text);
    hn_strbuf_init(&out->own);
    hn_source *s = &out->source;
    if (!s->language)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot tell the language of '%s' by its suffix; give --language", path);
    const hn_toolchain_row *row;
    HN_TRY(hn_toolchain_row_find(hn_str_of(s->language), &row));
    HN_TRY(hn_file_read(path, &out->text));
    HN_TRY(add_own(o, path, out, &has_flag, &has_module));
    const char *own = out->own.ptr;
    s->text = hn_strbuf_str(&out->text).ptr;
    s->text_len = out->text.len;
    s->entries = o->entries.items;
    s->entry_count = o->entries.count;
    s->flags = out->flags;
    s->flag_count = add_flags(row, &o->flags, has_flag ? own : NULL, out->flags);
    s->env = o->variables.items;
    s->env_count = o->variables.count;
    s->target = out->targets;
    s->target_count = add_targets(row, &o->targets,
                                  !has_module ? NULL
                                  : has_flag  ? own + strlen(own) + 1
                                              : own,
                                  out->targets);
    return NULL;
}

void tool_source_deinit(tool_source *source) {
    hn_strbuf_deinit(&source->text);
    hn_strbuf_deinit(&source->own);
}

hn_service_options tool_service_options(const tool_options *o) {
    return (hn_service_options){.threads = o->compile_threads > 0 && o->compile_threads < INT32_MAX
                                               ? (int32_t)o->compile_threads
                                               : 0,
                                .no_standby = o->no_standby,
                                .cache_dir = o->no_cache ? "" : o->cache_dir,
                                .cache_tag = o->cache_tag,
                                .remote_url = o->no_cache ? "" : o->remote};
}
