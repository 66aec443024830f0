/* fuzz_zip.c: any bytes as a zip archive; every record is read. */
#include "front/pt2/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_arena arena;
    hn_zip zip;
    hn_arena_init(&arena);
    hn_status status = hn_zip_open(&zip, &arena, data, size);
    for (uint32_t k = 0; !status && k < zip.entries.count; k++) {
        hn_str bytes;
        uint64_t offset;
        hn_zip_entry *entry = &zip.entries.items[k];
        if (entry->size_bytes > 1 << 20) continue; /* keeps a round short */
        hn_status read =
            hn_zip_read(&zip, entry, k % 2 ? HN_ZIP_TRUST : HN_ZIP_CHECK_CRC, &bytes, &offset);
        /* a sanitizer looks at every byte */
        for (size_t i = 0, sum = 0; !read && i < bytes.len; i++) {
            sum += (uint8_t)bytes.ptr[i];
            if (sum == SIZE_MAX) break;
        }
        hn_status_free(read);
    }
    hn_status_free(status);
    hn_arena_deinit(&arena);
    return 0;
}
