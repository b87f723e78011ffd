// SPDX-License-Identifier: Apache-2.0
//
// GGUF's names of pre-tokenizers (tokenizer.ggml.pre) and the patterns behind them. Where the models' own
// tokenizer.json says more than other engines can match, its form is taken.
//
// The patterns match what the published ones match, but are written for PCRE2 and for linear time:
// - \s is spelled out (SPACE), since PCRE2's takes U+180E for a space, which the reference does not;
// - \p{Han} is \p{sc:Han}, since PCRE2 means the script extensions by it;
// - an intersection or difference of classes is written as the complement of a union of general categories;
// - what is scanned again from every position of a long run (digits to be grouped from the right, spaces up to the end)
//   may begin only where the run begins.
#include "engine/text/pretokenize.h"

// White_Space of Unicode, for use inside a class; then one such character, and "not before anything else".
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
#define S "[" SPACE "]"
#define NO_TEXT_AHEAD "(?![^" SPACE "])"

// Spaces but for the last before a word; newlines end a run of spaces.
#define SPACES S "+" NO_TEXT_AHEAD
#define LINES_AND_SPACES S "*[\\r\\n]+|" SPACES "|" S "+"

#define ENDING "'(?:[sdmt]|ll|ve|re)"
#define ENDING_ANY_CASE "'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])"
#define ENDING_FOLDED "(?i:" ENDING ")" // in Unicode's sense: "'ſ" is one

// GPT-2: an optional space joins a run of letters, of digits, or of anything else.
#define GPT2_WORDS ENDING "| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" SPACES

// cl100k: one character that is no letter, digit or newline joins the letters after it; newlines join punctuation.
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define LETTERS LEAD "\\p{L}+"
#define OTHERS " ?[^" SPACE "\\p{L}\\p{N}]+"
#define CL100K(digits) ENDING_ANY_CASE "|" LETTERS "|" digits "|" OTHERS "[\\r\\n]*|" LINES_AND_SPACES

// o200k: a word is upper case, then lower case; marks and caseless letters are both.
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, ending) LEAD upper "*" lower "+" ending "|" LEAD upper "+" lower "*" ending
#define O200K(words, digits, tail) words "|" digits "|" OTHERS tail "*|" LINES_AND_SPACES
#define UPPER_NO_HAN "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"
#define LOWER_NO_HAN "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"
#define NOT_LOWER_ASCII "[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}a-z]"
#define NOT_UPPER_ASCII "[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}A-Z]"

// DeepSeek 3: letters take one character before them that is no newline, letter, punctuation or symbol.
#define ASCII_PUNCTUATION "[!-/:-@\\[-`{-~]"
#define DEEPSEEK3_CJK "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+"
#define DEEPSEEK3_WORDS ASCII_PUNCTUATION "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"

// The cased letters of some version of Unicode, as the older DeepSeek models list them.
#define DEEPSEEK_LETTERS                                                                                               \
	"A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}"   \
	"\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}"     \
	"\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}"       \
	"\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}"                  \
	"\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"                  \
	"\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}"          \
	"\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}"         \
	"\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}"          \
	"\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                    \
	"\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"          \
	"\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}"                   \
	"\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}"                  \
	"\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}"          \
	"\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
#define DEEPSEEK_CJK "[\\x{800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"

#define BLOOM_WORDS " ?[^(" SPACE "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"

#define STEPS(name, ...) static const struct pretokenizer_step name[] = {__VA_ARGS__, {CUT_AROUND, 0}}

