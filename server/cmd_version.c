// SPDX-License-Identifier: Apache-2.0
#include "server/cmd.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <uv.h>

int cmd_version(void)
{
	printf("quire " QUIRE_VERSION "\nback ends: cpu, ref\nlibmicrohttpd %s, libuv %s, jansson %s\n",
	       MHD_get_version(), uv_version_string(), jansson_version_str());
	return 0;
}
