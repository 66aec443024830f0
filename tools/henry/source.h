/* source.h: a kernel's source file with the options that go with it, as `henry kernel` and `henry
 * cache why` take it. */
#ifndef HENRY_TOOL_SOURCE_H
#define HENRY_TOOL_SOURCE_H

#include "cache/cache.h"
#include "tool.h"

/* What a source borrows from, besides the options. */
typedef struct tool_source {
    hn_source source;
    hn_strbuf text, own; /* own: strings made here */
    const char *flags[TOOL_LIST_MAX + 2], *targets[TOOL_LIST_MAX + 1];
} tool_source;

/* Reads `path`. A source with #include "..." gets its own directory as a place for headers, a
 * Python module the file's name unless the target names one, and a text for which no flag says how
 * to optimise the flag of its language (-O2). `out` is to be deinited also after an error. */
hn_status tool_source_read(const tool_options *options, const char *path,
                           tool_source *out) HN_MUST_USE;
void tool_source_deinit(tool_source *source);
/* Options of the compile service from the command line. */
hn_service_options tool_service_options(const tool_options *options);

/* cache_transfer.c: the actions export and import of `henry cache`. */
hn_status tool_cache_export(const tool_options *options, hn_cache *cache) HN_MUST_USE;
hn_status tool_cache_import(const tool_options *options, hn_cache *cache) HN_MUST_USE;

#endif
