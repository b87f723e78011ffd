// SPDX-License-Identifier: Apache-2.0
//
// The program: picks the command. Each command lives in a cmd_*.c of its own.
#include "server/cmd.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(int argc, char *const *argv);
	const char *help;
} commands[] = {
    {"serve", cmd_serve, "load a model and answer the OpenAI API"},
};

static void usage(FILE *f)
{
	fputs("quire " QUIRE_VERSION ": an LLM inference server\n\nusage: quire COMMAND MODEL [options]\n\n", f);
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
	fputs("\nquire serve --help lists its options; quire --version says what is built in.\n", f);
}

int main(int argc, char **argv)
{
	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))) {
		usage(stdout);
		return 0;
	}
	if (argc >= 2 && !strcmp(argv[1], "--version"))
		return cmd_version();
	for (size_t i = 0; argc >= 2 && i < sizeof commands / sizeof commands[0]; i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 2, argv + 2);
	if (argc >= 2)
		fprintf(stderr, "quire: no command is called %s\n\n", argv[1]);
	usage(stderr);
	return 2;
}
