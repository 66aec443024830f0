/* bundle.c: `henry bundle`: keys, signing and verifying. */
#include "tool.h"

#include "base/file.h"
#include "bundle/weights.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static hn_status keygen(const tool_options *o) {
    char secret[PATH_MAX], public[PATH_MAX];
    if (snprintf(secret, sizeof secret, "%s.key", o->output) >= PATH_MAX ||
        snprintf(public, sizeof public, "%s.pub", o->output) >= PATH_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the name is too long");
    HN_TRY(hn_bundle_keys_create(secret, public));
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(
        &text,
        "%s: the secret key, which signs; keep it to yourself\n%s: the public key, which verifies; give it to those who run your bundles\n",
        secret, public);
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

hn_status tool_bundle_verify(const tool_options *o, const char *path) {
    hn_public_key *keys;
    if (!o->trusts.count) return hn_bundle_verify_with(path, o->weights_file);
    HN_TRY(tool_trust_read(o, &keys));
    hn_status status = hn_bundle_verify_signed(path, o->weights_file, keys, o->trusts.count);
    free(keys);
    return status;
}

/* Who signed a bundle: hex of the key; "" when nobody did. */
static hn_status signer_of(const char *path, hn_digest *out, char hex[HN_DIGEST_HEX_BYTES]) {
    hn_file_map map;
    hn_bundle b;
    HN_TRY(hn_file_map_init(&map, path));
    hn_status status = hn_bundle_open(map.data, map.size_bytes, false, &b);
    hex[0] = '\0';
    if (!status) {
        memcpy(out->bytes, b.header->signer, sizeof out->bytes);
        if (!hn_bundle_digest_is_unknown(out->bytes)) hn_digest_hex(out, hex);
    }
    hn_file_map_deinit(&map);
    return status;
}

/* The file of --trust that has the key. */
static hn_status trusted_file(const tool_options *o, const hn_digest *signer, const char **out) {
    *out = "";
    for (uint32_t k = 0; k < o->trusts.count; k++) {
        hn_public_key key;
        HN_TRY(hn_public_key_read(o->trusts.items[k], &key));
        if (memcmp(key.bytes, signer->bytes, sizeof key.bytes) == 0) *out = o->trusts.items[k];
    }
    return NULL;
}

static hn_status print_line(hn_strbuf *text) {
    hn_status status = tool_print(text);
    hn_strbuf_deinit(text);
    return status;
}

static hn_status verify(const tool_options *o) {
    const char *path = o->args.items[1], *file;
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest signer;
    hn_strbuf text;
    HN_TRY(tool_bundle_verify(o, path));
    HN_TRY(signer_of(path, &signer, hex));
    HN_TRY(trusted_file(o, &signer, &file));
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "%s: every byte verifies; ", path);
    if (*file) hn_strbuf_printf(&text, "signed with the key in %s\n", file);
    else if (*hex)
        hn_strbuf_printf(&text, "signed with key %s, which --trust PUB can check\n", hex);
    else hn_strbuf_puts(&text, "not signed\n");
    return print_line(&text);
}

static hn_status sign(const tool_options *o) {
    const char *path = o->args.items[1];
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest signer;
    hn_strbuf text;
    HN_TRY(hn_bundle_sign_file(path, o->key, o->weights_file));
    HN_TRY(signer_of(path, &signer, hex));
    hn_strbuf_init(&text);
    hn_strbuf_printf(
        &text, "%s: every byte verified, the digest of the weights recorded, signed with key %s\n",
        path, hex);
    return print_line(&text);
}

int tool_cmd_bundle(const tool_options *o) {
    static const char *const actions[] = {"keygen", "sign", "verify", NULL};
    static const char *const allowed[] = {" --output ", " --key --weights-file ",
                                          " --trust --weights-file "};
    const char *action = o->args.items[0];
    bool has_file = o->args.count == 2;
    char near[100];
    uint32_t which = 0;
    while (actions[which] && strcmp(actions[which], action) != 0) which++;
    if (!actions[which])
        return tool_usage("bundle", "unknown action '%s'%s; there are: keygen, sign, verify",
                          action, tool_suggest(action, actions, near));
    if (tool_options_check_action("bundle", o, action, allowed[which])) return TOOL_USAGE;
    if (which == 0) {
        if (has_file || !o->output || strcmp(o->output, "-") == 0)
            return tool_usage("bundle", "give the name of the keys with -o NAME");
        return tool_report(keygen(o));
    }
    if (!has_file || (which == 1 && !o->key))
        return tool_usage("bundle", "expected: henry bundle %s BUNDLE%s", action,
                          which == 1 ? " --key KEY" : "");
    return tool_report(which == 1 ? sign(o) : verify(o));
}
