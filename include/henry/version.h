/* henry/version.h: the version of Henry. The macros give the version at compile time, the functions
 * that of the loaded library.
 *
 * Before 1.0 a new minor version may change the API and the ABI; a new patch version changes
 * neither. */
#ifndef HENRY_VERSION_H
#define HENRY_VERSION_H

#include "henry/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The only place that states the project's version: CMake reads these three lines. */
#define HENRY_VERSION_MAJOR 0
#define HENRY_VERSION_MINOR 1
#define HENRY_VERSION_PATCH 0

/* Versions as numbers that compare like versions: HENRY_VERSION >= HENRY_VERSION_OF(0, 2, 0). */
#define HENRY_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define HENRY_VERSION                                                                              \
    HENRY_VERSION_OF(HENRY_VERSION_MAJOR, HENRY_VERSION_MINOR, HENRY_VERSION_PATCH)

#define HENRY_VERSION_QUOTE_(text) #text
#define HENRY_VERSION_TEXT_(major, minor, patch)                                                   \
    HENRY_VERSION_QUOTE_(major) "." HENRY_VERSION_QUOTE_(minor) "." HENRY_VERSION_QUOTE_(patch)
#define HENRY_VERSION_STRING                                                                       \
    HENRY_VERSION_TEXT_(HENRY_VERSION_MAJOR, HENRY_VERSION_MINOR, HENRY_VERSION_PATCH) /* "0.1.0" */

/* HENRY_VERSION_STRING and HENRY_VERSION of the library that is loaded. */
HN_API const char *hn_version_string(void);
HN_API int32_t hn_version_number(void);

/* The newest version of the bundle format that this library reads and writes: that of bundles which
 * compute weights when they are loaded. Other bundles are of one of the two versions before, with
 * one program or several. A bundle of any other version is refused as incompatible. */
HN_API int32_t hn_version_bundle_format(void);

#ifdef __cplusplus
}
#endif
#endif
