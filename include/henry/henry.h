/* henry/henry.h: compiling models and running them.
 *
 *     henry/program.h   compile a .pt2 (libhenry)
 *     henry/module.h    load what was compiled and run it (libhenry or libhenry_rt)
 *     henry/debug.h     look at the tensors of a run (both)
 *     henry/record.h    what the steps of a program are made of (both)
 *     henry/bench.h     which of several ways is the fastest (both; not included here)
 *     henry/tune.h      which form of each kernel of a model is the fastest (libhenry; not included here)
 *     henry/bundle.h    look at bundle files, sign and verify them (both)
 *     henry/tensor.h, henry/status.h, henry/log.h, henry/version.h: what all of them share (both)
 *
 * A program that only runs bundles also includes this header, and links libhenry_rt. The compile
 * service for kernels of your own is separate: henry/kernel.h. */
#ifndef HENRY_HENRY_H
#define HENRY_HENRY_H

#include "henry/bundle.h"
#include "henry/debug.h"
#include "henry/log.h"
#include "henry/metrics.h"
#include "henry/module.h"
#include "henry/program.h"
#include "henry/record.h"
#include "henry/status.h"
#include "henry/tensor.h"
#include "henry/version.h"

#endif
