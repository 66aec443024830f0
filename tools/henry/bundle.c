/* bundle.c: `henry bundle`: keys, signing and verifying. */
#include "tool.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static hn_status keygen(const tool_options *o) {
    char secret[PATH_MAX], public[PATH_MAX];
    if (snprintf(secret, sizeof secret, "%s.key", o->output) >= PATH_MAX || snprintf(public, sizeof public, "%s.pub", o->output) >= PATH_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the name is too long");
    HN_TRY(hn_bundle_keys_create(secret, public));
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "%s: signs; keep it to yourself\n%s: verifies; give it to those who run your bundles\n", secret, public);
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

hn_status tool_bundle_verify(const tool_options *o, const char *path) {
    hn_public_key *keys;
    HN_TRY(tool_trust_read(o, &keys));
    hn_status status = hn_bundle_verify_signed(path, o->weights, keys, o->trusts.count);
    free(keys);
    return status;
}

static hn_status verify(const tool_options *o) {
    const char *path = o->args.items[1];
    hn_strbuf text;
    HN_TRY(o->trusts.count ? tool_bundle_verify(o, path) : hn_bundle_verify_file(path, true));
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "%s: every byte verifies%s\n", path, o->trusts.count ? ", and a trusted key signed it" : "");
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

int tool_cmd_bundle(const tool_options *o) {
    const char *action = o->args.items[0];
    bool has_file = o->args.count == 2;
    if (strcmp(action, "keygen") == 0) {
        if (has_file || !o->output) return tool_usage("bundle", "say with -o NAME what the keys are called");
        return tool_report(keygen(o));
    }
    if (strcmp(action, "sign") == 0) {
        if (!has_file || !o->key) return tool_usage("bundle", "expected: henry bundle sign BUNDLE --key KEY");
        return tool_report(hn_bundle_sign_file(o->args.items[1], o->key, o->weights));
    }
    if (strcmp(action, "verify") != 0) return tool_usage("bundle", "unknown action '%s': keygen, sign or verify", action);
    if (!has_file) return tool_usage("bundle", "expected: henry bundle verify BUNDLE");
    return tool_report(verify(o));
}
