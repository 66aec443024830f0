/* version.c: the versions of the library and of its files. */
#include "henry/version.h"

#include "bundle/format.h"

const char *hn_version_string(void) { return HENRY_VERSION_STRING; }

int32_t hn_version_number(void) { return HENRY_VERSION; }

int32_t hn_version_bundle_format(void) { return HNB_VERSION_VARIANTS; }
