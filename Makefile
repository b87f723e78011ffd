# SPDX-License-Identifier: Apache-2.0
# `make help` lists what there is. Everything built lands under build/.

BUILD ?= build
CC ?= gcc
SAN ?=
OPT ?= -O2
PKGS := libmicrohttpd libuv jansson libpcre2-8 libutf8proc
VERSION := 0.1.0

# Contraction would let the compiler turn a*b+c into one rounding in one kernel and two in another: promise 2 forbids it.
CFLAGS ?= $(OPT) -g
override CFLAGS += -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wvla -Wno-unused-parameter -ffp-contract=off -fno-omit-frame-pointer -pthread \
	-D_GNU_SOURCE -DQUIRE_VERSION='"$(VERSION)"' -I. $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
override LDLIBS += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -ldl -pthread
ifneq ($(SAN),)
override CFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=all
override LDFLAGS += -fsanitize=$(SAN)
endif

SCALAR_FLAGS := -O3
# A sanitizer inside unrolled vector code costs minutes to compile at -O3 and shows nothing more.
KERNEL_OPT := $(if $(SAN),-O1,-O3)
AVX2_FLAGS := -mavx2 -mfma -mf16c $(KERNEL_OPT)
AVX512_FLAGS := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -mprefer-vector-width=512 $(KERNEL_OPT)

SRC := $(sort $(shell find engine kernels server config -name '*.c'))
MAIN := server/main.c
LIB_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(MAIN),$(SRC)))
TEST_SRC := $(sort $(shell find tests/unit -name 'test_*.c'))
TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(TEST_SRC))

.DELETE_ON_ERROR:
.PHONY: all help clean
.SECONDARY:

all: $(BUILD)/quire  ## build the server: build/quire

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

