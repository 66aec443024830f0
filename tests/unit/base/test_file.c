/* test_file.c: maps, atomic writes, directories, and what they say when they fail. */
#include "unit/harness.h"

#include "base/file.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[PATH_MAX];

/* `name` below the test's directory; valid until four calls later. */
static const char *at(const char *name) {
    static char paths[4][PATH_MAX + 64];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static void enter(void) { EXPECT_OK(hn_dir_temp(root, sizeof(root))); }

static void leave(void) {
    EXPECT_OK(hn_dir_remove(root));
    EXPECT(!hn_file_exists(root));
}

static int entry_count(const char *path) {
    int count = 0;
    DIR *dir = opendir(path);
    if (!dir) return -1;
    while (readdir(dir)) count++;
    closedir(dir);
    return count - 2;
}

static void expect_content(const char *path, const char *expected) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(hn_file_read(path, &text));
    EXPECT_STR(text.ptr, expected);
    hn_strbuf_deinit(&text);
}

TEST(written_files_read_back) {
    enter();
    EXPECT_OK(hn_file_write_atomic(at("f"), "hello", 5, false));
    expect_content(at("f"), "hello");
    EXPECT_OK(hn_file_write_atomic(at("f"), "new", 3, true));
    expect_content(at("f"), "new");
    EXPECT_OK(hn_file_write_atomic(at("empty"), NULL, 0, false));
    expect_content(at("empty"), "");
    EXPECT_INT(entry_count(root), 2);
    leave();
}

TEST(big_files_read_back) {
    enter();
    size_t len = 3 << 20;
    char *bytes = malloc(len);
    for (size_t i = 0; i < len; i++) bytes[i] = (char)(i * 31 >> 3);
    EXPECT_OK(hn_file_write_atomic(at("big"), bytes, len, false));
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, "x"); /* reading appends */
    EXPECT_OK(hn_file_read(at("big"), &text));
    EXPECT_INT(text.len, len + 1);
    EXPECT(text.len == len + 1 && memcmp(text.ptr + 1, bytes, len) == 0);
    hn_strbuf_deinit(&text);
    hn_file_map map;
    EXPECT_OK(hn_file_map_init(&map, at("big")));
    EXPECT(map.size_bytes == len && memcmp(map.data, bytes, len) == 0);
    hn_file_map_deinit(&map);
    free(bytes);
    leave();
}

TEST(maps) {
    enter();
    hn_file_map map;
    EXPECT_OK(hn_file_write_atomic(at("f"), "abc", 3, false));
    EXPECT_OK(hn_file_map_init(&map, at("f")));
    EXPECT(map.size_bytes == 3 && memcmp(map.data, "abc", 3) == 0);
    EXPECT_OK(hn_file_write_atomic(at("f"), "wxyz", 4, false)); /* the map keeps the old file */
    EXPECT(memcmp(map.data, "abc", 3) == 0);
    hn_file_map_deinit(&map);
    EXPECT(map.data == NULL);
    hn_file_map_deinit(&map);
    EXPECT_OK(hn_file_write_atomic(at("empty"), "", 0, false));
    EXPECT_OK(hn_file_map_init(&map, at("empty")));
    EXPECT(map.data != NULL && map.size_bytes == 0 && map.base == NULL);
    hn_file_map_deinit(&map);
    leave();
}

TEST(what_cannot_be_mapped_or_read) {
    enter();
    hn_file_map map;
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(hn_file_write_atomic(at("f"), "abc", 3, false));
    EXPECT_ERROR(hn_file_map_init(&map, at("none")), HN_NOT_FOUND, "/none': No such file");
    EXPECT(map.data == NULL);
    hn_file_map_deinit(&map);
    EXPECT_ERROR(hn_file_map_init(&map, at("f/below")), HN_NOT_FOUND, "Not a directory");
    EXPECT_ERROR(hn_file_map_init(&map, root), HN_INVALID_ARGUMENT, "it is a folder, not a file");
    EXPECT_INT(mkfifo(at("fifo"), 0600), 0);
    /* and does not wait */
    EXPECT_ERROR(hn_file_map_init(&map, at("fifo")), HN_INVALID_ARGUMENT, "not a regular file");
    EXPECT_ERROR(hn_file_read(at("none"), &text), HN_NOT_FOUND, "/none'");
    hn_strbuf_puts(&text, "kept");
    EXPECT_ERROR(hn_file_read(root, &text), HN_IO, "Is a directory");
    EXPECT_STR(text.ptr, "kept");
    hn_strbuf_deinit(&text);
    leave();
}

TEST(failed_writes_leave_nothing) {
    enter();
    EXPECT_OK(hn_dir_create(at("dir/sub")));
    EXPECT_ERROR(hn_file_write_atomic(at("dir"), "x", 1, false), HN_INVALID_ARGUMENT,
                 "not a regular file");
    EXPECT_ERROR(hn_file_write_atomic(at("none/f"), "x", 1, false), HN_NOT_FOUND, "none/f'");
    EXPECT_ERROR(hn_file_write_atomic("", "x", 1, false), HN_INVALID_ARGUMENT, "empty name");
    char name[300] = {0}; /* the temporary file is made, the rename fails */
    memset(name, 'n', sizeof(name) - 1);
    EXPECT_ERROR(hn_file_write_atomic(at(name), "x", 1, false), HN_IO, "too long");
    EXPECT_INT(entry_count(root), 1);
    leave();
}

