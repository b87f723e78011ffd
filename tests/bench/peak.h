// SPDX-License-Identifier: Apache-2.0
//
// What this machine can do at most, measured: the ceilings that kernels are compared with.
#ifndef QUIRE_BENCH_PEAK_H
#define QUIRE_BENCH_PEAK_H

struct peaks {
	double int8, f32; // GOP/s of all threads, a multiply-add is two
	double read_gb;	  // GB/s of memory, all threads
};

// isa: a text that contains "avx512" or "avx2" (a back end's description will do); anything else has no int8 peak.
struct peaks peaks_measure(const char *isa, int n_threads);

// A loop of multiply-adds in registers, and how many operations it was.
double peak_int8_avx512(int loops);
double peak_f32_avx512(int loops);
double peak_int8_avx2(int loops);
double peak_f32_avx2(int loops);

#endif
