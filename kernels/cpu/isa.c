// SPDX-License-Identifier: Apache-2.0
//
// Which instruction sets this machine has. CPUID says what the processor can do; XGETBV says whether the operating
// system saves the wider registers when it switches threads, without which they must not be used.
#include "kernels/cpu/isa.h"

#include "engine/base/err.h"
#include "kernels/cpu/attention_isa.h"
#include "kernels/cpu/linear_isa.h"

#include <string.h>

#if defined(QUIRE_SIMDE) // tests: every kernel runs everywhere
static bool has_avx2(void)
{
	return true;
}

static bool has_avx512_vnni(void)
{
	return true;
}
#elif defined(__x86_64__)
#include <cpuid.h>

enum { YMM_STATE = 0x06, ZMM_STATE = 0xE6 };

static unsigned saved_state(void)
{
	unsigned low, high, a, b, c, d;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) // OSXSAVE
		return 0;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

static bool has_avx2(void)
{
	unsigned a, b, c, d, c1;
	if (!__get_cpuid(1, &a, &b, &c1, &d) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return false;
	bool fma = c1 >> 12 & 1, f16c = c1 >> 29 & 1, avx2 = b >> 5 & 1;
	return fma && f16c && avx2 && (saved_state() & YMM_STATE) == YMM_STATE;
}

static bool has_avx512_vnni(void)
{
	unsigned a, b, c, d;
	if (!has_avx2() || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return false;
	bool f = b >> 16 & 1, dq = b >> 17 & 1, bw = b >> 30 & 1, vl = b >> 31 & 1, vnni = c >> 11 & 1;
	return f && dq && bw && vl && vnni && (saved_state() & ZMM_STATE) == ZMM_STATE;
}

#endif

static bool always(void)
{
	return true;
}

#if defined(__x86_64__) || defined(QUIRE_SIMDE)
static const struct cpu_isa avx512 = {"avx512-vnni", &cpu_linear_avx512, &cpu_attention_avx512};
static const struct cpu_isa avx2 = {"avx2", &cpu_linear_avx2, &cpu_attention_avx2};
#endif

static const struct cpu_isa scalar = {"scalar", &cpu_linear_scalar, &cpu_attention_scalar};

static const struct {
	const struct cpu_isa *isa;
	bool (*here)(void);
} choices[] = {
// best first
#if defined(__x86_64__) || defined(QUIRE_SIMDE)
	{&avx512, has_avx512_vnni},
	{&avx2, has_avx2},
#endif
	{&scalar, always},
};

int cpu_isa_choose(const char *name, const struct cpu_isa **out, char *err, size_t len)
{
	for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
		bool wanted = !name || !strcmp(name, choices[i].isa->name);
		if (wanted && choices[i].here()) {
			*out = choices[i].isa;
			return 0;
		}
		if (wanted && name)
			return err_set(err, len, ERR_UNSUPPORTED, "this machine does not have %s; leave the choice to quire", name);
	}
	return err_set(err, len, ERR_UNSUPPORTED, "there is no instruction set '%s'; choose avx512-vnni, avx2 or scalar",
				   name);
}
