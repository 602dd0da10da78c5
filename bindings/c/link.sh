#!/bin/sh
# link.sh ARCHIVE FOLDER [PREFIX]: makes libbyway.so.0, libbyway.a and byway.pc in FOLDER of the archive that cargo built.
#
# The shared library is linked of the archive, because rustc gives a cdylib a version script of its own, beside which
# symbols cannot have versions.
set -eu
archive=$1
folder=$2
prefix=${3:-/usr/local}
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
major=${version%%.*}

mkdir -p "$folder"
${CC:-cc} -shared -o "$folder/libbyway.so.$version" \
	-Wl,-soname,"libbyway.so.$major" -Wl,--version-script="$here/byway.map" -Wl,-z,defs -Wl,-z,now -Wl,--gc-sections \
	-Wl,--whole-archive "$archive" -Wl,--no-whole-archive -lgcc_s -lutil -lrt -lpthread -lm -ldl ${LDFLAGS:-}
ln -sf "libbyway.so.$version" "$folder/libbyway.so.$major"
ln -sf "libbyway.so.$major" "$folder/libbyway.so"
cp "$archive" "$folder/libbyway.a"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/byway.pc.in" > "$folder/byway.pc"
