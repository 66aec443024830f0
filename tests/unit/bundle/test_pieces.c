/* test_pieces.c: storages that are made of others in the file: what a reader sees, and that nothing
 * damaged or crafted lets it copy from or to where nothing is. */
#include "bundle/internal.h"
#include "bundle/join.h"
#include "unit/bundle/image_fixture.h"

/* Two weights of 16 bytes, one of 64 that is made of them, with a gap. */
typedef struct tables {
    hnb_storage storages[5];
    hnb_piece pieces[3];
    hn_box_dim dims[2];
    hnb_tensor tensor;
    uint32_t piece_count, storage_count;
    const char *target; /* of CUDA; NULL: none */
} tables;

static const tables good = {
    .storages = {{0},
                 {.where = HNB_STORAGE_WEIGHTS, .bytes = 16},
                 {.where = HNB_STORAGE_MADE, .bytes = 64},
                 {.where = HNB_STORAGE_WEIGHTS, .bytes = 16, .offset = 64},
                 {.where = HNB_STORAGE_MADE, .bytes = 4, .offset = 2}},
    .pieces = {{.storage = 2, .source = 1, .rank = 1, .run_bytes = 4},
               {.storage = 2, .source = 3, .dims = 1, .rank = 1, .run_bytes = 8, .to = 4},
               {.storage = 4, .source = 3, .run_bytes = 4, .from = 12}},
    .dims = {{.size = 4, .from_stride = 4, .to_stride = 16},
             {.size = 2, .from_stride = 8, .to_stride = 32}},
    .piece_count = 3,
    .storage_count = 5};

static hn_status open_tables(const tables *t, hn_strbuf *out, hn_bundle *b) {
    static const float weight[4] = {1, 2, 3, 4};
    static hnb_storage storages[5];
    static hnb_piece pieces[3];
    static hn_box_dim piece_dims[2];
    static hnb_tensor tensors[1];
    hn_arena arena;
    hn_bundle_writer w;
    uint64_t offset;
    hn_arena_init(&arena);
    EXPECT_OK(hn_bundle_writer_init(&w, &arena));
    for (int k = 0; k < 2; k++)
        EXPECT_OK(hn_bundle_writer_piece(&w, &w.weights, weight, sizeof weight, &offset));
    memcpy(storages, t->storages, sizeof storages);
    memcpy(pieces, t->pieces, sizeof pieces);
    memcpy(piece_dims, t->dims, sizeof piece_dims);
    w.storages.items = storages, w.storages.count = w.storages.cap = t->storage_count;
    w.pieces.items = pieces, w.pieces.count = w.pieces.cap = t->piece_count;
    w.piece_dims.items = piece_dims, w.piece_dims.count = w.piece_dims.cap = 2;
    if (t->target) {
        uint32_t target;
        EXPECT_OK(hn_bundle_writer_target(&w, HNB_TARGET_CUDA, 0, hn_str_of(t->target), HN_STR(""),
                                          &target));
    }
    if (t->tensor.storage) {
        tensors[0] = t->tensor;
        tensors[0].dtype = 2;
        EXPECT_OK(hn_bundle_writer_str(&w, HN_STR("a"), &tensors[0].name));
        w.tensors.items = tensors, w.tensors.count = w.tensors.cap = 1;
    }
    hn_strbuf_init(out);
    EXPECT_OK(hn_bundle_writer_finish(&w, out));
    hn_bundle_writer_deinit(&w);
    hn_arena_deinit(&arena);
    return hn_bundle_open(out->ptr, out->len, true, b);
}

TEST(what_readers_see) {
    hn_strbuf image, text;
    hn_bundle b;
    hn_strbuf_init(&text);
    EXPECT_OK(open_tables(&good, &image, &b));
    EXPECT_INT(b.pieces_count, 3);
    EXPECT(hn_bundle_has_piece(&b, 2, 1) && !hn_bundle_has_piece(&b, 2, 2) &&
           !hn_bundle_has_piece(&b, 4, 3));
    EXPECT_INT(hn_bundle_storage_bytes(&b), 32);
    hn_bundle_describe_text(&b, &text);
    EXPECT(strstr(text.ptr, "storage 2 '' made of 1 3, 64 bytes") != NULL);
    hn_strbuf_reset(&text);
    hn_bundle_describe_json(&b, &text);
    EXPECT(strstr(text.ptr, "\"where\":\"made\",\"made_of\":[1,3],\"bytes\":64") != NULL);
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&image);
}

