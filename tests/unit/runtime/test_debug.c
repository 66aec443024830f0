/* test_debug.c: the tensor debugger: what it says of which steps, what it saves, where a check ends
 * a run, on every device. */
#include "unit/runtime/debug_fixture.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* That the run failed, and that its message has all of the texts. */
static void expect_said(hn_status status, const char *a, const char *b) {
    const char *message = hn_status_message(status);
    EXPECT_INT(hn_status_code(status), HN_INVALID_ARGUMENT);
    if (!strstr(message, a) || !strstr(message, b))
        HN_TEST_FAIL("got \"%s\", expected \"%s\" and \"%s\"", message, a, b);
    hn_status_free(status);
}

/* ---- levels ---- */

/* Without NVRTC, tensors of a GPU are copied, which is said once. The first test: the child of a
 * process that has used the driver could not. */
HN_UNUSED static void note_warning(void *user, const hn_log_line *line) {
    if (strstr(line->text, "statistics of tensors are made on the host")) ++*(int *)user;
}

TEST(statistics_without_a_compiler) {
#ifdef HN_FIXTURE_CUDA
    int how = 0;
    const pid_t child = fork();
    if (child == 0) {
        int warnings = 0;
        float x[8] = {0, 1, 2, 0, 0, 0, 0, -1};
        setenv("HENRY_NVRTC", "/nowhere", 1);
        EXPECT_OK(hn_log_sink_set(note_warning, &warnings));
        for (int k = 0; k < 2; k++) {
            hn_module *m = load_text(scaled, NULL);
            heard h = {.lines = 0};
            listen(m, (hn_debug_options){.level = HN_DEBUG_STATS, .kernels = "exps"}, &h);
            EXPECT_OK(run_scaled(m, x));
            EXPECT_OK(run_scaled(m, x));
            expect_heard(
                &h, "1 before exps - f32 8: -2 to 4\n1 after exps y f32 8: 0.135335 to 54.5981\n"
                    "2 before exps - f32 8: -2 to 4\n2 after exps y f32 8: 0.135335 to 54.5981\n");
            hn_strbuf_deinit(&h.text);
            hn_module_release(m);
        }
        EXPECT_INT(warnings, 1);
        fflush(stderr), _exit(hn_test_failures != 0);
    }
    EXPECT(child > 0 && waitpid(child, &how, 0) == child && WIFEXITED(how) && !WEXITSTATUS(how));
#endif
}

TEST(names_come_before_the_steps) {
    hn_module *m = load_text(scaled, NULL);
    heard h = {.lines = 0};
    float x[8] = {0};
    if (!m) return;
    hn_debug *d = listen(m, (hn_debug_options){.level = HN_DEBUG_NAMES, .kernels = any_kernel}, &h);
    EXPECT_OK(run_scaled(m, x));
    expect_heard(&h, "1 before scale2\n1 before exps\n");
    EXPECT_OK(run_scaled(m, x));
    expect_heard(&h, "2 before scale2\n2 before exps\n");
    hn_debug_detach(d);
    hn_debug_detach(d);
    EXPECT_OK(run_scaled(m, x));
    expect_heard(&h, "");
    hn_strbuf_deinit(&h.text);
    hn_module_release(m);
}

/* Of a run that ends the process, the last line names the kernel. */
TEST(the_last_line_before_a_crash) {
    char root[PATH_MAX], lines[PATH_MAX + 8];
    hn_strbuf text;
    int how = 0;
    if (FIXTURE_IS_REMOTE) return; /* the kernel calls a function of the host */
    EXPECT_OK(hn_dir_temp(root, sizeof root));
    snprintf(lines, sizeof lines, "%s/lines", root);
    const pid_t child = fork();
    if (child == 0) {
        hn_debug *d;
        hn_module *m = load_text(
            "buffer b1 : input i64[1] source 0 name \"x\" buffer b2 : output f32[4] bytes(16) "
            "buffer b3 : input f32[4] source 1 name \"z\" " KERNELS
            "input \"x\" : i64[1] strides [1] in b1 input \"z\" : f32[4] strides [1] in b3 "
            "call k4(b3 f32, out b2 f32) extent(4) call k8(b1 i64, out b2 f32) extent(1) origin 1 "
            "call k4(b3 f32, out b2 f32) extent(4) "
            "output tensor \"y\" : f32[4] strides [1] in b2",
            NULL);
        int64_t at = (int64_t)(intptr_t)abort;
        float z[4] = {0};
        hn_tensor *in[2] = {tensor_of(HN_I64, 1, (int64_t[]){1}, NULL, &at), F32(z, 4)};
        EXPECT_OK(
            hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_NAMES, .path = lines}, &d));
        EXPECT_OK(run_with(m, in, 2));
        _exit(0);
    }
    EXPECT(child > 0 && waitpid(child, &how, 0) == child);
    EXPECT(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    hn_strbuf_init(&text);
    EXPECT_OK(hn_file_read(lines, &text));
    EXPECT_STR(text.ptr, "call 1 step 0 kernel scale2\n"
                         "call 1 step 1 kernel callback, node node_one, model.py:12\n");
    hn_strbuf_deinit(&text);
    EXPECT_OK(hn_dir_remove(root));
}

