/* tables.c: metric tables of the command line: names, and rows of what `henry bench` has timed. */
#include "tool.h"

#include "base/compiler.h"
#include "driver/driver.h"
#include "henry/record.h"
#include "metrics/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tool_help_tables(const tool_help *help, hn_strbuf *out) {
    static const char *const types[] = {"text", "int", "float", "bool"};
    (void)help;
    for (uint32_t k = 0; k < hn_metric_table_count(); k++) {
        const hn_metric_table *t = hn_metric_table_get(k);
        hn_strbuf_printf(out, "%s%s: %s\n", k ? "\n" : "", t->name, t->meaning);
        for (uint32_t c = 0; c < t->column_count; c++)
            hn_strbuf_printf(out, "  %-24s %-5s %s%s%s%s\n", t->columns[c].name,
                             types[t->columns[c].type], *t->columns[c].unit ? "(" : "",
                             t->columns[c].unit, *t->columns[c].unit ? ") " : "",
                             t->columns[c].meaning);
    }
}

int tool_tables_check(const char *command, const tool_options *options) {
    hn_status status = hn_metric_tables_check(options->metric_tables);
    if (!status) return TOOL_OK;
    const int code = tool_usage(command, "--metric-tables: %s", hn_status_message(status));
    hn_status_free(status);
    return code;
}

void tool_tables_say(const tool_options *options) {
    const char *dir = options->metric_dir ? options->metric_dir : getenv("HENRY_METRIC_DIR");
    const char *names =
        options->metric_tables ? options->metric_tables : getenv("HENRY_METRIC_TABLES");
    if (!names || !*names || options->quiet) return;
    if (hn_tables_have_written())
        fprintf(stderr, "henry: metric tables are in '%s'\n", dir && *dir ? dir : ".");
    else if (options->metric_tables) /* a variable is there for commands that give no rows, too */
        fprintf(stderr, "henry: there were no rows for these metric tables; docs/metrics.md says "
                        "which command gives rows to which\n");
}

static bool wants(const tool_options *options, hn_table_id id) {
    hn_tables t;
    hn_status status = hn_tables_init(&t, options->metric_tables, options->metric_dir);
    const bool is_wanted = !status && hn_tables_wants(&t, id);
    hn_status_free(status);
    hn_tables_deinit(&t);
    return is_wanted;
}

bool tool_tables_time_steps(const tool_options *options) {
    return wants(options, HN_TABLE_NODE_RUNTIMES) || wants(options, HN_TABLE_SLOW_FUSION);
}

/* ---- steps ---- */

static hn_status put_nodes(hn_module *m, const hn_step_record *r, hn_strbuf *out) {
    hn_strbuf_reset(out);
    for (uint32_t k = 0; k < r->node_count; k++) {
        const char *node;
        HN_TRY(hn_module_step_node_get(m, r->step, k, &node, NULL));
        hn_strbuf_printf(out, "%s%s", k ? " " : "", node);
    }
    return hn_strbuf_status(out);
}

static hn_cell known(bool is_known, int64_t value) {
    return is_known ? hn_cell_int(value) : hn_cell_none();
}

static hn_status add_step(hn_tables *t, hn_module *m, uint32_t step, hn_strbuf *nodes) {
    hn_step_record r;
    hn_module_step_profile p;
    HN_TRY(hn_module_step_record(m, step, &r));
    HN_TRY(hn_module_profile(m, step, &p));
    HN_TRY(put_nodes(m, &r, nodes));
    const hn_cell cells[] = {
        hn_cell_int(step),
        hn_cell_text(hn_str_of(r.name)),
        hn_cell_text(hn_str_of(r.category_name)),
        hn_cell_text(hn_strbuf_str(nodes)),
        known(r.elements, r.elements),
        known(r.has_work, r.read_bytes),
        known(r.has_work, r.written_bytes),
        known(r.has_work, r.operations),
        known(r.has_form, r.predicted_ns),
        p.calls ? hn_cell_float((double)p.total_ns / (double)p.calls) : hn_cell_none(),
        known(p.calls, p.min_ns),
        hn_cell_int((int64_t)p.calls),
    };
    return hn_tables_add(t, HN_TABLE_NODE_RUNTIMES, cells, HN_COUNT_OF(cells));
}

