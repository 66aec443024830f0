/* images.h: the artefact of a GPU language: device code for several architectures in one piece of
 * bytes. It is a bundle (docs/bundle-format.md) that has nothing but a target and an object for
 * each architecture, and a kernel for each entry of the job; `henry inspect` shows it, and a bundle
 * of a model takes the objects over as they are. */
#ifndef HN_TOOLCHAIN_IMAGES_H
#define HN_TOOLCHAIN_IMAGES_H

#include "base/str.h"
#include "henry/kernel.h"
#include "henry/status.h"

enum { HN_IMAGES_MAX = 64, HN_IMAGE_ARCH_BYTES = 24, HN_ENTRIES_MAX = 4096 };

/* What goes in. Everything is borrowed. */
typedef struct hn_images_source {
    const hn_image *images;
    uint32_t image_count;
    hn_str names; /* list: entry, symbol, entry, symbol... */
} hn_images_source;

/* Errors: invalid-argument for too many images, or an architecture with too long a name. */
hn_status hn_images_write(const hn_images_source *source, hn_strbuf *out) HN_MUST_USE;

/* Whether the bytes start like images. */
bool hn_images_are(hn_str bytes);
/* Checks everything, so that the others below cannot fail. Errors: corrupt. */
hn_status hn_images_check(hn_str bytes) HN_MUST_USE;
uint32_t hn_images_count(hn_str bytes);
void hn_images_get(hn_str bytes, uint32_t idx, hn_image *out); /* idx below the count */
/* The symbol of an entry; NULL when there is no such entry. */
const char *hn_images_symbol(hn_str bytes, const char *entry);

/* The image for a device of architecture `arch` ("sm_90"), in this order: the same name; the cubin
 * of the highest lower minor number of the same major one; the PTX of the highest architecture that
 * is not above. Those whose name ends in a letter fit only themselves ("sm_90a") or their family
 * ("sm_100f": same major number, not lower). False when none fits. */
bool hn_images_find(hn_str bytes, const char *arch, hn_image *out);

/* "sm_90" and "compute_90" are 90 with suffix 0, "sm_90a" has suffix 'a'. False for what is no
 * architecture.
 */
bool hn_arch_parse(const char *arch, bool *out_is_ptx, int *out_number, char *out_suffix);

#endif