TEST(statistics_before_and_after) {
    hn_module *m = load_text(scaled, NULL);
    heard h = {.lines = 0};
    float x[8] = {0, 1, 2, 0, 0, 0, 0, -1};
    if (!m) return;
    hn_debug *d = listen(m, (hn_debug_options){.level = HN_DEBUG_STATS, .kernels = any_kernel}, &h);
    EXPECT_OK(run_scaled(m, x));
    expect_heard(&h, "1 before scale2 x f32 8: -1 to 2\n1 after scale2 - f32 8: -2 to 4\n"
                     "1 before exps - f32 8: -2 to 4\n1 after exps y f32 8: 0.135335 to 54.5981\n");
    hn_tensor *in[1] = {F32(x, 0, 4)};
    EXPECT_OK(run_with(m, in, 1)); /* tensors of nothing are told, too */
    expect_heard(&h, "2 before scale2 x f32 0: nan to nan\n2 after scale2 - f32 0: nan to nan\n"
                     "2 before exps - f32 0: nan to nan\n2 after exps y f32 0: nan to nan\n");
    hn_tensor_release(in[0]);
    hn_debug_detach(d);
    hn_strbuf_deinit(&h.text);
    hn_module_release(m);
}

TEST(inputs_of_the_model) {
    hn_module *m = load_text(
        "symbol size s0 in [0, none] buffer b1 : input f32[4] source 0 name \"x\" "
        "buffer b2 : output f32[4] bytes(16) buffer b3 : input bool[2] source 1 name \"unread\" " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 input \"unread\" : bool[2] strides [1] in b3 "
        "call k4(b1 f32, out b2 f32) extent(4) "
        "output tensor \"y\" : f32[4] strides [1] in b2",
        NULL);
    heard h = {.lines = 0};
    float x[4] = {1, 2, 3, NAN};
    uint8_t flags[2] = {0, 1};
    if (!m) return;
    hn_tensor *in[2] = {F32(x, 4), tensor_of(HN_BOOL, 1, (int64_t[]){2}, NULL, flags)};
    listen(m, (hn_debug_options){.level = HN_DEBUG_STATS, .arguments = "x|unread"}, &h);
    EXPECT_OK(run_with(m, in, 2));
    EXPECT(strstr(h.text.ptr, "1 input x f32 4: 1 to 3\n1 input unread bool 2: 0 to 1\n") ==
           h.text.ptr);
    hn_strbuf_deinit(&h.text);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
}

TEST(a_check_names_kernel_tensor_index_and_node) {
    hn_module *m = load_text(scaled, NULL);
    hn_debug *d;
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 70}, bad[8] = {0, 0, 0, 0, 0, 0, NAN, 0};
    if (!m) return;
    EXPECT_OK(hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_CHECK}, &d));
    expect_said(
        run_scaled(m, x), "node 'node_one' (model.py:12): 'exps' (step ",
        "has written inf to b3 'y' at [1, 3]: of 8 elements (f32) 0 are NaN and 1 infinite");
    expect_said(run_scaled(m, bad), " is given nan in b", "'x' at [1, 2]: of 8");
    x[7] = 0;
    EXPECT_OK(run_scaled(m, x));
    hn_debug_detach(d);
    /* infinities are no fault when that is said; what comes of them may be */
    EXPECT_OK(
        hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_CHECK, .ignore_inf = true}, &d));
    x[1] = INFINITY, x[2] = NAN;
    EXPECT_ERROR(run_scaled(m, x), HN_INVALID_ARGUMENT,
                 "at [0, 2]: of 8 elements (f32) 1 are NaN and 1 infinite");
    x[2] = 0, x[7] = 70;
    EXPECT_OK(run_scaled(m, x));
    hn_debug_detach(d);
    EXPECT_OK(run_scaled(m, bad));
    /* nor is NaN, if infinities alone are looked for; but not neither */
    EXPECT_OK(
        hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_CHECK, .ignore_nan = true}, &d));
    EXPECT_OK(run_scaled(m, bad));
    x[1] = NAN, x[2] = INFINITY, x[7] = 0;
    EXPECT_ERROR(run_scaled(m, x), HN_INVALID_ARGUMENT,
                 "inf in b1 'x' at [0, 2]: of 8 elements (f32) 1 are NaN and 1 infinite");
    hn_debug_detach(d);
    EXPECT_ERROR(
        hn_debug_attach(
            m, &(hn_debug_options){.level = HN_DEBUG_CHECK, .ignore_nan = true, .ignore_inf = true},
            &d),
        HN_INVALID_ARGUMENT, "neither");
    hn_module_release(m);
}

