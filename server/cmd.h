// SPDX-License-Identifier: Apache-2.0
//
// The commands of the program. Each takes the words after its name and returns the exit status: 0, 1 for a failure that it
// has explained on standard error, 2 for a wrong call.
#ifndef QUIRE_SERVER_CMD_H
#define QUIRE_SERVER_CMD_H

int cmd_serve(int argc, char *const *argv);
int cmd_version(void);

#endif
