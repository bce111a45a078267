// OpenCL cannot copy a structure out of constant memory and Metal can. Where a shader does so, a
// second pass reads `constant` as read-only device memory, for what only a whole compilation shows.
#pragma once
#pragma clang system_header
#define constant const __global
