/* record_text.c: tuning records as lines of JSON: docs/tuning.md, "Records". */
#include "tune/record.h"

#include "base/json.h"
#include "base/json_put.h"

/* ---- writing ---- */

/* A key that may need escapes. */
static void put_key(hn_str key, hn_strbuf *out) {
    hn_json_item_put(out);
    hn_strbuf_json(out, key);
    hn_strbuf_putc(out, ':');
}

static void put_sizes(const hn_tuning_record *r, hn_strbuf *out) {
    hn_json_key_put(out, "sizes");
    hn_json_open_put(out, '{');
    for (uint32_t k = 0; k < r->size_count; k++) {
        put_key(r->symbols[k], out);
        hn_strbuf_i64(out, r->sizes[k]);
    }
    hn_json_close_put(out, '}');
}

static void put_device(hn_str device, hn_strbuf *out) {
    hn_str name, value;
    hn_json_key_put(out, "device");
    hn_json_open_put(out, '{');
    while (hn_device_field_next(&device, &name, &value)) {
        put_key(name, out);
        hn_strbuf_json(out, value);
    }
    hn_json_close_put(out, '}');
}

static void put_form(const hn_form_timing *f, hn_strbuf *out) {
    hn_json_open_put(out, '{');
    hn_json_text_put(out, "form", f->form.name);
    if (f->form.parameters.len) hn_json_text_put(out, "parameters", f->form.parameters);
    if (f->samples) {
        hn_json_float_put(out, "median_ns", f->median_ns);
        hn_json_float_put(out, "low_ns", f->low_ns);
        hn_json_float_put(out, "high_ns", f->high_ns);
        hn_json_int_put(out, "samples", f->samples);
    }
    if (f->ratio > 0) {
        hn_json_float_put(out, "ratio", f->ratio);
        hn_json_float_put(out, "ratio_low", f->ratio_low);
        hn_json_float_put(out, "ratio_high", f->ratio_high);
    }
    if (f->predicted_ns > 0) hn_json_float_put(out, "predicted_ns", f->predicted_ns);
    if (f->is_extra) hn_json_bool_put(out, "extra", true);
    if (f->dropped.len) hn_json_text_put(out, "dropped", f->dropped);
    hn_json_close_put(out, '}');
}

static void put_pick(const hn_tuning_record *r, hn_strbuf *out) {
    hn_strbuf pick;
    hn_strbuf_init(&pick);
    hn_form_name_print(&r->forms[r->pick].form, &pick);
    hn_json_text_put(out, "pick", hn_strbuf_str(&pick));
    out->failed |= pick.failed;
    hn_strbuf_deinit(&pick);
}

void hn_tuning_record_print(const hn_tuning_record *r, hn_strbuf *out) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(&r->digest, hex);
    hn_strbuf_printf(out, "{\"record\":%d", HN_TUNING_VERSION);
    if (r->kernel.len) hn_json_text_put(out, "kernel", r->kernel);
    hn_json_text_put(out, "digest", hn_str_of(hex));
    put_sizes(r, out);
    put_pick(r, out);
    hn_json_text_put(out, "how", hn_str_of(hn_tuning_how_name(r->how)));
    hn_json_key_put(out, "forms");
    hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < r->form_count; k++) put_form(&r->forms[k], out);
    hn_json_close_put(out, ']');
    put_device(r->device, out);
    if (r->tool.len) hn_json_text_put(out, "tool", r->tool);
    hn_strbuf_puts(out, "}\n");
}

/* ---- reading ---- */

/* Fields of a record; bits of those that were seen. */
enum {
    FIELD_RECORD = 1,
    FIELD_KERNEL = 2,
    FIELD_DIGEST = 4,
    FIELD_SIZES = 8,
    FIELD_PICK = 16,
    FIELD_HOW = 32,
    FIELD_FORMS = 64,
    FIELD_DEVICE = 128,
    FIELD_TOOL = 256
};

static const struct {
    const char *name;
    bool is_needed;
} fields[] = {{"record", true}, {"kernel", false}, {"digest", true},
              {"sizes", true},  {"pick", true},    {"how", true},
              {"forms", true},  {"device", true},  {"tool", false}};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

typedef struct reader {
    hn_json json;
    hn_arena *arena;
    hn_tuning_record *r;
    hn_str pick; /* until the forms are known */
    uint32_t seen;
    struct {
        hn_form_timing *items;
        uint32_t count, cap;
    } forms;
} reader;

