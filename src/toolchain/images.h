/* images.h: the artefact of a GPU language: device code for several architectures in one piece of
 * bytes. It is a bundle (docs/bundle-format.md) that has nothing but a target and an object for
 * each architecture, and a kernel for each entry of the job; `henry inspect` shows it, and a bundle
 * of a model takes the objects over as they are. */
#ifndef HN_TOOLCHAIN_IMAGES_H
#define HN_TOOLCHAIN_IMAGES_H

#include "base/gpu_arch.h"
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

/* The image for a device of architecture `arch` ("sm_90"): the same name, or the one that fits best
 * (hn_arch_fitness). False when none fits. */
bool hn_images_find(hn_str bytes, const char *arch, hn_image *out);

#endif