/* ---- tensors in parts ---- */

static const char *const halves =
    "buffer b1 : input f32[4] source 0 name \"x\" buffer b2 : input f32[4] source 1 name \"z\" "
    "buffer b3 : output f32[8] bytes(32) " KERNELS
    "input \"x\" : f32[4] strides [1] in b1 input \"z\" : f32[4] strides [1] in b2 "
    "call k4(b1 f32, out b3 f32) extent(4) call k5(b2 f32, out b3 f32 at(4)) extent(4) "
    "output tensor \"y\" : f32[8] strides [1] in b3";

static hn_status run_halves(hn_module *m, float *x, float *z) {
    float old[8];
    for (int k = 0; k < 8; k++) old[k] = NAN;
    hn_tensor *in[2] = {F32(x, 4), F32(z, 4)}, *out[1] = {F32(old, 8)};
    hn_status status = hn_module_run(m, in, 2, out, 1);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    return status;
}

TEST(parts_that_are_not_written_yet) {
    hn_module *m = load_text(halves, NULL);
    heard h = {.lines = 0};
    hn_debug *d;
    float x[4] = {1, 2, 3, 4}, z[4] = {0, 0, 0, 0}, large[4] = {0, 0, 0, 3e38f};
    if (!m) return;
    EXPECT_OK(hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_CHECK}, &d));
    EXPECT_OK(run_halves(m, x, z));
    expect_said(run_halves(m, large, z), "'scale2'", "has written inf to b3 'y' at [3]");
    EXPECT_OK(run_halves(m, x, z));
    expect_said(run_halves(m, x, large), "'exps'", "written inf to b3 'y' at [7]");
    /* with the same bits in the memory as before */
    expect_said(run_halves(m, x, large), "'exps'", "written inf to b3 'y' at [7]");
    hn_debug_detach(d);
    listen(m, (hn_debug_options){.level = HN_DEBUG_STATS, .arguments = "y"}, &h);
    EXPECT_OK(run_halves(m, x, z));
    EXPECT(strstr(h.text.ptr, "after scale2 y f32 partial"));
    EXPECT(strstr(h.text.ptr, "after exps y f32 8: 1 to 8\n"));
    hn_strbuf_deinit(&h.text);
    hn_module_release(m);
}

/* Branches are alternatives: neither leaves a part to the other. */
TEST(branches_write_whole_tensors) {
    hn_module *m = load_text(
        "buffer b1 : input f32[2] source 0 name \"x\" buffer b2 : input bool[] source 1 name \"p\" "
        "buffer b3 : output f32[2] bytes(8) " KERNELS
        "input \"x\" : f32[2] strides [1] in b1 input \"p\" : bool[] strides [] in b2 "
        "cond(b2 bool) { call k4(b1 f32, out b3 f32) extent(2) } else { call k5(b1 f32, out b3 f32) extent(2) } "
        "output tensor \"y\" : f32[2] strides [1] in b3",
        NULL);
    heard h = {.lines = 0};
    float x[2] = {0, 1};
    uint8_t p = 1;
    if (!m) return;
    hn_tensor *in[2] = {F32(x, 2), tensor_of(HN_BOOL, 0, NULL, NULL, &p)};
    listen(m, (hn_debug_options){.level = HN_DEBUG_STATS, .kernels = any_kernel, .arguments = "y"},
           &h);
    EXPECT_OK(run_with(m, in, 2));
    expect_heard(&h, "1 after scale2 y f32 2: 0 to 2\n");
    p = 0;
    EXPECT_OK(run_with(m, in, 2));
    expect_heard(&h, "2 after exps y f32 2: 1 to 2.71828\n");
    hn_strbuf_deinit(&h.text);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
}

