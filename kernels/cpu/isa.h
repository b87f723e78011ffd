// SPDX-License-Identifier: Apache-2.0
//
// Dispatch by instruction set.
#ifndef QUIRE_CPU_ISA_H
#define QUIRE_CPU_ISA_H

#include "kernels/cpu/cpu.h"

// name NULL: the best one this machine has. ERR_UNSUPPORTED for a name it lacks or that nobody knows.
int cpu_isa_choose(const char *name, const struct cpu_isa **out, char *err, size_t len);

#endif
