/* hnir.h: the importer of graphs in text form (docs/ir.md, section 2). Only front/importer.c
 * includes this. */
#ifndef HN_FRONT_HNIR_HNIR_H
#define HN_FRONT_HNIR_HNIR_H

#include "front/importer.h"

extern const hn_importer hn_importer_hnir;

#endif
