/* test_pch.c: precompiled headers of C++ texts: results are the same with and without it, and it is
 * used only while it is right. */
#include "toolchain/pch.h"
#include "unit/toolchain/fixture.h"

#include "base/log.h"
#include "base/trace.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEGINNING                                                                                  \
    "// a module\n#define STEP 2\n#include <map>\n\n#include <string>\n#include <vector>\n"

static const char *const bodies[] = {
    "extern \"C\" int f(int x) { std::map<int, std::string> m; m[x] = \"a\"; return (int)m.size() + STEP; }\n",
    "namespace { struct hidden { int x; hidden(int y) : x(y) {} virtual ~hidden() {} }; }\nextern \"C\" int f(int x) { try { hidden h(x); return std::vector<int>(3).at((size_t)h.x); } catch (...) { return __LINE__; } }\n",
    "#include <functional>\nstatic std::string name = __FILE__;\nextern \"C\" int f(int x) { std::function<int(int)> g = [](int y) { return y + STEP; }; return g(x) + (int)name.size(); }\n",
};

TEST(the_beginning_of_a_text_is_found) {
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {
        {"", 0},
        {"int x;\n", 0},
        {"// comment\n\n", 0},
        {"#include <a>\n", 13},
        {"#include <a>", 0}, /* without its end it may go on */
        {"#include <a>\nint x;\n#include <b>\n", 13},
        {"\n  # include \"a\"\n#define X 1\n", 17},
        {"#define X 1\n#include <a>\n#define Y 2\nint x;\n", 25},
        {"#include <a>\n#if X\n#include <b>\n#endif\n", 13},
        {"#include <a>\n#define X \\\n 1\n#include <b>\n", 13},
        {"#include <a> /* goes\n on */\n#include <b>\n", 0},
        {"#include_next <a>\n", 0},
        {"#define include <x>\nint y;\n", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (hn_pch_length(hn_str_of(cases[i].text)) != cases[i].len)
            HN_TEST_FAIL("%zu of '%s'", hn_pch_length(hn_str_of(cases[i].text)), cases[i].text);
}

static hn_toolchain_result compile(const language *l, const char *text, const char *pch_dir,
                                   hn_str flags) {
    hn_toolchain_job job = {.text = hn_str_of(text),
                            .flags = flags,
                            .entries = HN_STR("f\0"),
                            .pch_dir = pch_dir,
                            .own_group = true};
    hn_toolchain_result result;
    EXPECT_OK(hn_toolchain_compile(&l->toolchain, &job, &result));
    return result;
}

static uint32_t count_files(const char *root, const char *name) {
    uint32_t count = 0;
    DIR *list = opendir(root);
    if (!list) return 0;
    for (const struct dirent *entry; (entry = readdir(list));) {
        char path[PATH_MAX + 300];
        snprintf(path, sizeof(path), "%s/%s/%s", root, entry->d_name, name);
        count += access(path, F_OK) == 0;
    }
    closedir(list);
    return count;
}

/* The only precompiled header there. */
static void image_path(const char *root, char out[PATH_MAX]) {
    DIR *list = opendir(root);
    out[0] = 0;
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        char path[PATH_MAX + 300];
        int len = snprintf(path, sizeof(path), "%s/%s/pch.h.gch", root, entry->d_name);
        if (len < PATH_MAX && access(path, F_OK) == 0) memcpy(out, path, (size_t)len + 1);
    }
    if (list) closedir(list);
}

static bool begin_gcc(language *l) {
    setenv("HENRY_CXX", "g++", 1);
    bool is_there = language_begin(l, "c++");
    unsetenv("HENRY_CXX");
    return is_there;
}

TEST(results_are_the_same_behind_a_precompiled_beginning) {
    language l;
    char root[PATH_MAX], text[2048];
    if (begin_gcc(&l)) {
        snprintf(root, sizeof(root), "%s/pch", l.dir);
        for (int round = 0; round < 3; round++) {
            snprintf(text, sizeof(text), BEGINNING "%s", bodies[round]);
            int64_t start = hn_now_ns();
            hn_toolchain_result plain = compile(&l, text, NULL, HN_STR("-O2\0"));
            int64_t middle = hn_now_ns();
            hn_toolchain_result behind = compile(&l, text, root, HN_STR("-O2\0"));
            fprintf(stderr, "note: %.0f ms, %.0f ms with a folder for precompiled headers\n",
                    (double)(middle - start) / 1e6, (double)(hn_now_ns() - middle) / 1e6);
            EXPECT(hn_str_eq(hn_strbuf_str(&plain.bytes), hn_strbuf_str(&behind.bytes)));
            EXPECT(behind.headers.len &&
                   memmem(behind.headers.ptr, behind.headers.len, "/vector", 7) &&
                   !memmem(behind.headers.ptr, behind.headers.len, "/pch/", 5));
            EXPECT_INT(count_files(root, "pch.h.gch"), round > 0); /* the second text makes it */
            EXPECT_INT(count_files(root, "unfit"), 0);
            hn_toolchain_result_deinit(&plain);
            hn_toolchain_result_deinit(&behind);
        }
        snprintf(text, sizeof(text), BEGINNING "%s", bodies[0]); /* other flags: another one */
        for (int round = 0; round < 2; round++) {
            hn_toolchain_result other = compile(&l, text, root, HN_STR("-O1\0"));
            hn_toolchain_result_deinit(&other);
        }
        EXPECT_INT(count_files(root, "pch.h.gch"), 2);
    }
    language_end(&l);
}

TEST(a_changed_header_makes_a_new_beginning) {
    language l;
    char root[PATH_MAX], header[PATH_MAX], text[PATH_MAX + 256];
    if (begin_gcc(&l)) {
        snprintf(root, sizeof(root), "%s/pch", l.dir);
        snprintf(header, sizeof(header), "%s/value.h", l.dir);
        snprintf(
            text, sizeof(text),
            "#include <vector>\n#include \"%s\"\nextern \"C\" int f(int x) { return x + VALUE; }\n",
            header);
        for (int value = 1; value <= 2; value++) {
            char line[64];
            int len = snprintf(line, sizeof(line), "#define VALUE %d\n", value);
            EXPECT_OK(hn_file_write_atomic(header, line, (size_t)len, false));
            usleep(100000);
            for (int round = 0; round < 3; round++) {
                hn_toolchain_result result = compile(&l, text, root, HN_STR("-O2\0"));
                hn_library *library = NULL;
                void *address = NULL;
                EXPECT_OK(hn_library_load(result.bytes.ptr, result.bytes.len, "unit", &library));
                if (library) EXPECT_OK(hn_library_symbol(library, "f", &address));
                if (address) EXPECT_INT(((int (*)(int))address)(10), 10 + value);
                hn_library_close(library);
                hn_toolchain_result_deinit(&result);
            }
            EXPECT_INT(count_files(root, "record"), 1);
        }
    }
    language_end(&l);
}

TEST(a_damaged_beginning_is_made_anew) {
    language l;
    char root[PATH_MAX], image[PATH_MAX];
    static const char text[] =
        "#include <vector>\nextern \"C\" int f(int x) { return (int)std::vector<int>(x).size(); }\n";
    if (begin_gcc(&l)) {
        snprintf(root, sizeof(root), "%s/pch", l.dir);
        hn_toolchain_result plain = compile(&l, text, NULL, HN_STR("-O2\0"));
        for (int round = 0; round < 6; round++) {
            hn_toolchain_result behind = compile(&l, text, root, HN_STR("-O2\0"));
            EXPECT(hn_str_eq(hn_strbuf_str(&plain.bytes), hn_strbuf_str(&behind.bytes)));
            hn_toolchain_result_deinit(&behind);
            image_path(root, image);
            if (round == 1) EXPECT(image[0] && truncate(image, 100000) == 0);
            if (round == 3) {
                FILE *file = fopen(image, "r+");
                EXPECT(file && fseek(file, 200000, SEEK_SET) == 0 &&
                       fwrite("damage damage", 13, 1, file) == 1 && fclose(file) == 0);
            }
            if (round == 4) EXPECT(unlink(image) == 0);
        }
        EXPECT_INT(count_files(root, "unfit"), 0);
        hn_toolchain_result_deinit(&plain);
    }
    language_end(&l);
}

TEST(what_cannot_be_precompiled_is_compiled_as_a_whole) {
    language l;
    char root[PATH_MAX], header[PATH_MAX], text[PATH_MAX + 256];
    if (begin_gcc(&l)) {
        snprintf(root, sizeof(root), "%s/pch", l.dir);
        snprintf(header, sizeof(header), "%s/asks.h", l.dir);
        EXPECT_OK(
            hn_file_write_atomic(header, "static int level = __INCLUDE_LEVEL__;\n", 38, false));
        usleep(100000);
        snprintf(text, sizeof(text),
                 "#include \"%s\"\nextern \"C\" int f(int x) { return x + level; }\n", header);
        for (int round = 0; round < 3; round++) {
            hn_toolchain_result plain = compile(&l, text, NULL, HN_STR("-O2\0")),
                                behind = compile(&l, text, root, HN_STR("-O2\0"));
            EXPECT(hn_str_eq(hn_strbuf_str(&plain.bytes), hn_strbuf_str(&behind.bytes)));
            hn_toolchain_result_deinit(&plain);
            hn_toolchain_result_deinit(&behind);
        }
        EXPECT_INT(count_files(root, "pch.h.gch"), 0);
        EXPECT_INT(count_files(root, "unfit"), 1);
    }
    language_end(&l);
}

/* Errors have the lines of the text. */
TEST(messages_are_those_of_the_whole_text) {
    language l;
    char root[PATH_MAX];
    if (begin_gcc(&l)) {
        snprintf(root, sizeof(root), "%s/pch", l.dir);
        for (int round = 0; round < 3; round++) {
            hn_toolchain_job job = {
                .text = HN_STR("#include <vector>\n\nint f(int x) { return nothing; }\n"),
                .pch_dir = root,
                .own_group = true};
            hn_toolchain_result result;
            EXPECT_ERROR(hn_toolchain_compile(&l.toolchain, &job, &result), HN_TOOLCHAIN,
                         "kernel.cc:3:23: error: 'nothing' was not declared");
            EXPECT(result.is_deterministic);
            hn_toolchain_result_deinit(&result);
        }
    }
    language_end(&l);
}

TEST(several_processes_share_one_folder) {
    language l;
    char root[PATH_MAX], text[512];
    if (begin_gcc(&l)) {
        pid_t pids[3];
        snprintf(root, sizeof(root), "%s/pch", l.dir);
        fflush(NULL);
        for (int i = 0; i < 3; i++) {
            pids[i] = fork();
            if (pids[i]) continue;
            bool ok = true;
            for (int round = 0; round < 3; round++) {
                snprintf(
                    text, sizeof(text),
                    "#include <vector>\nextern \"C\" int f(int x) { return (int)std::vector<int>(x).size() + %d; }\n",
                    i * 10 + round);
                hn_toolchain_job job = {.text = hn_str_of(text),
                                        .entries = HN_STR("f\0"),
                                        .pch_dir = root,
                                        .own_group = true};
                hn_toolchain_result result;
                hn_status status = hn_toolchain_compile(&l.toolchain, &job, &result);
                ok = ok && !status;
                hn_status_free(status);
                hn_toolchain_result_deinit(&result);
            }
            _exit(!ok);
        }
        for (int i = 0; i < 3; i++) {
            int status = 1;
            EXPECT(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
        }
        EXPECT_INT(count_files(root, "record"), 1);
        EXPECT_INT(count_files(root, "unfit"), 0);
    }
    language_end(&l);
}

/* Of those that were made four are kept. */
TEST(folders_are_bounded) {
    language l;
    char root[PATH_MAX], text[256];
    if (begin_gcc(&l)) {
        snprintf(root, sizeof(root), "%s/pch", l.dir);
        for (int i = 0; i < 6; i++)
            for (int round = 0; round < 2; round++) {
                snprintf(
                    text, sizeof(text),
                    "#define N %d\n#include <stddef.h>\nextern \"C\" int f(int x) { return x + N + %d; }\n",
                    i, round);
                hn_toolchain_result result = compile(&l, text, root, HN_STR("-O2\0"));
                hn_toolchain_result_deinit(&result);
            }
        EXPECT_INT(count_files(root, "record"), 4);
    }
    language_end(&l);
}

TEST_MAIN
