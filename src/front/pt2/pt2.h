/* pt2.h: reads the .pt2 files of torch.export into graph IR with ATen nodes. Facts on the format:
 * src/front/pt2/README.md. All generations are read: raw payloads (PyTorch 2.9 and later), pickled
 * ones (2.8) and the flat archives before that. */
#ifndef HN_FRONT_PT2_PT2_H
#define HN_FRONT_PT2_PT2_H

#include "front/importer.h"

extern const hn_importer hn_importer_pt2;

#endif
