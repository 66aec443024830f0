/* compare.h: `henry run --compare DIR`, see compare.c. */
#ifndef HN_TOOLS_COMPARE_H
#define HN_TOOLS_COMPARE_H

#include "tool.h"

typedef struct tool_compare tool_compare;

/* Reads the folder, and compares during the module's first run. Owns: the caller, until
 * tool_compare_destroy, behind the module's last run. Errors: those of reading; incompatible. */
hn_status tool_compare_begin(const tool_options *options, hn_module *module,
                             tool_compare **out) HN_MUST_USE;
/* Reads the manifest only, for tool_compare_find. */
hn_status tool_compare_open(const tool_options *options, tool_compare **out) HN_MUST_USE;
/* The tensor of a node; `*out_found` false: the folder has none. Owns: it lives in `arena`. */
struct hn_ref_tensor;
hn_status tool_compare_find(const tool_compare *compare, hn_str node, hn_arena *arena,
                            struct hn_ref_tensor *out, bool *out_found) HN_MUST_USE;
void tool_compare_destroy(tool_compare *compare); /* NULL is allowed */
/* Behind the run. Errors: invalid-argument when nothing could be compared. */
hn_status tool_compare_end(tool_compare *compare) HN_MUST_USE;
/* The first node that differs, as an error; NULL: none does. */
hn_status tool_compare_status(const tool_compare *compare) HN_MUST_USE;
void tool_compare_print(const tool_compare *compare, hn_strbuf *out);
void tool_compare_json(const tool_compare *compare, tool_json *json);

#endif
