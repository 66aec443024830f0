/* test_safetensors.c: the file of weights that other tools read: header, order, alignment,
 * names. */
#include "base/file.h"
#include "bundle/safetensors.h"
#include "bundle/view.h"
#include "henry/tensor.h"
#include "unit/harness.h"

#include <limits.h>
#include <stdlib.h>

TEST(tensors_lie_where_the_header_says) {
    static const int64_t shape[] = {2, 3}, words[] = {16};
    static const float odd[6] = {1, 2, 3, 4, 5, 6}, whole[16] = {7};
    static const char bytes[3] = "abc";
    hn_safetensor t[] = {{.name = HN_STR("odd"),
                          .dtype = HN_F32,
                          .rank = 2,
                          .sizes = shape,
                          .bytes = odd,
                          .len = sizeof odd},
                         {.name = HN_STR("a\"b"), .bytes = bytes, .len = sizeof bytes},
                         {.name = HN_STR("odd"),
                          .dtype = HN_F32,
                          .rank = 1,
                          .sizes = words,
                          .bytes = whole,
                          .len = sizeof whole},
                         {.name = HN_STR("none"),
                          .dtype = HN_I64,
                          .rank = 1,
                          .sizes = (const int64_t[]){0},
                          .bytes = NULL,
                          .len = 0}};
    char dir[PATH_MAX], path[PATH_MAX + 16];
    hn_safetensors_facts facts;
    hn_strbuf file;
    uint64_t length;
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(path, sizeof path, "%s/w.safetensors", dir);
    EXPECT_OK(hn_safetensors_save(t, 4, path, &facts));
    hn_strbuf_init(&file);
    EXPECT_OK(hn_file_read(path, &file));
    memcpy(&length, file.ptr, sizeof length);
    char *header = strndup(file.ptr + 8, length);
    EXPECT_INT((length + 8) % 64, 0);
    EXPECT_INT(file.len, 8 + length + 64 + 24 + 3);
    EXPECT(
        strstr(
            header,
            "{\"__metadata__\":{\"format\":\"pt\"},\"odd\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[64,88]}") ==
        header);
    EXPECT(strstr(header, "\"a\\\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[88,91]}"));
    EXPECT(strstr(header, "\"odd#2\":{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[0,64]}"));
    EXPECT(strstr(header, "\"none\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[64,64]}"));
    EXPECT(t[0].offset == 8 + length + 64 && t[2].offset == 8 + length &&
           t[1].offset == 8 + length + 88);
    for (int k = 0; k < 3; k++) EXPECT(memcmp(file.ptr + t[k].offset, t[k].bytes, t[k].len) == 0);
    hn_digest full = hn_digest_of(file.ptr, file.len),
              ends = hn_bundle_ends_digest((const uint8_t *)file.ptr, file.len);
    EXPECT(facts.bytes == file.len && memcmp(&full, &facts.full, sizeof full) == 0 &&
           memcmp(&ends, &facts.ends, sizeof ends) == 0);
    free(header);
    hn_strbuf_deinit(&file);
    EXPECT_ERROR(hn_safetensors_save(t, 4, "/no/such/folder/w", &facts), HN_NOT_FOUND,
                 "cannot save weights '/no/such/folder/w'");
    EXPECT_OK(hn_dir_remove(dir));
}

TEST_MAIN
