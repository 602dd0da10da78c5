#!/bin/sh
# build.sh ARCHIVE ENGINE: builds the engine of byway.c with libbyway.a in it, against the source of the installed fio.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
fio=$("$here/fetch.sh")
${CC:-cc} -O2 -g -Wall -Werror -std=gnu99 -D_GNU_SOURCE -include "$fio/config-host.h" -I "$fio" -I "$here/../../bindings/c/include" \
	-shared -fPIC "$here/byway.c" "$1" -o "$2" \
	-Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,now -lgcc_s -lutil -lrt -lpthread -lm -ldl ${LDFLAGS:-}
