/* test_cubin.c: what kernels take of a GPU, from files in the compiler's format that are made here;
 * tests/unit/toolchain/test_cuda.c has the compiler's own. */
#include "base/cubin.h"
#include "unit/harness.h"

#include <elf.h>
#include <stdlib.h>

enum { SECTIONS = 7, FILE_BYTES = 2048 };

/* Of two kernels, f and g, which are symbols 1 and 2. */
static const char strings[] = "\0f\0g";
static const char names[] =
    "\0.shstrtab\0.strtab\0.symtab\0.nv.info\0.nv.shared.f\0.nv.shared.reserved.0";

typedef struct builder {
    char bytes[FILE_BYTES];
    size_t len;
    Elf64_Shdr sections[SECTIONS];
} builder;

static void put(builder *b, uint32_t section, const void *bytes, size_t len) {
    b->sections[section].sh_offset = b->len;
    b->sections[section].sh_size = len;
    if (len) memcpy(b->bytes + b->len, bytes, len);
    b->len += (len + 7) / 8 * 8;
}

static uint32_t name_at(const char *name) {
    for (uint32_t k = 0; k < sizeof names; k++)
        if (strcmp(names + k, name) == 0 && (!k || !names[k - 1])) return k;
    return 0;
}

/* Registers 20 and stack 0 of f, 40 and 64 of g; shared memory of f, of which some may be the
 * system's. */
static void build(builder *b, uint64_t shared, bool has_reserved) {
    static const uint32_t info[] = {0x00082f04, 1, 20, 0x00081104, 1, 0,  0x00082f04, 2, 40,
                                    0x00081104, 2, 16, 0x00081204, 2, 64, 0x00000003};
    Elf64_Sym symbols[3] = {{0}, {.st_name = 1}, {.st_name = 3}};
    static const char *const own[SECTIONS] = {
        "", ".shstrtab", ".strtab", ".symtab", ".nv.info", ".nv.shared.f", ".nv.shared.reserved.0"};
    memset(b, 0, sizeof *b);
    b->len = sizeof(Elf64_Ehdr);
    put(b, 1, names, sizeof names);
    put(b, 2, strings, sizeof strings);
    put(b, 3, symbols, sizeof symbols);
    put(b, 4, info, sizeof info);
    b->sections[5].sh_size = shared;
    b->sections[3].sh_link = 2;
    b->sections[4].sh_link = 3;
    const uint32_t count = has_reserved ? SECTIONS : SECTIONS - 1;
    for (uint32_t k = 1; k < count; k++) b->sections[k].sh_name = name_at(own[k]);
    Elf64_Ehdr header = {.e_shoff = b->len, .e_shnum = (uint16_t)count, .e_shstrndx = 1};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    memcpy(b->bytes, &header, sizeof header);
    memcpy(b->bytes + b->len, b->sections, count * sizeof *b->sections);
    b->len += count * sizeof *b->sections;
}

static hn_str file_of(const builder *b) { return (hn_str){b->bytes, b->len}; }

TEST(what_kernels_take) {
    builder b;
    hn_cubin_use use;
    build(&b, 96, false);
    EXPECT(hn_cubin_use_find(file_of(&b), "f", &use));
    EXPECT_INT(use.registers, 20);
    EXPECT_INT(use.stack_bytes, 0);
    EXPECT_INT(use.shared_bytes, 96);
    EXPECT(hn_cubin_use_find(file_of(&b), "g", &use));
    EXPECT_INT(use.registers, 40);
    EXPECT_INT(use.stack_bytes, 64); /* with that of functions that it calls */
    EXPECT_INT(use.shared_bytes, 0);
    EXPECT(!hn_cubin_use_find(file_of(&b), "h", &use));
}

TEST(shared_memory_of_the_system_does_not_count) {
    builder b;
    hn_cubin_use use;
    build(&b, 1024 + 96, true);
    EXPECT(hn_cubin_use_find(file_of(&b), "f", &use));
    EXPECT_INT(use.shared_bytes, 96);
}

/* In memory of its own length, so that reads behind its end show under AddressSanitizer. */
static void read_part(const builder *b, size_t len) {
    hn_cubin_use use;
    char *part = malloc(len + 1);
    EXPECT(part);
    memcpy(part, b->bytes, len);
    hn_cubin_use_find((hn_str){part, len}, "g", &use);
    (void)hn_cubin_is_whole((hn_str){part, len});
    free(part);
}

/* The sections stand at the end. */
TEST(files_that_are_cut_off) {
    builder b;
    build(&b, 1 << 20, true);
    for (int k = 1; k < 5; k++) {
        Elf64_Shdr *section = (Elf64_Shdr *)(void *)(b.bytes + b.len) - SECTIONS + k;
        section->sh_type = SHT_PROGBITS;
    }
    EXPECT(hn_cubin_is_whole(file_of(&b)));
    for (size_t len = 0; len < b.len; len++) EXPECT(!hn_cubin_is_whole((hn_str){b.bytes, len}));
    Elf64_Shdr *info = (Elf64_Shdr *)(void *)(b.bytes + b.len) - SECTIONS + 4;
    info->sh_size = b.len;
    EXPECT(!hn_cubin_is_whole(file_of(&b)));
}

TEST(damaged_files) {
    builder b, damaged;
    hn_cubin_use use;
    build(&b, 96, true);
    EXPECT(!hn_cubin_use_find(HN_STR("no such file"), "f", &use));
    EXPECT(!hn_cubin_use_find((hn_str){NULL, 0}, "f", &use));
    for (size_t len = 0; len < b.len; len++) read_part(&b, len);
    for (size_t at = 0; at < b.len; at++)
        for (int bit = 0; bit < 8; bit++) {
            damaged = b;
            damaged.bytes[at] = (char)(damaged.bytes[at] ^ 1 << bit);
            read_part(&damaged, damaged.len);
        }
}

TEST_MAIN