/* ---- kernels that would better be apart ---- */

/* A kernel of the program without fusion. */
typedef struct part {
    hn_step_record record;
    int64_t ns;
    bool is_taken; /* by a kernel of the program with fusion */
} part;

typedef struct comparison {
    hn_tables *t;
    hn_module *fused, *apart;
    part *parts;
    uint32_t count;
    hn_strbuf nodes, names;
    const part *first, *second; /* of the kernel's parts; NULL: there is none */
} comparison;

static hn_status list_parts(comparison *c) {
    const uint32_t steps = hn_module_step_count(c->apart);
    c->parts = calloc(steps + 1u, sizeof *c->parts);
    if (!c->parts) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    for (uint32_t k = 0; k < steps; k++) {
        part *p = &c->parts[c->count];
        hn_module_step_profile profile;
        HN_TRY(hn_module_step_record(c->apart, k, &p->record));
        HN_TRY(hn_module_profile(c->apart, k, &profile));
        p->ns = profile.min_ns;
        c->count += p->record.has_form && profile.calls;
    }
    return NULL;
}

static hn_status has_node(hn_module *m, const hn_step_record *r, const char *node, bool *out) {
    *out = false;
    for (uint32_t k = 0; k < r->node_count && !*out; k++) {
        const char *own;
        HN_TRY(hn_module_step_node_get(m, r->step, k, &own, NULL));
        *out = strcmp(own, node) == 0;
    }
    return NULL;
}

/* Whether a kernel does all the nodes of a part. */
static hn_status does(const comparison *c, const hn_step_record *kernel, const part *p, bool *out) {
    *out = p->record.node_count > 0;
    for (uint32_t k = 0; k < p->record.node_count && *out; k++) {
        const char *node;
        HN_TRY(hn_module_step_node_get(c->apart, p->record.step, k, &node, NULL));
        HN_TRY(has_node(c->fused, kernel, node, out));
    }
    return NULL;
}

/* The parts of a kernel: each belongs to the first kernel that does its nodes. */
static hn_status take_parts(comparison *c, const hn_step_record *kernel, int64_t *out_ns) {
    *out_ns = 0;
    c->first = c->second = NULL;
    hn_strbuf_reset(&c->names);
    for (uint32_t k = 0; k < c->count; k++) {
        part *p = &c->parts[k];
        bool is_own = false;
        if (!p->is_taken) HN_TRY(does(c, kernel, p, &is_own));
        if (!is_own) continue;
        p->is_taken = true;
        if (!c->first) c->first = p;
        else if (!c->second) c->second = p;
        *out_ns += p->ns;
        hn_strbuf_printf(&c->names, "%s%s", c->names.len ? " " : "", p->record.name);
    }
    return hn_strbuf_status(&c->names);
}

static hn_cell name_of(const part *p) {
    return p ? hn_cell_text(hn_str_of(p->record.name)) : hn_cell_none();
}
static hn_cell time_of(const part *p) { return p ? hn_cell_float((double)p->ns) : hn_cell_none(); }

static hn_status compare_kernel(comparison *c, uint32_t step) {
    hn_step_record r;
    hn_module_step_profile profile;
    int64_t apart_ns;
    HN_TRY(hn_module_step_record(c->fused, step, &r));
    HN_TRY(hn_module_profile(c->fused, step, &profile));
    if (!r.has_form || r.fused_loops < 2 || !profile.calls) return NULL;
    HN_TRY(take_parts(c, &r, &apart_ns));
    if (!apart_ns || profile.min_ns <= apart_ns) return NULL;
    HN_TRY(put_nodes(c->fused, &r, &c->nodes));
    const hn_cell cells[] = {hn_cell_int(step),
                             hn_cell_text(hn_str_of(r.name)),
                             hn_cell_float((double)profile.min_ns),
                             hn_cell_text(hn_strbuf_str(&c->names)),
                             hn_cell_float((double)apart_ns),
                             hn_cell_float((double)profile.min_ns / (double)apart_ns),
                             hn_cell_text(hn_strbuf_str(&c->nodes)),
                             name_of(c->first),
                             time_of(c->first),
                             name_of(c->second),
                             time_of(c->second)};
    return hn_tables_add(c->t, HN_TABLE_SLOW_FUSION, cells, HN_COUNT_OF(cells));
}