TEST(devices_are_not_replaced) {
    EXPECT_ERROR(hn_file_write_atomic("/dev/null", "x", 1, false), HN_INVALID_ARGUMENT,
                 "not a regular file");
    struct stat info;
    EXPECT(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
}

TEST(written_files_follow_the_umask) {
    enter();
    mode_t before = umask(027);
    EXPECT_OK(hn_file_write_atomic(at("f"), "x", 1, false));
    umask(before);
    struct stat info;
    EXPECT_INT(stat(at("f"), &info), 0);
    EXPECT_INT(info.st_mode & 0777, 0640);
    leave();
}

TEST(a_bare_name_is_written_to_the_working_directory) {
    enter();
    char before[PATH_MAX];
    EXPECT(getcwd(before, sizeof(before)) != NULL);
    EXPECT_INT(chdir(root), 0);
    EXPECT_OK(hn_file_write_atomic("bare", "x", 1, true));
    EXPECT_INT(chdir(before), 0);
    expect_content(at("bare"), "x");
    leave();
}

TEST(directories_are_made_with_parents) {
    enter();
    EXPECT_OK(hn_dir_create(at("a//b/c/")));
    EXPECT_OK(hn_dir_create(at("a/b/c")));
    EXPECT_OK(hn_dir_create("/"));
    EXPECT_OK(hn_dir_create("."));
    struct stat info;
    EXPECT_INT(stat(at("a/b"), &info), 0);
    EXPECT_INT(info.st_mode & 0777, 0700);
    mode_t mask = umask(027);
    EXPECT_OK(hn_dir_create_public(at("open/door")));
    umask(mask);
    EXPECT_INT(stat(at("open/door"), &info), 0);
    EXPECT_INT(info.st_mode & 0777, 0750);
    EXPECT_OK(hn_file_write_atomic(at("f"), "x", 1, false));
    EXPECT_ERROR(hn_dir_create(at("f")), HN_NOT_FOUND, "Not a directory");
    EXPECT_ERROR(hn_dir_create(at("f/sub/sub")), HN_NOT_FOUND, "Not a directory");
    EXPECT_ERROR(hn_dir_create(""), HN_INVALID_ARGUMENT, "empty name");
    leave();
}

TEST(remove_spares_what_links_point_to) {
    enter();
    EXPECT_OK(hn_dir_create(at("kept")));
    EXPECT_OK(hn_file_write_atomic(at("kept/f"), "x", 1, false));
    EXPECT_OK(hn_dir_create(at("gone/a/b")));
    EXPECT_OK(hn_file_write_atomic(at("gone/a/f"), "x", 1, false));
    EXPECT_INT(symlink(at("kept"), at("gone/link")), 0);
    EXPECT_INT(symlink("nowhere", at("gone/a/dangling")), 0);
    EXPECT_OK(hn_dir_remove(at("gone")));
    EXPECT(!hn_file_exists(at("gone")));
    expect_content(at("kept/f"), "x");
    EXPECT_INT(symlink(at("kept"), at("link")), 0);
    EXPECT_OK(hn_dir_remove(at("link/"))); /* removes the link */
    EXPECT(!hn_file_exists(at("link")));
    expect_content(at("kept/f"), "x");
    EXPECT_OK(hn_dir_remove(at("kept/f"))); /* a plain file */
    EXPECT_OK(hn_dir_remove(at("missing")));
    EXPECT_INT(entry_count(root), 1);
    leave();
}

TEST(remove_has_a_depth_limit) {
    enter();
    hn_strbuf path;
    hn_strbuf_init(&path);
    hn_strbuf_puts(&path, at("deep"));
    for (int i = 0; i < 400; i++) hn_strbuf_puts(&path, "/d");
    EXPECT_OK(hn_dir_create(path.ptr));
    EXPECT_ERROR(hn_dir_remove(at("deep")), HN_UNSUPPORTED, "levels deep");
    path.ptr[strlen(at("deep")) + 2 * 200] = '\0'; /* the lower half alone is within the limit */
    EXPECT_OK(hn_dir_remove(path.ptr));
    hn_strbuf_deinit(&path);
    leave();
}

TEST(temporary_directories_are_private_and_differ) {
    char one[PATH_MAX], two[PATH_MAX], small[8];
    EXPECT_OK(hn_dir_temp(one, sizeof(one)));
    EXPECT_OK(hn_dir_temp(two, sizeof(two)));
    EXPECT(strcmp(one, two) != 0);
    struct stat info;
    EXPECT_INT(stat(one, &info), 0);
    EXPECT(S_ISDIR(info.st_mode) && (info.st_mode & 0777) == 0700);
    EXPECT_ERROR(hn_dir_temp(small, sizeof(small)), HN_INVALID_ARGUMENT, "too long");
    EXPECT_OK(hn_dir_remove(one));
    EXPECT_OK(hn_dir_remove(two));
}

TEST_MAIN
