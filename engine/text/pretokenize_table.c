// SPDX-License-Identifier: Apache-2.0
//
// GGUF's names of pre-tokenizers and the patterns behind them, applied in turn: each cuts every piece that the one
// before left; matches and the gaps between them are both pieces.
#include "engine/text/pretokenize.h"

static const char *const p_llama3[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}{1,3}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_jais2[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}{1,3}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(\?!\\S)|\\s{256}(\?!\\S)|\\s{128}(\?!\\S)|\\s{64}(\?!\\S)|"
	"\\s{32}(\?!\\S)|\\s{16}(\?!\\S)|\\s{8}(\?!\\S)|\\s{4}(\?!\\S)|\\s{1,2}(\?!\\S)|\\s{1}",
	0};
static const char *const p_dbrx[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}{1,3}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_smaug[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}{1,3}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_falcon[] = {
	"[\\p{P}\\$\\+<=>\\^~\\|`]+", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)",
	"[0-9][0-9][0-9]", 0};
static const char *const p_starcoder[] = {
	"\\p{N}", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_refact[] = {
	"\\p{N}", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_command_r[] = {
	"\\p{N}", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_smollm[] = {
	"\\p{N}", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_codeshell[] = {
	"\\p{N}", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_exaone[] = {
	"\\p{N}", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_minerva[] = {
	"\\p{N}", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_mellum2[] = {
	"\\p{N}", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_gpt2[] = {
	"'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_mpt[] = {"'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)",
									0};
static const char *const p_olmo[] = {
	"'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_jais[] = {
	"'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_trillion[] = {
	"'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_granite_docling[] = {
	"'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)", 0};
static const char *const p_stablelm2[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_qwen2[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_hunyuan[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_solar_open[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_qwen35[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?[\\p{L}\\p{M}]+|\\p{N}| "
	"\?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_chatglm4[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}{1,3}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_tekken[] = {
	"[^\\r\\n\\p{L}\\p{N}]\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]"
	"\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_gpt4o[] = {
	"[^\\r\\n\\p{L}\\p{N}]\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(\?i:'s|'t|'re|'ve|'m|'"
	"ll|'d)\?|[^\\r\\n\\p{L}\\p{N}]\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(\?i:'s|'t|'re|"
	"'ve|'m|'ll|'d)\?|\\p{N}{1,3}| \?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_minimax_m2[] = {
	"[^\\r\\n\\p{L}\\p{N}]\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(\?i:'s|'t|'re|'ve|'m|'"
	"ll|'d)\?|[^\\r\\n\\p{L}\\p{N}]\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(\?i:'s|'t|'re|"
	"'ve|'m|'ll|'d)\?|\\p{N}{1,3}| \?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_granite_emb_multi[] = {
	"[^\\r\\n\\p{L}\\p{N}]\?((\?=[\\p{L}\\p{M}])([^a-z]))*((\?=[\\p{L}\\p{M}])([^A-Z]))+(\?:'[sS]|'[tT]|'[rR][eE]|'[vV]"
	"[eE]|'[mM]|'[lL][lL]|'[dD])\?|[^\\r\\n\\p{L}\\p{N}]\?((\?=[\\p{L}\\p{M}])([^a-z]))+((\?=[\\p{L}\\p{M}])([^A-Z]))*("
	"\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])\?|\\p{N}{1,3}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_tiny_aya[] = {
	"\\d{1,3}(\?=(\?:\\d{3})*\\b)",
	"[^\\r\\n\\p{L}\\p{N}]\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(\?:'[sS]|'[tT]|'[rR]["
	"eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])\?|[^\\r\\n\\p{L}\\p{N}]\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}"
	"\\p{Lo}\\p{M}]*(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])\?|\\p{N}{1,3}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_kimi_k2[] = {
	"[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&"
	"&[^\\p{Han}]]+(\?i:'s|'t|'re|'ve|'m|'ll|'d)\?|[^\\r\\n\\p{L}\\p{N}]\?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{"
	"Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(\?i:'s|'t|'re|'ve|'m|'ll|'d)\?|\\p{N}{1,3}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_superbpe[] = {"\\p{N}+", "(\?=(\\d{3})+(\?!\\d))", 0};
static const char *const p_bailingmoe[] = {"'(\?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]\?+\\p{L}+|\\p{N}| "
										   "\?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(\?!\\S)|\\s+",
										   0};
static const char *const p_seed_coder[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}{1}| "
	"\?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_ufakzeka[] = {
	"[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}| \?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+", 0};
static const char *const p_grok_2[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_laguna[] = {
	"[^\\n]+|[\\n]+",
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_exaone_moe[] = {
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?(\?:\\p{L}\\p{M}*(\?: "
	"\\p{L}\\p{M}*)*)+|\\p{N}| \?[^\\s\\p{L}\\p{N}]+[\\r\\n/]\?|\\s*[\\r\\n]|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_minicpm5[] = {
	"\\p{N}{1,3}",
	"(\?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]\?\\p{L}+|\\p{N}+| "
	"\?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(\?!\\S)|\\s+",
	0};
static const char *const p_default[] = {
	"[\\p{P}\\$\\+<=>\\^~\\|]+", "'s|'t|'re|'ve|'m|'ll|'d| \?\\p{L}+| \?\\p{N}+| \?[^\\s\\p{L}\\p{N}]+|\\s+(\?!\\S)",
	"\\p{N}+", "[0-9][0-9][0-9]", 0};

const struct pretokenizer_name pretokenizer_names[] = {
	{"", p_default, 0},
	{"a.x-4.0", p_gpt2, 0},
	{"bailingmoe", p_bailingmoe, 0},
	{"bailingmoe2", p_bailingmoe, 0},
	{"chatglm-bpe", p_chatglm4, 0},
	{"codeshell", p_codeshell, 0},
	{"cohere2moe", p_tiny_aya, 0},
	{"command-r", p_command_r, 0},
	{"dbrx", p_dbrx, 0},
	{"deepseek-r1-qwen", p_qwen2, 0},
	{"default", p_default, 0},
	{"exaone", p_exaone, 0},
	{"exaone-moe", p_exaone_moe, 0},
	{"exaone4", p_gpt2, 0},
	{"f2llmv2", p_qwen2, 0},
	{"falcon", p_falcon, 0},
	{"falcon-h1", p_llama3, 1},
	{"falcon3", p_llama3, 1},
	{"gigachat", p_gpt2, 0},
	{"glm4", p_chatglm4, 1},
	{"glm5", p_chatglm4, 1},
	{"gpt-2", p_gpt2, 0},
	{"gpt-4o", p_gpt4o, 0},
	{"granite-docling", p_granite_docling, 0},
	{"granite-embed-multi-97m", p_granite_emb_multi, 1},
	{"grok-2", p_grok_2, 0},
	{"hunyuan", p_hunyuan, 0},
	{"jais", p_jais, 0},
	{"jais-2", p_jais2, 0},
	{"jina-de", p_gpt2, 0},
	{"jina-es", p_gpt2, 0},
	{"jina-v1-en", p_gpt2, 0},
	{"jina-v2-code", p_gpt2, 0},
	{"jina-v2-de", p_gpt2, 0},
	{"jina-v2-es", p_gpt2, 0},
	{"jina-v5-nano", p_llama3, 1},
	{"kanana2", p_gpt4o, 0},
	{"kimi-k2", p_kimi_k2, 0},
	{"kormo", p_qwen2, 0},
	{"laguna", p_laguna, 0},
	{"lfm2", p_llama3, 1},
	{"llada-moe", p_bailingmoe, 0},
	{"llama-bpe", p_llama3, 1},
	{"llama-v3", p_llama3, 1},
	{"llama3", p_llama3, 1},
	{"llama4", p_gpt4o, 0},
	{"megrez", p_qwen2, 0},
	{"mellum", p_gpt2, 0},
	{"mellum2", p_mellum2, 0},
	{"midm-2.0", p_llama3, 1},
	{"minerva-7b", p_minerva, 0},
	{"minicpm5", p_minicpm5, 1},
	{"minimax-m2", p_minimax_m2, 0},
	{"modern-bert", p_gpt2, 0},
	{"mpt", p_mpt, 0},
	{"olmo", p_olmo, 0},
	{"phi-2", p_gpt2, 0},
	{"pixtral", p_llama3, 1},
	{"qwen2", p_qwen2, 0},
	{"qwen35", p_qwen35, 0},
	{"refact", p_refact, 0},
	{"roberta-bpe", p_gpt2, 0},
	{"seed-coder", p_seed_coder, 0},
	{"smaug-bpe", p_smaug, 0},
	{"smollm", p_smollm, 0},
	{"solar-open", p_solar_open, 0},
	{"stablelm2", p_stablelm2, 0},
	{"starcoder", p_starcoder, 0},
	{"superbpe", p_superbpe, 0},
	{"talkie", p_gpt4o, 0},
	{"tekken", p_tekken, 1},
	{"tiny_aya", p_tiny_aya, 0},
	{"trillion", p_trillion, 0},
	{"ufakzeka", p_ufakzeka, 0},
	{0, 0, 0},
};