static hn_status compare(hn_tables *t, hn_module *fused, hn_module *apart) {
    comparison c = {.t = t, .fused = fused, .apart = apart};
    hn_strbuf_init(&c.nodes);
    hn_strbuf_init(&c.names);
    hn_status status = list_parts(&c);
    for (uint32_t k = 0; k < hn_module_step_count(fused) && !status; k++)
        status = compare_kernel(&c, k);
    hn_strbuf_deinit(&c.nodes);
    hn_strbuf_deinit(&c.names);
    free(c.parts);
    return status;
}

static hn_status run_apart(const tool_model *apart, hn_tensor **inputs, uint32_t input_count,
                           int64_t rounds) {
    const uint32_t count = hn_module_output_count(apart->module);
    hn_tensor **outputs = calloc(count + 1u, sizeof *outputs);
    hn_status status = outputs ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    for (int64_t k = 0; k < rounds && !status; k++)
        status = hn_module_run(apart->module, inputs, input_count, outputs, count);
    if (outputs) tool_tensors_release(outputs, count);
    free(outputs);
    return status;
}

/* The same model with a kernel for each loop. Its own compilation gives no rows. */
static hn_status compare_apart(const tool_options *options, hn_tables *t, const tool_model *model,
                               hn_tensor **inputs, uint32_t input_count, int64_t rounds) {
    tool_options own = *options;
    tool_model apart;
    own.no_fusion = own.profile = true;
    own.metric_tables = "";
    HN_TRY(tool_model_load(&own, model->path, &apart));
    hn_status status = run_apart(&apart, inputs, input_count, rounds);
    if (!status) status = compare(t, model->module, apart.module);
    tool_model_deinit(&apart);
    return status;
}

/* ---- all ---- */

static hn_status add_steps(hn_tables *t, hn_module *m) {
    hn_strbuf nodes;
    hn_status status = NULL;
    hn_strbuf_init(&nodes);
    for (uint32_t k = 0; k < hn_module_step_count(m) && !status; k++)
        status = add_step(t, m, k, &nodes);
    hn_strbuf_deinit(&nodes);
    return status;
}

/* Rows begin as those of the compilation do, so that tables can be joined; of a bundle, which was
 * compiled elsewhere, with what it runs on. */
static void begin_rows(hn_tables *t, const tool_options *options, const tool_model *model) {
    const hn_str path = hn_str_of(model->path);
    hn_module_device_info device;
    hn_module_device_get(model->module, &device);
    const struct hn_compiled_rows *rows =
        model->compiled ? &model->compiled->rows[device.device.kind] : NULL;
    if (rows && rows->compilation)
        hn_tables_resume(t, path, hn_str_of(rows->target), rows->compilation);
    else hn_tables_begin(t, path, hn_str_of(options->target ? options->target : device.name));
}

hn_status tool_tables_of_bench(const tool_options *options, const tool_model *model,
                               hn_tensor **inputs, uint32_t input_count, int64_t rounds) {
    hn_tables t;
    if (!tool_tables_time_steps(options)) return NULL;
    hn_status status = hn_tables_init(&t, options->metric_tables, options->metric_dir);
    begin_rows(&t, options, model);
    if (!status) status = add_steps(&t, model->module);
    if (!status && hn_tables_wants(&t, HN_TABLE_SLOW_FUSION) && model->kind == TOOL_MODEL &&
        !options->no_fusion)
        status = compare_apart(options, &t, model, inputs, input_count, rounds);
    if (!status) status = hn_tables_write(&t);
    hn_tables_deinit(&t);
    return status;
}