/* ---- what is looked at ---- */

TEST(filters) {
    static const struct {
        hn_debug_options options;
        const char *expected;
    } cases[] = {
        {{.kernels = "exp*"}, "b exps - a exps y "},
        {{.kernels = "scale?|nobody", .arguments = "x"}, "b scale2 x "},
        {{.kernels = any_kernel, .arguments = "y"}, "a exps y "},
        {{.kernels = any_kernel, .nodes = "node_*"}, "b scale2 x a scale2 - b exps - a exps y "},
        {{.kernels = any_kernel, .nodes = "node_two"}, ""},
        {{.kernels = "scale2", .first_call = 2}, ""},
        {{.kernels = "scale2", .first_call = 1, .last_call = 1, .arguments = "x"}, "b scale2 x "},
    };
    float x[8] = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hn_module *m = load_text(scaled, NULL);
        heard h = {.lines = 0};
        hn_debug_options options = cases[c].options;
        hn_strbuf short_form;
        if (!m) return;
        options.level = HN_DEBUG_STATS;
        listen(m, options, &h);
        EXPECT_OK(run_scaled(m, x));
        hn_strbuf_init(&short_form);
        for (char *line = h.text.ptr; line && *line; line = strchr(line, '\n') + 1) {
            char when[16], kernel[32], name[32];
            EXPECT(sscanf(line, "1 %15s %31s %31s", when, kernel, name) == 3);
            hn_strbuf_printf(&short_form, "%c %s %s ", when[0], kernel, name);
        }
        EXPECT_STR(hn_strbuf_str(&short_form).ptr, cases[c].expected);
        hn_strbuf_deinit(&short_form);
        hn_strbuf_deinit(&h.text);
        hn_module_release(m);
    }
}