static hn_status read_version(reader *in) {
    int64_t version;
    HN_TRY(hn_json_int(&in->json, &version));
    if (version < 1) return hn_json_error(&in->json, "expected a version of 1 or more");
    if (version > HN_TUNING_VERSION)
        return HN_ERROR(HN_INCOMPATIBLE,
                        "a record of version %lld, and this is henry for version %d",
                        (long long)version, HN_TUNING_VERSION);
    return NULL;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static hn_status read_digest(reader *in) {
    hn_str text;
    HN_TRY(hn_json_string(&in->json, &text));
    bool is_good = text.len == 2 * sizeof in->r->digest.bytes;
    for (size_t k = 0; is_good && k < sizeof in->r->digest.bytes; k++) {
        const int high = digit_of(text.ptr[2 * k]), low = digit_of(text.ptr[2 * k + 1]);
        is_good = high >= 0 && low >= 0;
        if (is_good) in->r->digest.bytes[k] = (uint8_t)(high << 4 | low);
    }
    return is_good ? NULL : hn_json_error(&in->json, "expected 64 hexadecimal digits, small ones");
}

static hn_status read_sizes(reader *in) {
    hn_tuning_record *r = in->r;
    HN_TRY(hn_json_object(&in->json));
    for (hn_str name; hn_json_key(&in->json, &name);) {
        if (r->size_count == HN_TUNING_SIZES_MAX)
            return hn_json_error(&in->json, "expected at most 8 sizes");
        r->symbols[r->size_count] = name;
        HN_TRY(hn_json_int(&in->json, &r->sizes[r->size_count++]));
    }
    return hn_json_status(&in->json);
}

static hn_status read_how(reader *in) {
    hn_str text;
    HN_TRY(hn_json_string(&in->json, &text));
    for (int k = 0; k < HN_TUNING_HOW_COUNT; k++)
        if (hn_str_eq(text, hn_str_of(hn_tuning_how_name((hn_tuning_how)k)))) {
            in->r->how = (hn_tuning_how)k;
            return NULL;
        }
    return hn_json_error(&in->json,
                         "expected \"model\", \"timed\", \"descent\" or \"forced\" behind \"how\"");
}

static hn_status read_samples(reader *in, hn_form_timing *f) {
    int64_t samples;
    HN_TRY(hn_json_int(&in->json, &samples));
    if (samples < 0 || samples > UINT32_MAX)
        return hn_json_error(&in->json, "expected a number of samples");
    f->samples = (uint32_t)samples;
    return NULL;
}

static hn_status read_form(reader *in) {
    hn_json *json = &in->json;
    hn_form_timing f = {.samples = 0};
    if (in->forms.count == HN_TUNING_FORMS_MAX)
        return hn_json_error(json, "expected at most 64 forms");
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("form"))) HN_TRY(hn_json_string(json, &f.form.name));
        else if (hn_str_eq(key, HN_STR("parameters")))
            HN_TRY(hn_json_string(json, &f.form.parameters));
        else if (hn_str_eq(key, HN_STR("median_ns"))) HN_TRY(hn_json_float(json, &f.median_ns));
        else if (hn_str_eq(key, HN_STR("low_ns"))) HN_TRY(hn_json_float(json, &f.low_ns));
        else if (hn_str_eq(key, HN_STR("high_ns"))) HN_TRY(hn_json_float(json, &f.high_ns));
        else if (hn_str_eq(key, HN_STR("samples"))) HN_TRY(read_samples(in, &f));
        else if (hn_str_eq(key, HN_STR("ratio"))) HN_TRY(hn_json_float(json, &f.ratio));
        else if (hn_str_eq(key, HN_STR("ratio_low"))) HN_TRY(hn_json_float(json, &f.ratio_low));
        else if (hn_str_eq(key, HN_STR("ratio_high"))) HN_TRY(hn_json_float(json, &f.ratio_high));
        else if (hn_str_eq(key, HN_STR("predicted_ns")))
            HN_TRY(hn_json_float(json, &f.predicted_ns));
        else if (hn_str_eq(key, HN_STR("extra"))) HN_TRY(hn_json_bool(json, &f.is_extra));
        else if (hn_str_eq(key, HN_STR("dropped"))) HN_TRY(hn_json_string(json, &f.dropped));
        else HN_TRY(hn_json_skip(json));
    }
    HN_TRY(hn_json_status(json));
    HN_PUSH(in->arena, &in->forms, f);
    return NULL;
}

static hn_status read_forms(reader *in) {
    HN_TRY(hn_json_array(&in->json));
    while (hn_json_item(&in->json)) HN_TRY(read_form(in));
    return hn_json_status(&in->json);
}

/* A line end would make two fields of one, an equals sign another name. */
static bool has_any(hn_str text, char a, char b) {
    return text.len && (memchr(text.ptr, a, text.len) || memchr(text.ptr, b, text.len));
}

static hn_status read_device_fields(reader *in, hn_strbuf *device) {
    HN_TRY(hn_json_object(&in->json));
    for (hn_str name, value; hn_json_key(&in->json, &name);) {
        HN_TRY(hn_json_string(&in->json, &value));
        if (has_any(name, '=', '\n') || has_any(value, '\n', '\n'))
            return hn_json_error(&in->json, "expected a field of the device as one line");
        hn_device_field_add(device, name, value);
    }
    HN_TRY(hn_json_status(&in->json));
    return hn_strbuf_status(device);
}

