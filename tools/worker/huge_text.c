/* huge_text.c: the code and the constants of the running program on large pages.
 *
 * A tool that stands by is forked for each job. Pages of a file are not handed on by a fork: each job of cc1 takes some
 * 300 faults to map what it runs of the program's 31 MiB, and unmaps it page by page at its end, 2 ms of 20 that a small
 * kernel costs. Large pages of the process's own memory are handed on by one entry for 2 MiB. It costs that memory once
 * for each tool, so it is for tools that have many jobs, and while there is plenty. */
#include "tools/worker/huge_text.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES  ((uintptr_t)2 << 20)
#define PLENTY      32 /* times what is moved must be available */
#define TEXT_BYTES  4096

/* A number of KiB in a file of the kernel's, in bytes; 0 when it is not there. */
static size_t kernel_says(const char *path, const char *label) {
    char text[TEXT_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0) return 0;
    text[got] = 0;
    const char *at = strstr(text, label);
    return at ? (size_t)strtoull(at + strlen(label), NULL, 10) * 1024 : 0;
}

static size_t huge_bytes(void) { return kernel_says("/proc/self/smaps_rollup", "AnonHugePages:"); }

/* A copy of `len` bytes on large pages, with the protection `prot`; NULL when the system gives none. */
static void *copy_to_huge(const void *from, size_t len, int prot) {
    size_t before = huge_bytes(), mapped = len + PAGE_BYTES;
    char *raw = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    size_t skip = (PAGE_BYTES - ((uintptr_t)raw & (PAGE_BYTES - 1))) & (PAGE_BYTES - 1);
    char *copy = raw + skip;
    if (skip) munmap(raw, skip);
    munmap(copy + len, mapped - len - skip);
    bool ok = madvise(copy, len, MADV_HUGEPAGE) == 0;
    if (ok) memcpy(copy, from, len);
    ok = ok && huge_bytes() >= before + len && mprotect(copy, len, prot) == 0; /* small pages would cost, not save */
    if (ok) return copy;
    munmap(copy, len);
    return NULL;
}

static bool move_segment(uintptr_t begin, uintptr_t end, int prot) {
    uintptr_t from = (begin + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1), to = end & ~(PAGE_BYTES - 1);
    if (from >= to) return true;
    size_t len = to - from;
    if (kernel_says("/proc/meminfo", "MemAvailable:") / PLENTY < len) return false;
    void *copy = copy_to_huge((const void *)from, len, prot);
    return copy && mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)from) != MAP_FAILED;
}

/* The program itself comes first, and is all that is of interest. */
static int move_program(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) || !(segment->p_flags & PF_R)) continue;
        if (!move_segment(begin, begin + segment->p_filesz, PROT_READ | (segment->p_flags & PF_X ? PROT_EXEC : 0))) break;
    }
    return 1;
}

void hn_huge_text(void) { dl_iterate_phdr(move_program, NULL); }
