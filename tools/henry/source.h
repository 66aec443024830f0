/* source.h: a kernel's source file with the options that go with it, as `henry kernel` and `henry cache why` take it. */
#ifndef HENRY_TOOL_SOURCE_H
#define HENRY_TOOL_SOURCE_H

#include "tool.h"

/* Reads `path` into `storage` and fills `out`, which borrows from it and from `options`. */
hn_status tool_source_read(const tool_options *options, const char *path, hn_strbuf *storage, hn_source *out) HN_MUST_USE;
/* Options of the compile service from the command line. */
hn_service_options tool_service_options(const tool_options *options);

#endif
