/* gpu_arch.c: see gpu_arch.h. */
#include "base/gpu_arch.h"

#include <stdlib.h>
#include <string.h>

bool hn_arch_parse(const char *arch, bool *out_is_ptx, int *out_number, char *out_suffix) {
    size_t prefix = strncmp(arch, "sm_", 3) == 0 ? 3 : strncmp(arch, "compute_", 8) == 0 ? 8 : 0;
    const char *digits = arch + prefix;
    size_t count = strspn(digits, "0123456789");
    if (!prefix || count < 2 || count > 4) return false;
    const char *rest = digits + count;
    if (*rest && ((*rest != 'a' && *rest != 'f') || rest[1])) return false;
    *out_is_ptx = prefix == 8;
    *out_number = atoi(digits);
    *out_suffix = *rest;
    return true;
}

int hn_arch_fitness(const char *arch, int number) {
    bool is_ptx;
    int own;
    char suffix;
    if (!hn_arch_parse(arch, &is_ptx, &own, &suffix) || own > number) return -1;
    bool is_same_major = own / 10 == number / 10;
    if (suffix == 'a' && own != number) return -1;
    if (suffix == 'f' && !is_same_major) return -1;
    if (!is_ptx && !is_same_major) return -1;
    /* Code made for the machine before code that the driver has yet to translate; then the nearest;
     * then the most special. */
    return (is_ptx ? 0 : 1 << 20) + own * 4 + (suffix == 'a' ? 2 : suffix == 'f');
}
