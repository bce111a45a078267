// Everything that a Metal compute kernel sees, for the C++ compiler of the emulator.
#pragma once
#include "metal_types.h"
#include "metal_limits.h"
#include "metal_math.h"
#include "metal_simd.h"
#include "metal_atomic.h"
#include "metal_entry.h"

// Address spaces are erased here; the static checker checks them.
#define device
#define thread
#define constant const
#define threadgroup
#define kernel inline __attribute__((noinline))
#define __msl_tg static __attribute__((section("msl_tg")))
