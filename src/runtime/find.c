/* find.c: inputs, outputs and weights of a module by name. */
#include "runtime/module_impl.h"

#include "base/near.h"
#include "base/require.h"

static hn_status not_found(const char *missing, const char *name, uint32_t count,
                           hn_near_name name_at, const void *user) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_near_print(&text, name, count, name_at, user);
    hn_status status =
        HN_ERROR(HN_NOT_FOUND, "%s '%s'; %s", missing, name, text.ptr ? text.ptr : "");
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_name_find(const char *missing, const char *what, const char *name, uint32_t count,
                       hn_near_name name_at, const void *user, uint32_t *out_index) {
    uint32_t found = UINT32_MAX;
    for (uint32_t k = 0; k < count; k++) {
        if (strcmp(name_at(user, k), name) != 0) continue;
        if (found != UINT32_MAX)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "the %ss %u and %u are both called '%s'; take them by index", what,
                            found, k, name);
        found = k;
    }
    if (found == UINT32_MAX || !*name) return not_found(missing, name, count, name_at, user);
    *out_index = found;
    return NULL;
}

static const char *input_at(const void *m, uint32_t k) {
    return ((const hn_module *)m)->input_infos[k].name;
}
static const char *output_at(const void *m, uint32_t k) {
    return ((const hn_module *)m)->output_infos[k].name;
}

hn_status hn_module_input_find(const hn_module *m, const char *name, uint32_t *out_index) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(name, "name");
    HN_REQUIRE(out_index, "out_index");
    return hn_name_find("the model has no input", "input", name, hn_module_input_count(m), input_at,
                        m, out_index);
}

hn_status hn_module_output_find(const hn_module *m, const char *name, uint32_t *out_index) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(name, "name");
    HN_REQUIRE(out_index, "out_index");
    return hn_name_find("the model has no output", "output", name, hn_module_output_count(m),
                        output_at, m, out_index);
}
