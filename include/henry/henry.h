/* henry/henry.h: everything that programs which run compiled models need. */
#ifndef HENRY_HENRY_H
#define HENRY_HENRY_H

#include "henry/bundle.h"
#include "henry/module.h"
#include "henry/status.h"
#include "henry/tensor.h"

#endif
