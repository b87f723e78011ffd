// SPDX-License-Identifier: Apache-2.0
//
// Formats of chat models whose file has no template, known by a token of their vocabulary.
#ifndef QUIRE_TEXT_CHAT_TEMPLATE_KNOWN_H
#define QUIRE_TEXT_CHAT_TEMPLATE_KNOWN_H

struct known_template {
	const char *marker; // a token that only models of this format have; NULL ends the table and fits every model
	const char *note;
	const char *source;
};
extern const struct known_template known_templates[];

#endif