STEPS(gpt2, {CUT_AROUND, GPT2_WORDS});
STEPS(starcoder, {CUT_AROUND, "\\p{N}"}, {CUT_AROUND, GPT2_WORDS});
STEPS(llama3, {CUT_AROUND, CL100K("\\p{N}{1,3}")});
STEPS(qwen2, {CUT_AROUND, CL100K("\\p{N}")});
STEPS(minicpm5, {CUT_AROUND, "\\p{N}{1,3}"}, {CUT_AROUND, CL100K("\\p{N}+")});
STEPS(laguna, {CUT_AROUND, "[^\\n]+|[\\n]+"}, {CUT_AROUND, CL100K("\\p{N}")});
STEPS(ufakzeka, {CUT_AROUND, LETTERS "|\\p{N}|" OTHERS "[\\r\\n]*|" LINES_AND_SPACES});
STEPS(qwen35, {CUT_AROUND, ENDING_ANY_CASE "|" LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE
										   "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES_AND_SPACES});
STEPS(seed_coder,
	  {CUT_AROUND, ENDING_ANY_CASE "|" LETTERS "|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}\\r\\n]+|" LINES_AND_SPACES});
STEPS(bailingmoe, {CUT_AROUND, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}|" OTHERS "[\\r\\n]*|" S
							   "*[\\r\\n]|" SPACES "|" S "+"});
STEPS(exaone_moe, {CUT_AROUND, ENDING_ANY_CASE "|" LEAD "\\p{L}\\p{M}*+(?: ?\\p{L}\\p{M}*+)*+|\\p{N}|" OTHERS
											   "[\\r\\n/]?|" S "*[\\r\\n]|" SPACES "|" S "+"});

// Once the ladder has taken a rung, the run of spaces is known to hold no newline: looking again at each rung would be
// quadratic.
STEPS(jais2, {CUT_AROUND, ENDING_ANY_CASE "|" LETTERS "|\\p{N}{1,3}|" OTHERS "[\\r\\n]*|(?<![\\t\\v\\f\\x{85}\\p{Z}])" S
										  "*[\\r\\n]+|" S "{512}" NO_TEXT_AHEAD "|" S "{256}" NO_TEXT_AHEAD "|" S
										  "{128}" NO_TEXT_AHEAD "|" S "{64}" NO_TEXT_AHEAD "|" S "{32}" NO_TEXT_AHEAD
										  "|" S "{16}" NO_TEXT_AHEAD "|" S "{8}" NO_TEXT_AHEAD "|" S "{4}" NO_TEXT_AHEAD
										  "|" S "{1,2}" NO_TEXT_AHEAD "|" S});

STEPS(gpt4o, {CUT_AROUND, O200K(CASED(UPPER, LOWER, ENDING_FOLDED "?"), "\\p{N}{1,3}", "[\\r\\n/]")});
STEPS(tekken, {CUT_AROUND, O200K(CASED(UPPER, LOWER, ""), "\\p{N}", "[\\r\\n/]")});
STEPS(kimi_k2, {CUT_AROUND, O200K("\\p{sc:Han}+|" CASED(UPPER_NO_HAN, LOWER_NO_HAN, ENDING_FOLDED "?"), "\\p{N}{1,3}",
								  "[\\r\\n]")});
STEPS(granite_multi, {CUT_AROUND, O200K(CASED(NOT_LOWER_ASCII, NOT_UPPER_ASCII, "(?:" ENDING_ANY_CASE ")?"),
										"\\p{N}{1,3}", "[\\r\\n/]")});
// Digits that end a word. The reference's words hold these six of the other numbers: ² ³ ¹ ¼ ½ ¾.
STEPS(tiny_aya,
	  {CUT_THREES, "(?<!\\p{Nd})\\p{Nd}++(?![\\p{Alphabetic}\\p{M}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}])"},
	  {CUT_AROUND, O200K(CASED(UPPER, LOWER, "(?:" ENDING_ANY_CASE ")?"), "\\p{N}{1,3}", "[\\r\\n/]")});
STEPS(youtu,
	  {CUT_AROUND, "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|"
				   "[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{"
				   "3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|"
				   "[\\x{3105}-\\x{312F}]+|" DEEPSEEK3_CJK},
	  {CUT_AROUND, O200K(CASED(UPPER, LOWER, "(?:" ENDING_ANY_CASE ")?"), "\\p{N}", "[\\r\\n/]")});

STEPS(deepseek_llm, {CUT_AROUND, "[\\r\\n]"}, {CUT_AROUND, S "?[" DEEPSEEK_LETTERS "]+"},
	  {CUT_AROUND, S "?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"},
	  {CUT_AROUND, "(?<!" S ")" S "++$"}, {CUT_AROUND, DEEPSEEK_CJK}, {CUT_AROUND, "\\p{N}+"});
STEPS(deepseek_coder, {CUT_AROUND, "[\\r\\n]"}, {CUT_AROUND, S "?\\p{L}+"}, {CUT_AROUND, S "?\\p{P}+"},
	  {CUT_AROUND, DEEPSEEK_CJK}, {CUT_AROUND, "\\p{N}"});
STEPS(deepseek3, {CUT_AROUND, "\\p{N}{1,3}"}, {CUT_AROUND, DEEPSEEK3_CJK},
	  {CUT_AROUND, DEEPSEEK3_WORDS "[\\r\\n]*|" LINES_AND_SPACES});
STEPS(spark, {CUT_AROUND, "\\p{N}{1,3}"}, {CUT_AROUND, DEEPSEEK3_CJK},
	  {CUT_AROUND, DEEPSEEK3_WORDS "|[\\r\\n]|" SPACES "|" S "+"}, {CUT_AROUND, "\\p{N}"});
STEPS(
	afmoe, {CUT_THREES, "\\p{N}+"},
	{CUT_AROUND,
	 "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{8C48}-\\x{FAFF}\\x{3040}-\\x{30FF}\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{"
	 "2FDF}"
	 "\\x{E40}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}"
	 "\\x{1100}-\\x{11FF}]+"},
	{CUT_AROUND, DEEPSEEK3_WORDS "[\\r\\n]*|" LINES_AND_SPACES});

STEPS(falcon, {CUT_AROUND, "[\\p{P}$+<=>^~|`]+"}, {CUT_AROUND, GPT2_WORDS}, {CUT_AROUND, "[0-9]{3}"});
STEPS(nameless, {CUT_AROUND, "[\\p{P}$+<=>^~|]+"}, {CUT_AROUND, GPT2_WORDS}, {CUT_AROUND, "\\p{N}+"},
	  {CUT_AROUND, "[0-9]{3}"});
STEPS(chameleon, {CUT_AROUND, "<sentinel:[0-9]+>"}, {CUT_AROUND, "IMGIMG[A-I]{1,4}Z"}, {CUT_AROUND, "[\\t\\n]|    |  "},
	  {CUT_AROUND, "\\p{N}"}, {CUT_AROUND, "[\\p{P}!-/:-@\\[-`{-~]"}, {CUT_AROUND, GPT2_WORDS});
STEPS(bloom, {CUT_AROUND, BLOOM_WORDS});
STEPS(viking, {CUT_AROUND, BLOOM_WORDS}, {CUT_AROUND, "\\p{N}"});
STEPS(superbpe, {CUT_AROUND, "\\p{N}+"}, {CUT_BEFORE_THREES, "\\p{Nd}+"});
STEPS(lines, {CUT_AROUND, "[^\\n]+|[\\n]+"});
STEPS(whitespace, {CUT_AROUND, "[^" SPACE "]+"});

enum { LLAMA3 = PRE_IGNORE_MERGES | PRE_ADD_BOS, ESCAPED = PRE_CHARACTERS | PRE_ESCAPE_SPACES };

const struct pretokenizer_name pretokenizer_names[] = {
	{"default", nameless, 0},
	{"", nameless, 0},
	{"gpt-2", gpt2, 0},
	{"a.x-4.0", gpt2, 0},
	{"exaone4", gpt2, 0},
	{"gigachat", gpt2, 0},
	{"granite-docling", gpt2, 0},
	{"jais", gpt2, 0},
	{"jina-de", gpt2, 0},
	{"jina-es", gpt2, 0},
	{"jina-v1-en", gpt2, 0},
	{"jina-v2-code", gpt2, 0},
	{"jina-v2-de", gpt2, 0},
	{"jina-v2-es", gpt2, 0},
	{"mellum", gpt2, 0},
	{"modern-bert", gpt2, 0},
	{"mpt", gpt2, 0},
	{"olmo", gpt2, 0},
	{"phi-2", gpt2, 0},
	{"roberta-bpe", gpt2, 0},
	{"trillion", gpt2, 0},
	{"codeshell", starcoder, 0},
	{"command-r", starcoder, 0},
	{"exaone", starcoder, 0},
	{"mellum2", starcoder, 0},
	{"minerva-7b", starcoder, 0},
	{"refact", starcoder, 0},
	{"smollm", starcoder, 0},
	{"starcoder", starcoder, 0},
	{"falcon-h1", llama3, LLAMA3},
	{"falcon3", llama3, LLAMA3},
	{"jina-v5-nano", llama3, LLAMA3},
	{"lfm2", llama3, LLAMA3},
	{"llama-bpe", llama3, LLAMA3},
	{"llama-v3", llama3, LLAMA3},
	{"llama3", llama3, LLAMA3},
	{"midm-2.0", llama3, LLAMA3},
	{"pixtral", llama3, LLAMA3},
	{"chatglm-bpe", llama3, 0},
	{"dbrx", llama3, 0},
	{"glm4", llama3, PRE_IGNORE_MERGES},
	{"glm5", llama3, PRE_IGNORE_MERGES},
	{"smaug-bpe", llama3, 0},
	{"jais-2", jais2, 0},
	{"minicpm5", minicpm5, PRE_IGNORE_MERGES},
	{"deepseek-r1-qwen", qwen2, 0},
	{"f2llmv2", qwen2, 0},
	{"grok-2", qwen2, 0},
	{"hunyuan", qwen2, 0},
	{"kormo", qwen2, 0},
	{"megrez", qwen2, 0},
	{"qwen2", qwen2, PRE_NFC},
	{"solar-open", qwen2, 0},
	{"stablelm2", qwen2, 0},
	{"qwen35", qwen35, PRE_NFC},
	{"laguna", laguna, 0},
	{"ufakzeka", ufakzeka, 0},
	{"seed-coder", seed_coder, 0},
	{"bailingmoe", bailingmoe, 0},
	{"bailingmoe2", bailingmoe, 0},
	{"llada-moe", bailingmoe, 0},
	{"exaone-moe", exaone_moe, 0},
	{"gpt-4o", gpt4o, 0},
	{"kanana2", gpt4o, 0},
	{"llama4", gpt4o, 0},
	{"minimax-m2", gpt4o, 0},
	{"talkie", gpt4o, 0},
	{"tekken", tekken, PRE_IGNORE_MERGES | PRE_ADD_BOS},
	{"kimi-k2", kimi_k2, 0},
	{"granite-embed-multi-97m", granite_multi, PRE_IGNORE_MERGES},
	{"cohere2moe", tiny_aya, 0},
	{"tiny_aya", tiny_aya, 0},
	{"youtu", youtu, PRE_IGNORE_MERGES},
	{"deepseek-llm", deepseek_llm, 0},
	{"deepseek-coder", deepseek_coder, 0},
	{"deepseek-v3", deepseek3, 0},
	{"hunyuan-dense", deepseek3, 0},
	{"hy_v4", deepseek3, 0},
	{"joyai-llm", deepseek3, 0},
	{"spark2_5", spark, 0},
	{"afmoe", afmoe, 0},
	{"falcon", falcon, 0},
	{"chameleon", chameleon, PRE_ADD_BOS},
	{"bloom", bloom, 0},
	{"gpt3-finnish", bloom, 0},
	{"poro-chat", bloom, 0},
	{"viking", viking, 0},
	{"superbpe", superbpe, 0},
	{"gemma4", lines, ESCAPED | PRE_WHOLE_NEWLINES},
	{"granite-embed-multi-311m", lines, ESCAPED | PRE_WHOLE_NEWLINES},
	{"sarvam-moe", lines, ESCAPED},
	{"whitespace", whitespace, PRE_CHARACTERS},
	{0, 0, 0},
};
