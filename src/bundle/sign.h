/* sign.h: who made a bundle. A signature is Ed25519 over
 *
 *     "henry bundle signature 1" and a zero byte   25 bytes
 *     digest of part one                           32 bytes; it covers the digests of all objects
 *     digest of the weights                        32 bytes: of part three, or of the weights file;
 *                                                  zeros: there are none
 *
 * What is signed names everything that a run reads, but the place of the weights file. */
#ifndef HN_BUNDLE_SIGN_H
#define HN_BUNDLE_SIGN_H

#include "bundle/view.h"
#include "henry/bundle.h"

/* Whether one of `trusted` signed a bundle whose digest of part one was compared (hn_bundle_open).
 * Objects and weights are to be compared with their digests before they are used.
 * Errors: `corrupt` for a signature that does not fit, `incompatible` for one that is absent or
 * somebody else's. */
hn_status hn_bundle_signature_check(const hn_bundle *b, const hn_public_key *trusted,
                                    uint32_t trusted_count) HN_MUST_USE;

/* The digest that stands for the weights in what is signed; zeros when there are none. Errors:
 * invalid-argument when there are weights and no digest was recorded. */
hn_status hn_bundle_weights_digest(const hn_bundle *b, hn_digest *out) HN_MUST_USE;

#endif