TEST(files_without_pieces_lack_the_sections) {
    hn_strbuf image;
    hn_bundle b;
    tables t = good;
    t.piece_count = 0, t.storage_count = 2;
    EXPECT_OK(open_tables(&t, &image, &b));
    EXPECT(!b.pieces && !b.piece_dims);
    hn_strbuf_deinit(&image);
}

/* The bytes are those of the file, the pieces the program's own. */
TEST(one_of_several_programs) {
    hn_strbuf images[2], out;
    hn_join_part parts[2] = {0};
    hn_bundle file, b;
    tables t = good;
    t.target = "sm_90";
    make_image(&images[0]);
    EXPECT_OK(hn_bundle_open(images[0].ptr, images[0].len, true, &parts[0].bundle));
    EXPECT_OK(open_tables(&t, &images[1], &parts[1].bundle));
    hn_strbuf_init(&out);
    EXPECT_OK(hn_bundle_join(parts, 2, true, &out));
    EXPECT_OK(hn_bundle_open(out.ptr, out.len, true, &file));
    EXPECT_INT(file.pieces_count, 0);
    EXPECT_OK(hn_bundle_program_open(&file, 1, true, &b));
    EXPECT_INT(b.pieces_count, 3);
    EXPECT(b.storages[2].where == HNB_STORAGE_MADE && b.storages[4].offset == 2);
    EXPECT(memcmp(b.weights + b.storages[3].offset, (float[]){1, 2, 3, 4}, 16) == 0);
    for (int k = 0; k < 2; k++) hn_strbuf_deinit(&images[k]);
    hn_strbuf_deinit(&out);
}

#define CASES(X)                                                                                   \
    X(t->pieces[0].storage = 0)                                                                    \
    X(t->pieces[0].storage = 1)                                                                    \
    X(t->pieces[0].storage = 5)                                                                    \
    X(t->pieces[0].storage = 4)                                                                    \
    X(t->pieces[0].source = 0)                                                                     \
    X(t->pieces[0].source = 2)                                                                     \
    X(t->pieces[0].source = 4)                                                                     \
    X(t->pieces[0].source = 5)                                                                     \
    X(t->storages[1].is_mutable = 1)                                                               \
    X(t->storages[2].is_mutable = 1)                                                               \
    X(t->pieces[0].rank = 3)                                                                       \
    X(t->pieces[1].dims = 2)                                                                       \
    X(t->pieces[1].dims = UINT32_MAX)                                                              \
    X(t->pieces[0].run_bytes = 0)                                                                  \
    X(t->pieces[0].run_bytes = 5)                                                                  \
    X(t->pieces[0].run_bytes = UINT64_MAX)                                                         \
    X(t->pieces[0].from = 4)                                                                       \
    X(t->pieces[0].from = UINT64_MAX - 2)                                                          \
    X(t->pieces[0].to = 16)                                                                        \
    X(t->pieces[0].to = UINT64_MAX - 2)                                                            \
    X(t->dims[0].size = 0)                                                                         \
    X(t->dims[0].size = 5)                                                                         \
    X(t->dims[0].size = UINT64_MAX)                                                                \
    X(t->dims[0].from_stride = 5)                                                                  \
    X(t->dims[0].to_stride = 21)                                                                   \
    X(t->dims[0].to_stride = UINT64_MAX)                                                           \
    X((t->dims[0] = (hn_box_dim){.size = 17}, (void)0)) /* more bytes than there are */            \
    X(t->storages[2].bytes = 31)                                                                   \
    X(t->storages[2].bytes = UINT64_MAX)                                                           \
    X(t->storages[2].offset = 1)                                                                   \
    X(t->storages[2].offset = 3)                                                                   \
    X(t->storages[4].offset = 1)                                                                   \
    X(t->storages[4].offset = UINT64_MAX)                                                          \
    X(t->piece_count = 2)                                                                          \
    X(t->tensor.storage = 2)

TEST(damaged_pieces){
#define TRY(what)                                                                                  \
    {                                                                                              \
        tables copy = good, *t = &copy;                                                            \
        hn_strbuf image;                                                                           \
        hn_bundle b;                                                                               \
        what;                                                                                      \
        hn_status status = open_tables(t, &image, &b);                                             \
        if (hn_status_code(status) != HN_CORRUPT) HN_TEST_FAIL("accepted: %s", #what);             \
        hn_status_free(status);                                                                    \
        hn_strbuf_deinit(&image);                                                                  \
    }
    CASES(TRY)}

TEST_MAIN
