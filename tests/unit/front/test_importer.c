/* test_importer.c: a model is opened with the importer of its kind; what none of them takes is
 * refused with what can be read. */
#include "unit/harness.h"

#include "base/compiler.h"
#include "front/importer.h"
#include "unit/front/zip_writer.h"

static const char model_path[] = "examples/data/digits/model.pt2";

TEST(a_file_knows_its_importer) {
    hn_model_file *file = NULL;
    EXPECT_OK(hn_model_open(model_path, &file));
    if (!file) return;
    EXPECT_STR(file->importer->name, "pt2");
    EXPECT_INT(file->model_count, 1);
    EXPECT(hn_str_eq(file->models[0], HN_STR("model")));
    EXPECT(file->has_checksums && file->may_share);
    EXPECT(file->map.data != NULL);
    hn_model_close(file);
    hn_model_close(NULL);
}

TEST(other_bytes_are_refused) {
    static const struct {
        const char *bytes;
        size_t len;
        hn_code code;
        const char *message;
    } cases[] = {
        {"text", 4, HN_INVALID_ARGUMENT,
         "it is of no known kind, not a PyTorch model (.pt2) or a graph as text (.hnir); export the model with torch.export"},
        {"", 0, HN_INVALID_ARGUMENT,
         "it is empty, not a PyTorch model (.pt2) or a graph as text (.hnir); was it written to the end?"},
        {"\x08\x0a:\0", 4, HN_INVALID_ARGUMENT,
         "it is an ONNX model, not a PyTorch model (.pt2) or a graph as text (.hnir); export the model with torch.export"},
        {HN_KIND_BUNDLE_MAGIC, 8, HN_INVALID_ARGUMENT,
         "it is a bundle (.hnb), not a PyTorch model (.pt2) or a graph as text (.hnir); it is compiled already"},
        /* may have been a .pt2: its importer speaks */
        {"PK\3\4 and no end", 15, HN_CORRUPT, "not a zip archive"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        hn_model_file *file = NULL;
        EXPECT_ERROR(hn_model_open_memory(cases[k].bytes, cases[k].len, &file), cases[k].code,
                     cases[k].message);
    }
}

TEST(errors_name_the_file) {
    hn_model_file *file = NULL;
    EXPECT_ERROR(hn_model_open("/nowhere/m.pt2", &file), HN_NOT_FOUND, "'/nowhere/m.pt2'");
    EXPECT_ERROR(hn_model_open("Makefile", &file), HN_INVALID_ARGUMENT,
                 "cannot open 'Makefile': it is of no known kind");
}

/* ---- keys ---- */

enum { TABLE, SAMPLES, ID, VALUE, LARGE, OTHER, RECORDS };

/* A model file in which one record is changed; the names are as torch.export writes them. */
typedef struct archive {
    zip_writer zip;
    hn_model_file *file;
} archive;

static void archive_open(archive *a, const char *root, int changed, const char *other) {
    static const char *const names[RECORDS] = {
        "models/model.json",     "data/sample_inputs/model.pt", ".data/serialization_id",
        "data/weights/weight_0", "data/weights/weight_1",       "data/weights/weight_2"};
    static char large[2][100000];
    char name[100];
    *a = (archive){0};
    snprintf(name, sizeof name, "%s/archive_format", root);
    zip_writer_add(&a->zip, name, "pt2", 3, false);
    for (int k = 0; k < RECORDS; k++) {
        bool is_changed = k == changed;
        snprintf(name, sizeof name, "%s/%s", root, names[k]);
        large[1][0] = 1;
        if (k == LARGE || k == SAMPLES)
            zip_writer_add(&a->zip, name, large[is_changed], sizeof large[0], false);
        else
            zip_writer_add(&a->zip, name, is_changed ? other : "1234",
                           strlen(is_changed ? other : "1234"), false);
    }
    zip_writer_end(&a->zip);
    EXPECT_OK(hn_model_open_memory(a->zip.bytes, a->zip.len, &a->file));
}

static void archive_close(archive *a) {
    hn_model_close(a->file);
    zip_writer_free(&a->zip);
}

static hn_model_key key_of(archive *a, bool is_shared) {
    hn_model_key key = {.graph = {.records = 0}};
    EXPECT_OK(a->file->importer->key_parts(a->file, is_shared, &key));
    return key;
}

static hn_digest values_of(archive *a) {
    hn_digest digest = {{0}};
    EXPECT_OK(a->file->importer->values_digest(a->file, (const uint32_t[]){VALUE + 1, LARGE + 1}, 2,
                                               &digest));
    return digest;
}

static hn_digest places_of(archive *a) {
    hn_digest digest = {{0}};
    EXPECT_OK(a->file->importer->places_digest(a->file, &digest));
    return digest;
}

static bool same(hn_digest a, hn_digest b) { return memcmp(&a, &b, sizeof a) == 0; }

/* Which parts of the key differ when one record does. */
TEST(each_record_counts_where_it_matters) {
    static const struct {
        int changed;
        const char *other;
        /* `own_weights`: of a key that is not shared */
        bool graph, weights, own_weights, values, places;
    } cases[] = {
        {-1, "", false, false, false, false, false},
        {TABLE, "1235", true, false, false, false, false},
        {SAMPLES, "", false, false, true, false, false}, /* example inputs */
        {ID, "1235", false, false, true, false, false},
        {VALUE, "1235", false, false, true, true, false},
        {LARGE, "", false, false, true, true, false},
        {OTHER, "1235", false, false, true, false, false}, /* nothing was computed with it */
        {OTHER, "12345", false, true, true, false, false}, /* another size */
        {VALUE,
         "a value so much longer that the next record moves, to the next place that is aligned",
         false, true, true, true, true},
    };
    archive first;
    archive_open(&first, "m", -1, "");
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        archive a;
        archive_open(&a, "m", cases[k].changed, cases[k].other);
        EXPECT(same(key_of(&first, true).graph.digest, key_of(&a, true).graph.digest) !=
               cases[k].graph);
        EXPECT(same(key_of(&first, true).weights.digest, key_of(&a, true).weights.digest) !=
               cases[k].weights);
        EXPECT(same(key_of(&first, false).weights.digest, key_of(&a, false).weights.digest) !=
               cases[k].own_weights);
        EXPECT(same(values_of(&first), values_of(&a)) != cases[k].values);
        EXPECT(same(places_of(&first), places_of(&a)) != cases[k].places);
        archive_close(&a);
    }
    archive_close(&first);
}

/* The folder in an archive has the name that the file was saved under. */
TEST(the_root_folder_does_not_count) {
    archive a, b;
    archive_open(&a, "m", -1, "");
    archive_open(&b, "n", -1, "");
    EXPECT(same(key_of(&a, true).graph.digest, key_of(&b, true).graph.digest));
    EXPECT(same(key_of(&a, true).weights.digest, key_of(&b, true).weights.digest));
    EXPECT(same(values_of(&a), values_of(&b)));
    archive_close(&a);
    archive_close(&b);
}

TEST(records_that_are_not_there) {
    archive a;
    hn_digest digest;
    archive_open(&a, "m", -1, "");
    EXPECT_ERROR(a.file->importer->values_digest(a.file, (const uint32_t[]){99}, 1, &digest),
                 HN_CORRUPT, "number 99");
    archive_close(&a);
}

TEST_MAIN