TEST(weights_are_looked_at_once) {
    const float w[4] = {1, 2, 3, 4};
    float fresh[4] = {5, 6, 7, 8}, x[4] = {0};
    const fixture_weight weights[] = {{"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, w}};
    hn_module *m = load_weights(
        "buffer b1 : input f32[4] source 0 name \"x\" buffer b2 : constant f32[4] source 1 name \"w\" "
        "buffer b3 : output f32[4] bytes(16) " KERNELS "input \"x\" : f32[4] strides [1] in b1 "
        "call k1(b1 f32, b2 f32, out b3 f32) extent(4) output tensor \"y\" : f32[4] strides [1] in b3",
        weights, 1, NULL);
    heard h = {.lines = 0};
    if (!m) return;
    hn_tensor *in[1] = {F32(x, 4)}, *t = F32(fresh, 4);
    listen(m, (hn_debug_options){.level = HN_DEBUG_STATS, .arguments = "w"}, &h);
    EXPECT_OK(run_with(m, in, 1));
    EXPECT_OK(run_with(m, in, 1));
    expect_heard(&h, "1 before add w f32 4: 1 to 4\n");
    EXPECT_OK(hn_module_weights_replace(m, &(hn_named_tensor){"w", t}, 1, false));
    EXPECT_OK(run_with(m, in, 1));
    expect_heard(&h, "3 before add w f32 4: 5 to 8\n");
    hn_strbuf_deinit(&h.text);
    hn_tensor_release(in[0]), hn_tensor_release(t);
    hn_module_release(m);
}

/* Of every run, when it is a weight's: it is not taken for known because the last run ended
 * there. */
TEST(a_bad_weight_ends_each_run) {
    const float w[4] = {1, INFINITY, 3, NAN};
    float x[4] = {0};
    const fixture_weight weights[] = {{"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, w}};
    hn_module *m = load_weights(
        "buffer b1 : input f32[4] source 0 name \"x\" buffer b2 : constant f32[4] source 1 name \"w\" "
        "buffer b3 : output f32[4] bytes(16) " KERNELS "input \"x\" : f32[4] strides [1] in b1 "
        "call k1(b1 f32, b2 f32, out b3 f32) extent(4) output tensor \"y\" : f32[4] strides [1] in b3",
        weights, 1, NULL);
    hn_debug *d;
    if (!m) return;
    hn_tensor *in[1] = {F32(x, 4)};
    EXPECT_OK(hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_CHECK}, &d));
    for (int k = 0; k < 3; k++) expect_said(run_with(m, in, 1), " is given inf in ", "'w' at [1]");
    hn_debug_detach(d);
    EXPECT_OK(
        hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_CHECK, .ignore_inf = true}, &d));
    for (int k = 0; k < 3; k++) expect_said(run_with(m, in, 1), " is given nan in ", "'w' at [3]");
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

TEST(a_sink_may_end_the_run) {
    hn_module *m = load_text(scaled, NULL);
    heard h = {.refuses = true};
    float x[8] = {0};
    if (!m) return;
    listen(m, (hn_debug_options){.level = HN_DEBUG_NAMES, .kernels = "exps"}, &h);
    EXPECT_ERROR(run_scaled(m, x), HN_IO, "node 'node_one' (model.py:12): enough");
    hn_strbuf_deinit(&h.text);
    hn_module_release(m);
}

/* ---- by text ---- */

TEST(text_of_options_and_environment) {
    static const struct {
        const char *text, *error;
    } wrong[] = {
        {"stat",
         "'stat' is no level of the tensor debugger (off, names, stats, save, check); did you mean 'stats'?"},
        {"stats,kernels=a",
         "'kernels' is no word of the tensor debugger (kernel, node, arg, to, calls, inf, nan); did you mean 'kernel'?"},
        {"stats,kernel", "'kernel' needs a value"},
        {"stats,calls=0", "'calls' is '0'"},
        {"stats,calls=3-2", "'calls' is '3-2'"},
        {"check,inf=no", "'inf' is 'no'"},
        {"save", "needs a folder: save,to=DIR"},
    };
    char root[PATH_MAX], text[PATH_MAX + 64];
    program p;
    hn_strbuf image, lines;
    hn_module *m = NULL;
    float x[8] = {0};
    program_init(&p);
    EXPECT_OK(program_image(&p, scaled, NULL, &image));
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        const hn_module_options options = {.debug_tensors = wrong[k].text};
        EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false, &options, &m),
                     HN_INVALID_ARGUMENT, wrong[k].error);
    }
    EXPECT_OK(hn_dir_temp(root, sizeof root));
    snprintf(text, sizeof text, "names,kernel=scale2,calls=2-,to=%s/lines", root);
    setenv("HENRY_DEBUG_TENSORS", text, 1);
    EXPECT_OK(hn_module_load_memory(image.ptr, image.len, false, NULL, &m));
    for (int k = 0; k < 3; k++) EXPECT_OK(run_scaled(m, x));
    hn_module_release(m);
    hn_strbuf_init(&lines);
    snprintf(text, sizeof text, "%s/lines", root);
    EXPECT_OK(hn_file_read(text, &lines));
    EXPECT_INT(count_in(lines.ptr, "kernel scale2"), 2);
    EXPECT(strncmp(lines.ptr, "call 2 step ", 12) == 0);
    EXPECT(strstr(lines.ptr, ", node node_one, model.py:12\ncall 3 step "));
    hn_strbuf_deinit(&lines);
    setenv("HENRY_DEBUG_TENSORS", "wrong", 1);
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false, NULL, &m), HN_INVALID_ARGUMENT,
                 "HENRY_DEBUG_TENSORS: 'wrong' is no level");
    /* each module of a process has a folder of its own */
    snprintf(text, sizeof text, "save,to=%s/saved", root);
    setenv("HENRY_DEBUG_TENSORS", text, 1);
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(hn_module_load_memory(image.ptr, image.len, false, NULL, &m));
        EXPECT_OK(run_scaled(m, x));
        hn_module_release(m);
        snprintf(text, sizeof text, "%s/saved%s", root, k ? ".2" : "");
        EXPECT(count_files(text, ".npy") >= 3);
    }
    unsetenv("HENRY_DEBUG_TENSORS");
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    EXPECT_OK(hn_dir_remove(root));
}

TEST(statistics_for_other_hooks) {
    hn_module *m = load_text(scaled, NULL);
    hn_debug *d;
    if (!m) return;
    EXPECT_ERROR(hn_debug_attach(m, &(hn_debug_options){.level = (hn_debug_level)9}, &d),
                 HN_INVALID_ARGUMENT, "9 is no level");
    EXPECT_ERROR(hn_debug_attach(NULL, &(hn_debug_options){.level = HN_DEBUG_OFF}, &d),
                 HN_INVALID_ARGUMENT, "'module' is NULL");
    EXPECT_STR(hn_debug_level_name(HN_DEBUG_CHECK), "check");
    EXPECT_STR(hn_debug_level_name((hn_debug_level)77), "off");
    hn_module_release(m);
}

TEST_MAIN
