// SPDX-License-Identifier: MIT
// The calls of generics.c as C++: overloads instead of generic selection, std::complex instead of _Complex.
#include <shmem.h>

#include <complex> // not by shmem.h, which may come before it

#include "generics.c"
