#!/bin/sh
# fetch.sh: the source of the fio that is installed, configured so that an engine can be built against it. Prints its folder.
#
# It is Debian's source package, fetched into BYWAY_CACHE (~/.cache/byway) by lists of its own: the machine's stay as they
# are, and no rights are needed.
set -eu
version=$(fio --version | sed 's/^fio-//')
cache=${BYWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/byway}
folder=$cache/fio-$version
if [ -e "$folder/config-host.h" ]; then
	echo "$folder"
	exit 0
fi

work=$folder.$$
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/source"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
cat > "$work/sources.list" <<END
deb-src http://deb.debian.org/debian $suite main
END
apt() {
	apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$work/lists" -o Dir::Cache::Archives="$work/archives" -o Dir::Cache::srcpkgcache= \
		-o Dir::Cache::pkgcache= -o APT::Sandbox::User= "$@" >&2
}
apt update
(cd "$work" && apt source --download-only fio)
tar -xf "$work/fio_$version.orig.tar.gz" -C "$work/source" --strip-components=1
(cd "$work/source" && ./configure --disable-native > configure.log && make -s FIO-VERSION-FILE >&2)
mv "$work/source" "$folder"
echo "$folder"
