/* version.c: `henry version`. */
#include "tool.h"

#include "codegen/codegen.h"
#include "driver/build.h"
#include "henry/abi/extern_abi.h"
#include "henry/abi/kernel_abi.h"

#include <inttypes.h>

int tool_cmd_version(const tool_options *o) {
    const hn_target target = hn_target_host();
    hn_strbuf text;
    tool_json json;
    hn_strbuf_init(&text);
    tool_json_init(&json);
    hn_strbuf_printf(&text,
                     "henry %s\nbundle format %" PRId32
                     ", kernel ABI %d, extern ABI %d\nbuild %s\ncpu %s\n",
                     hn_version_string(), hn_version_bundle_format(), HN_KERNEL_ABI_VERSION,
                     HN_EXTERN_ABI_VERSION, hn_build_identity(), target.name);
    tool_json_str(&json, "version", hn_version_string());
    tool_json_int(&json, "bundle_format", hn_version_bundle_format());
    tool_json_int(&json, "kernel_abi", HN_KERNEL_ABI_VERSION);
    tool_json_int(&json, "extern_abi", HN_EXTERN_ABI_VERSION);
    tool_json_str(&json, "build", hn_build_identity());
    tool_json_str(&json, "cpu", target.name);
    hn_status status = o->json ? tool_json_finish(&json, true, NULL) : tool_print(&text);
    tool_json_deinit(&json);
    hn_strbuf_deinit(&text);
    return tool_report(status);
}
