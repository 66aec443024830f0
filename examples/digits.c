/* digits.c: reads handwritten digits: draws the images, classifies them, and counts the correct
 * answers.
 *
 *     digits DIR [--all] [--ascii]      DIR holds model.pt2, input_0.npy and labels.txt
 *
 * The first run compiles the model; later ones find it in the cache. */
#include <henry/henry.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10, MAX_IMAGES = 1024, ACROSS = 8 };

typedef struct digits {
    float images[MAX_IMAGES * PIXELS];
    float probabilities[MAX_IMAGES * CLASSES];
    int labels[MAX_IMAGES];
    int count;
} digits;

/* ---- files ---- */

static hn_status open_file(const char *dir, const char *name, FILE **out) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    *out = fopen(path, "rb");
    return *out ? NULL : HN_ERROR(HN_NOT_FOUND, "cannot open '%s'", path);
}

/* An .npy of float32: ten bytes, the length of a header, the header, the elements. */
static hn_status read_images(const char *dir, digits *d) {
    unsigned char start[10];
    FILE *file;
    HN_TRY(open_file(dir, "input_0.npy", &file));
    bool good = fread(start, 1, sizeof start, file) == sizeof start &&
                memcmp(start, "\x93NUMPY\x01\x00", 8) == 0;
    if (good) good = fseek(file, start[8] + 256 * start[9], SEEK_CUR) == 0;
    size_t floats = good ? fread(d->images, sizeof(float), MAX_IMAGES * PIXELS, file) : 0;
    fclose(file);
    d->count = (int)(floats / PIXELS);
    return d->count && floats % PIXELS == 0
               ? NULL
               : HN_ERROR(HN_CORRUPT, "'%s/input_0.npy' holds no images", dir);
}

static hn_status read_labels(const char *dir, digits *d) {
    FILE *file;
    HN_TRY(open_file(dir, "labels.txt", &file));
    int count = 0;
    while (count < d->count && fscanf(file, "%d", &d->labels[count]) == 1) count++;
    fclose(file);
    return count == d->count ? NULL
                             : HN_ERROR(HN_CORRUPT, "'%s/labels.txt' holds %d labels for %d images",
                                        dir, count, d->count);
}

/* ---- the model ---- */

static hn_status load(const char *dir, hn_module **out) {
    char path[1024];
    hn_compiled *compiled;
    hn_compile_stats stats;
    snprintf(path, sizeof path, "%s/model.pt2", dir);
    HN_TRY(hn_compile_file(path, NULL, &compiled));
    hn_compiled_stats_get(compiled, &stats);
    printf("%s: %u kernels, ready in %.1f ms%s\n", path, stats.kernels_generated,
           (double)stats.total_ns / 1e6,
           stats.graph_cache == HN_CACHE_HIT ? " from the cache" : ", compiled now");
    hn_status status = hn_compiled_load(compiled, NULL, out);
    hn_compiled_release(compiled);
    return status;
}

/* All images in one batch; the results are in `d`. */
static hn_status classify(hn_module *module, digits *d) {
    int64_t in_sizes[] = {d->count, 1, SIDE, SIDE}, out_sizes[] = {d->count, CLASSES};
    hn_tensor *input = NULL, *output = NULL;
    hn_status status = hn_tensor_create(
        &(hn_tensor_desc){.type = HN_F32, .rank = 4, .sizes = in_sizes, .data = d->images}, &input);
    if (!status)
        status = hn_tensor_create(
            &(hn_tensor_desc){
                .type = HN_F32, .rank = 2, .sizes = out_sizes, .data = d->probabilities},
            &output);
    if (!status) status = hn_module_run(module, &input, 1, &output, 1);
    hn_tensor_release(input);
    hn_tensor_release(output);
    return status;
}

static int best_class(const digits *d, int image) {
    const float *p = d->probabilities + image * CLASSES;
    int best = 0;
    for (int k = 1; k < CLASSES; k++)
        if (p[k] > p[best]) best = k;
    return best;
}

/* ---- pictures ---- */

static void draw_row(const digits *d, int first, int count, int y, bool ascii) {
    static const char *const blocks[] = {"  ", "░░", "▒▒", "▓▓", "██"}, *const letters[] = {
                                                                            "  ", "..", "++", "%%",
                                                                            "@@"};
    for (int k = 0; k < count; k++) {
        for (int x = 0; x < SIDE; x++) {
            int shade = (int)(d->images[(first + k) * PIXELS + y * SIDE + x] * 4 + 0.5F);
            shade = shade < 0 ? 0 : shade > 4 ? 4 : shade;
            fputs(ascii ? letters[shade] : blocks[shade], stdout);
        }
        fputs("  ", stdout);
    }
    putchar('\n');
}

/* A row of pictures with the answers below them. */
static void draw(const digits *d, int first, int count, bool ascii) {
    for (int y = 0; y < SIDE; y++) draw_row(d, first, count, y, ascii);
    for (int k = first; k < first + count; k++) {
        int best = best_class(d, k);
        char text[32];
        snprintf(text, sizeof text, "%d  %.1f %%%s", best,
                 100.0 * (double)d->probabilities[k * CLASSES + best],
                 best == d->labels[k] ? "" : "  wrong");
        printf("%-18s", text);
    }
    puts("\n");
}

static bool terminal_knows_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int k = 0; k < 3; k++) {
        const char *value = getenv(names[k]);
        if (value && *value) return strstr(value, "UTF-8") || strstr(value, "utf8");
    }
    return false;
}

static hn_status show(const char *dir, bool all, bool ascii) {
    static digits d;
    hn_module *module;
    HN_TRY(read_images(dir, &d));
    HN_TRY(read_labels(dir, &d));
    HN_TRY(load(dir, &module));
    hn_status status = classify(module, &d);
    hn_module_release(module);
    if (status) return status;
    puts("");
    for (int k = 0; k < (all ? d.count : ACROSS) && k < d.count; k += ACROSS)
        draw(&d, k, d.count - k < ACROSS ? d.count - k : ACROSS, ascii);
    int right = 0;
    for (int k = 0; k < d.count; k++) right += best_class(&d, k) == d.labels[k];
    printf("%d of %d digits named rightly\n", right, d.count);
    return NULL;
}

int main(int argc, char **argv) {
    const char *dir = NULL;
    bool all = false, ascii = !terminal_knows_utf8();
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--all") == 0) all = true;
        else if (strcmp(argv[k], "--ascii") == 0) ascii = true;
        else dir = argv[k];
    }
    if (!dir) {
        fputs("usage: digits DIR [--all] [--ascii]\n", stderr);
        return 2;
    }
    hn_status status = show(dir, all, ascii);
    if (!status) return 0;
    fprintf(stderr, "digits: %s\n", hn_status_message(status));
    hn_status_free(status);
    return 1;
}
