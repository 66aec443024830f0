/* fuzz_json.c: any bytes as JSON: walked value by value, and skipped; a text that can be walked
 * must be one that can be skipped. */
#include "base/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static hn_status walk(hn_json *json) {
    hn_str text;
    double number;
    int64_t integer;
    bool flag;
    hn_json mark = *json;
    switch (hn_json_peek(json)) {
    case HN_JSON_OBJECT:
        HN_TRY(hn_json_object(json));
        while (hn_json_key(json, &text)) HN_TRY(walk(json));
        return hn_json_status(json);
    case HN_JSON_ARRAY:
        HN_TRY(hn_json_array(json));
        while (hn_json_item(json)) HN_TRY(walk(json));
        return hn_json_status(json);
    case HN_JSON_STRING:
        hn_status_free(hn_json_raw_string(&mark, &text));
        return hn_json_string(json, &text);
    case HN_JSON_NUMBER:
        hn_status_free(hn_json_int(&mark, &integer));
        return hn_json_float(json, &number);
    case HN_JSON_BOOL: return hn_json_bool(json, &flag);
    case HN_JSON_NULL: return hn_json_null(json) ? NULL : hn_json_error(json, "no null");
    case HN_JSON_END: break;
    }
    return hn_json_skip(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_arena arena;
    hn_json json, again;
    hn_arena_init(&arena);
    hn_json_init(&json, &arena, (hn_str){(const char *)data, size});
    again = json;
    hn_status status = walk(&json);
    hn_status skipped = hn_json_skip(&again);
    if (!status && (skipped || again.at != json.at)) abort();
    hn_status_free(status);
    hn_status_free(skipped);
    hn_arena_deinit(&arena);
    return 0;
}
