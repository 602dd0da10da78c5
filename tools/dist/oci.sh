#!/usr/bin/env bash
# oci.sh: the OCI image of the statically linked command, as an image layout in a tar file in target/dist: packaging/oci/Containerfile
# without an engine. Same input, same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/dist/common.sh

CONTEXT=target/dist/work/oci
STATIC=byway-$VERSION-x86_64-linux-static

# What the Containerfile copies from.
fill_context() {
    install -d "$CONTEXT/empty" "$CONTEXT/rootfs/usr/share" "$CONTEXT/rootfs/etc/byway"
    install -dm1777 "$CONTEXT/rootfs/tmp"
    cp -r packaging/oci/rootfs/. "$CONTEXT/rootfs/"
    cp -r "target/dist/work/static/$STATIC/bin" "$CONTEXT/rootfs/usr/"
    cp -r "target/dist/work/static/$STATIC/share/doc" "$CONTEXT/rootfs/usr/share/"
    chmod -R u=rwX,go=rX "$CONTEXT/empty" "$CONTEXT/rootfs/etc" "$CONTEXT/rootfs/usr"
}

tools/dist/static.sh
rm -rf "$CONTEXT"
fill_context
tools/dist/oci.py packaging/oci/Containerfile "$CONTEXT" "$VERSION" "target/dist/byway-$VERSION-x86_64-oci.tar"
