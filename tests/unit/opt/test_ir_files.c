/* Every tests/ir/<name>.hnir that runs fold or patterns: the passes give the expected text, and the
 * graph says the same before and after.
 *
 *   # RUN: -p fold -p patterns       the passes, as `henry opt` takes them
 *   # TOLERANCE: 1e-5 1e-6 reason    rtol and atol; without it outputs must be the same to the bit
 *   # INPUTS: finite small           no infinities; integer inputs (indices) are 0 or 1
 *   # | text                         a line of the expected output
 *
 * tests/ir/run.sh reads the same files and asks the command line for the text. */
#include "unit/opt/equivalence.h"

#include "base/file.h"
#include "ir/loop.h"

#include <dirent.h>

static const char folder[] = "tests/ir";

typedef struct ir_file {
    hn_strbuf text, want;
    const eq_pass *passes[8];
    uint32_t pass_count;
    eq_options options;
    bool runs, fails;
} ir_file;

static void read_passes(ir_file *f, const char *line, const char *name) {
    char word[32];
    int used;
    for (; sscanf(line, " -p %31s%n", word, &used) == 1; line += used) {
        const eq_pass *found = NULL;
        for (size_t k = 0; k < HN_COUNT_OF(eq_passes); k++)
            if (strcmp(eq_passes[k].name, word) == 0) found = &eq_passes[k];
        if (!found) HN_TEST_FAIL("%s: no pass '%s'", name, word);
        if (found && f->pass_count < HN_COUNT_OF(f->passes)) f->passes[f->pass_count++] = found;
    }
}

static void read_line(ir_file *f, const char *line, const char *name) {
    if (strncmp(line, "# RUN:", 6) == 0) {
        f->runs = true;
        read_passes(f, line + 6, name);
    }
    if (strncmp(line, "# ERROR:", 8) == 0) f->fails = true;
    if (strncmp(line, "# TOLERANCE:", 12) == 0)
        EXPECT_INT(sscanf(line + 12, "%lf %lf", &f->options.rtol, &f->options.atol), 2);
    if (strncmp(line, "# INPUTS:", 9) == 0) {
        f->options.finite = strstr(line, "finite") != NULL;
        f->options.small_indices = strstr(line, "small") != NULL;
    }
    if (strncmp(line, "# |", 3) == 0)
        hn_strbuf_printf(&f->want, "%s\n", line + (line[3] == ' ' ? 4 : 3));
}

static void read_file(ir_file *f, const char *path) {
    *f = (ir_file){0};
    hn_strbuf_init(&f->text);
    hn_strbuf_init(&f->want);
    EXPECT_OK(hn_file_read(path, &f->text));
    hn_strbuf_putc(&f->text, 0);
    if (hn_program_is_text(hn_strbuf_str(&f->text))) return; /* loop IR has no graph passes */
    for (const char *line = f->text.ptr; line && *line;) {
        const char *end = strchr(line, '\n');
        char copy[4096];
        snprintf(copy, sizeof copy, "%.*s", end ? (int)(end - line) : (int)strlen(line), line);
        read_line(f, copy, path);
        line = end ? end + 1 : NULL;
    }
}

static void expect_text(const eq_graph *g, const ir_file *f, const char *path) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_graph_print(g->g, &text);
    if (strcmp(hn_strbuf_str(&text).ptr, hn_strbuf_str(&f->want).ptr) != 0)
        HN_TEST_FAIL("%s gives\n%s\nexpected\n%s", path, text.ptr, hn_strbuf_str(&f->want).ptr);
    hn_strbuf_deinit(&text);
}

static void run_file(const ir_file *f, const char *path) {
    eq_graph before, after;
    bool parsed = eq_parse(&before, f->text.ptr);
    if (eq_parse(&after, f->text.ptr) && parsed) {
        hn_status status = NULL;
        for (uint32_t k = 0; k < f->pass_count && !status; k++)
            status = eq_run_pass(&after, f->passes[k]->run, false);
        if (status) {
            HN_TEST_FAIL("%s: %s", path, hn_status_message(status));
        } else {
            expect_text(&after, f, path);
            eq_expect_same(&before, &after, path, &f->options);
        }
        hn_status_free(status);
    }
    eq_end(&before);
    eq_end(&after);
}

/* Files of other passes are the command line's business alone. */
static bool is_ours(const ir_file *f) {
    for (uint32_t k = 0; k < f->pass_count; k++)
        if (f->passes[k]->run == hn_pass_fold || f->passes[k]->run == hn_pass_patterns)
            return f->runs && !f->fails;
    return false;
}

TEST(ir_files) {
    struct dirent **names = NULL;
    int count = scandir(folder, &names, NULL, alphasort), ran = 0;
    EXPECT(count >= 0);
    for (int k = 0; k < count; k++) {
        char path[512];
        size_t len = strlen(names[k]->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, names[k]->d_name);
        free(names[k]);
        if (len < 6 || strcmp(path + strlen(path) - 5, ".hnir") != 0) continue;
        ir_file f;
        read_file(&f, path);
        if (is_ours(&f)) {
            run_file(&f, path);
            ran++;
        }
        hn_strbuf_deinit(&f.text);
        hn_strbuf_deinit(&f.want);
    }
    free(names);
    EXPECT(ran > 20);
}

TEST_MAIN