static hn_status read_device(reader *in) {
    hn_strbuf device;
    hn_strbuf_init(&device);
    hn_status status = read_device_fields(in, &device);
    if (!status && device.len) {
        char *copy = hn_arena_strndup(in->arena, device.ptr, device.len);
        in->r->device = (hn_str){copy, device.len};
        if (!copy) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a tuning record");
    }
    hn_strbuf_deinit(&device);
    return status;
}

static hn_status read_field(reader *in, uint32_t field) {
    switch (field) {
    case FIELD_RECORD: return read_version(in);
    case FIELD_KERNEL: return hn_json_string(&in->json, &in->r->kernel);
    case FIELD_DIGEST: return read_digest(in);
    case FIELD_SIZES: return read_sizes(in);
    case FIELD_PICK: return hn_json_string(&in->json, &in->pick);
    case FIELD_HOW: return read_how(in);
    case FIELD_FORMS: return read_forms(in);
    case FIELD_DEVICE: return read_device(in);
    case FIELD_TOOL: return hn_json_string(&in->json, &in->r->tool);
    default: return hn_json_skip(&in->json);
    }
}

static uint32_t field_of(hn_str key) {
    for (uint32_t k = 0; k < FIELD_COUNT; k++)
        if (hn_str_eq(key, hn_str_of(fields[k].name))) return 1u << k;
    return 0;
}

static hn_status read_fields(reader *in) {
    HN_TRY(hn_json_object(&in->json));
    for (hn_str key; hn_json_key(&in->json, &key);) {
        const uint32_t field = field_of(key);
        if (in->seen & field)
            return HN_ERROR(HN_CORRUPT, "the field \"" HN_STR_FMT "\" is there twice",
                            HN_STR_ARG(key));
        in->seen |= field;
        HN_TRY(read_field(in, field));
        /* of a later version the rest may be anything */
        if (!(in->seen & FIELD_RECORD))
            return hn_json_error(&in->json, "expected \"record\" as the first field");
    }
    HN_TRY(hn_json_finish(&in->json));
    for (uint32_t k = 0; k < FIELD_COUNT; k++)
        if (fields[k].is_needed && !(in->seen & 1u << k))
            return HN_ERROR(HN_CORRUPT, "expected a field \"%s\"", fields[k].name);
    return NULL;
}

/* "rows lanes=16". */
static bool is_called(const hn_form_name *form, hn_str text) {
    const size_t name = form->name.len;
    if (!form->parameters.len) return hn_str_eq(form->name, text);
    return text.len == name + 1 + form->parameters.len && text.ptr[name] == ' ' &&
           hn_str_eq(form->name, (hn_str){text.ptr, name}) &&
           hn_str_eq(form->parameters, (hn_str){text.ptr + name + 1, form->parameters.len});
}

/* A form by its name and parameters; by its name alone where that is one form. */
static hn_status find_pick(reader *in) {
    hn_tuning_record *r = in->r;
    uint32_t same_name = 0;
    r->forms = in->forms.items, r->form_count = in->forms.count;
    for (uint32_t k = 0; k < r->form_count; k++) {
        if (is_called(&r->forms[k].form, in->pick)) {
            r->pick = k;
            return NULL;
        }
        if (hn_str_eq(r->forms[k].form.name, in->pick)) r->pick = k, same_name++;
    }
    if (same_name == 1) return NULL;
    return HN_ERROR(HN_CORRUPT,
                    same_name ? "several forms are called \"" HN_STR_FMT "\": say which, with its "
                                "parameters"
                              : "the pick \"" HN_STR_FMT "\" is none of the forms",
                    HN_STR_ARG(in->pick));
}

/* What was measured does not say that this form runs: so somebody has. */
static void see_who_picked(hn_tuning_record *r) {
    const hn_form_timing *pick = &r->forms[r->pick];
    const bool is_measured = r->how == HN_TUNING_TIMED || r->how == HN_TUNING_DESCENT;
    if (is_measured && (!pick->samples || (pick->ratio != 0 && !hn_tuning_record_has_winner(r))))
        r->how = HN_TUNING_FORCED;
}

hn_status hn_tuning_record_parse(hn_arena *arena, hn_str line, hn_tuning_record *out) {
    reader in = {.arena = arena, .r = out};
    *out = (hn_tuning_record){.size_count = 0};
    if (line.len > HN_TUNING_LINE_MAX)
        return HN_ERROR(HN_CORRUPT, "expected a line of at most %d bytes", HN_TUNING_LINE_MAX);
    hn_json_init(&in.json, arena, line);
    HN_TRY(read_fields(&in));
    HN_TRY(find_pick(&in));
    see_who_picked(out);
    hn_status status = hn_tuning_record_check(out);
    if (!status) return NULL;
    hn_status told = HN_ERROR(HN_CORRUPT, "%s", hn_status_message(status));
    hn_status_free(status);
    return told;
}
