// SPDX-License-Identifier: Apache-2.0
#include "engine/text/chat_template_known.h"

#define CHATML                                                                                                         \
	"{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}{% endfor %}"   \
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

const struct known_template known_templates[] = {
	{"<|im_start|>", "ChatML (by its <|im_start|> token)", CHATML},
	{"<start_of_turn>", "Gemma's format (by its <start_of_turn> token)",
	 "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
	 "{% set ns.system = ns.system + (m.content or '') + '\\n\\n' %}{% else %}"
	 "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\\n' + ns.system + (m.content or '') | "
	 "trim + '<end_of_turn>\\n' }}"
	 "{% set ns.system = '' %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% "
	 "endif %}"},
	{"<|start_header_id|>", "Llama 3's format (by its <|start_header_id|> token)",
	 "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + (m.content "
	 "or '') | trim + '<|eot_id|>' }}"
	 "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif "
	 "%}"},
	{"[INST]", "Mistral's format (by its [INST] token)",
	 "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
	 "{% set ns.system = ns.system + (m.content or '') + '\\n\\n' %}{% elif m.role == 'assistant' %}{{ (m.content or "
	 "'') + (eos_token or '') }}{% else %}"
	 "{{ '[INST]' + ns.system + (m.content or '') + '[/INST]' }}{% set ns.system = '' %}{% endif %}{% endfor %}"},
	{0, "ChatML as text (the model names no format of its own)", CHATML},
};