$(BUILD)/quire: $(BUILD)/obj/server/main.o $(BUILD)/libquire.a
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/libquire.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/obj/%_scalar.o: %_scalar.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SCALAR_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%_avx2.o: %_avx2.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(AVX2_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%_avx512.o: %_avx512.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(AVX512_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

# --- tests: one program a file, so that a crash takes down nothing but its own suite

$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/obj/tests/unit/main.o $(BUILD)/libquire.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $(filter-out %.a,$^) $(filter %.a,$^) $(LDLIBS) $(shell pkg-config --libs check 2>/dev/null) -o $@

tests: $(TESTS)  ## build the unit tests

# --- golden: models against what a reference implementation computed for them

GOLDEN_OBJ := $(BUILD)/obj/tests/unit/model/golden.o $(BUILD)/obj/tests/unit/model/runner.o
GOLDEN_REAL := $(BUILD)/tests/golden_real
SMOLLM2 := models/SmolLM2-135M-Instruct-Q4_1.gguf tests/golden/real/smollm2-135m-q4_1
GEMMA3 := models/gemma3-270m-q4_k_m.gguf tests/golden/real/gemma3-270m-q4_k_m

$(BUILD)/tests/model/test_golden_ref $(BUILD)/tests/model/test_forward: $(GOLDEN_OBJ)
$(BUILD)/tests/model/test_spec: $(BUILD)/obj/tests/unit/model/gguf_write.o
$(BUILD)/tests/kernels/test_attention $(BUILD)/tests/kernels/test_rope $(BUILD)/tests/kernels/test_kv: \
	$(BUILD)/obj/tests/unit/kernels/attention_rig.o $(BUILD)/obj/tests/unit/kernels/attention_rig_ref.o

$(BUILD)/tests/kernels/test_linear $(BUILD)/tests/kernels/test_backend_ops: $(BUILD)/obj/tests/unit/kernels/weights_rig.o \
	$(BUILD)/obj/tests/unit/kernels/ops_rig.o $(BUILD)/obj/tests/unit/kernels/ops_rig_ref.o

TEXT_TESTS := pretokenize tokenizer tokenizer_build tokenizer_hostile detokenizer
$(TEXT_TESTS:%=$(BUILD)/tests/text/test_%): $(BUILD)/obj/tests/unit/text/text_golden.o

$(GOLDEN_REAL): $(BUILD)/obj/tests/golden/test_golden_real.o $(GOLDEN_OBJ) $(BUILD)/libquire.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

models/SmolLM2-135M-Instruct-Q4_1.gguf:
	scripts/get-model smollm2

models/gemma3-270m-q4_k_m.gguf:
	scripts/get-model gemma3-270m

.PHONY: golden golden-full
golden: $(BUILD)/tests/model/test_golden_ref $(GOLDEN_REAL) $(firstword $(SMOLLM2)) $(firstword $(GEMMA3))  ## models against reference numbers (minutes)
	$(BUILD)/tests/model/test_golden_ref
	$(GOLDEN_REAL) ref $(SMOLLM2) 100
	$(GOLDEN_REAL) ref $(GEMMA3) 100
	$(GOLDEN_REAL) cpu $(SMOLLM2) 2000 -1
	$(GOLDEN_REAL) cpu $(GEMMA3) 2000 -1

golden-full: golden  ## the same with the long prompts and texts on the reference back end (half an hour)
	$(GOLDEN_REAL) ref $(SMOLLM2) 2000 -1
	$(GOLDEN_REAL) ref $(GEMMA3) 2000 -1

clean:  ## remove build/
	rm -rf build

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# --- running and checking

.PHONY: tests run test check venv style e2e

run:  ## fetch the default model and serve it on port 8000
	sh scripts/run

test:  ## all quick tests, as `sh scripts/test`
	sh scripts/test

venv: build/venv/.stamp  ## the Python environment of the end-to-end tests

build/venv/.stamp: tests/e2e/requirements.txt
	python3 -m venv build/venv
	build/venv/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

style:  ## includes run one way, files and functions keep their length
	sh scripts/style

# --- fuzzing: a target is tests/fuzz/fuzz_NAME.c with seeds in tests/fuzz/seeds/NAME/

.PHONY: fuzz fuzz-replay fuzzers
FUZZ_SECONDS ?= 20
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_MAIN := $(BUILD)/obj/tests/fuzz/replay.o

# What targets need beside the library; tests that use the same helpers.
$(BUILD)/fuzzers/fuzz_gguf: $(BUILD)/obj/tests/unit/model/gguf_walk.o
$(BUILD)/tests/model/test_gguf $(BUILD)/tests/model/test_gguf_malformed: \
	$(BUILD)/obj/tests/unit/model/gguf_write.o $(BUILD)/obj/tests/unit/model/gguf_walk.o

$(BUILD)/fuzzers/%: $(BUILD)/obj/tests/fuzz/%.o $(FUZZ_MAIN) $(BUILD)/libquire.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

fuzzers: $(FUZZ_NAMES:%=$(BUILD)/fuzzers/fuzz_%)

fuzz-replay: fuzzers  ## run every fuzz target over its seeds, without libFuzzer
	@set -e; for name in $(FUZZ_NAMES); do $(BUILD)/fuzzers/fuzz_$$name tests/fuzz/seeds/$$name; done

# All targets run even if one fails; findings stay in build/fuzz/corpus, inputs that broke something in build/fuzz/crashes.
fuzz:  ## run every fuzz target for FUZZ_SECONDS each (needs clang)
	@command -v clang >/dev/null || { echo "make fuzz needs clang: apt-get install clang" >&2; exit 1; }
	$(MAKE) BUILD=build/fuzz CC=clang SAN=fuzzer,address,undefined FUZZ_MAIN= fuzzers
	@mkdir -p build/fuzz/crashes; failed=; for name in $(FUZZ_NAMES); do \
		echo "fuzz_$$name: $(FUZZ_SECONDS) s"; \
		mkdir -p build/fuzz/corpus/$$name; \
		build/fuzz/fuzzers/fuzz_$$name -verbosity=0 -print_final_stats=1 -max_total_time=$(FUZZ_SECONDS) -timeout=5 \
			-rss_limit_mb=1024 -max_len=65536 -artifact_prefix=build/fuzz/crashes/$$name- \
			build/fuzz/corpus/$$name tests/fuzz/seeds/$$name || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "fuzz: failed:$$failed" >&2; exit 1; }

# --- kernels: how fast they are, as a share of what the machine can do

.PHONY: bench-kernels
BENCHES := $(BUILD)/bench_kernels $(BUILD)/bench_attention
$(BENCHES): $(BUILD)/bench_%: $(patsubst %,$(BUILD)/obj/tests/bench/%.o,bench_% peak peak_avx2 peak_avx512) $(BUILD)/libquire.a
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

bench-kernels: $(BENCHES)  ## GOP/s of products with weights and of attention, as a share of the machine's
	$(BUILD)/bench_kernels
	$(BUILD)/bench_attention

# --- simde: the kernels of every instruction set on a machine that has none of them. SIMDE is a folder that holds simde/.

SIMDE ?= build/simde
SIMDE_KERNELS := linear_avx2 linear_avx512 attention_avx2 attention_avx512 isa
SIMDE_OBJ := $(SIMDE_KERNELS:%=$(BUILD)/simde-obj/kernels/cpu/%.o)

$(BUILD)/simde-obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -O1 -msse2 -DQUIRE_SIMDE -isystem $(SIMDE) -Wno-psabi -MMD -MP -c $< -o $@

define simde_test
$(BUILD)/tests/kernels/$(1)_simde: $(BUILD)/simde-obj/tests/unit/kernels/$(1).o $(BUILD)/obj/tests/unit/main.o $(2) $(SIMDE_OBJ) \
		$(BUILD)/libquire.a
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS) $$(LDFLAGS) $$^ $$(LDLIBS) $$(shell pkg-config --libs check 2>/dev/null) -o $$@
endef
OPS_RIG := $(patsubst %,$(BUILD)/obj/tests/unit/kernels/%.o,weights_rig ops_rig ops_rig_ref)
ATTENTION_RIG := $(patsubst %,$(BUILD)/obj/tests/unit/kernels/%.o,attention_rig attention_rig_ref)
$(eval $(call simde_test,test_backend_ops,$(OPS_RIG)))
$(eval $(call simde_test,test_linear,$(OPS_RIG)))
$(eval $(call simde_test,test_attention,$(ATTENTION_RIG)))

.PHONY: simde
simde: $(patsubst %,$(BUILD)/tests/kernels/%_simde,test_backend_ops test_linear test_attention)  ## kernel tests under SIMDe
	set -e; for t in $^; do $$t; done

-include $(shell find $(BUILD)/simde-obj -name '*.d' 2>/dev/null)

# --- sim: the scheduler under a virtual clock. SIM_ARGS="--requests 1000000 --workload chat" for a long run.

SIM_ARGS ?=
$(BUILD)/sim: $(patsubst %,$(BUILD)/obj/tests/sim/%.o,sim workload) $(BUILD)/libquire.a
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

.PHONY: sim
sim: $(BUILD)/sim  ## simulate 20,000 requests of each workload; SIM_ARGS for more
	$(BUILD)/sim $(SIM_ARGS)

# --- server: its tests run against a made-up engine, tokenizer and template instead of the library's

FAKE_OBJ := $(BUILD)/obj/tests/unit/server/fake_engine.o $(BUILD)/obj/tests/unit/server/fake_text.o
$(BUILD)/tests/server/test_reply $(BUILD)/tests/server/test_server $(BUILD)/tests/server/test_chat_messages: $(FAKE_OBJ)
$(BUILD)/fuzzers/fuzz_request: $(BUILD)/obj/tests/unit/server/fake_text.o
