#!/usr/bin/env bash
# debs.sh: Debian packages in target/dist of what `make install` puts into a tree, by dpkg's own tools. Same input, same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/dist/common.sh

need dpkg-dev dpkg-shlibdeps

WORK=target/dist/work/debs
TREE=$PWD/$WORK/tree
MULTIARCH=$(dpkg-architecture -qDEB_HOST_MULTIARCH)

# The whole tree, where Debian wants it.
fill_tree() {
    make --no-print-directory install DESTDIR="$TREE" PREFIX=/usr RELEASE="$(release_folder "$HOST")" CARGOFLAGS="--locked --target $HOST -p byway-python" >&2
    install -d "$TREE/usr/lib/$MULTIARCH" "$TREE/usr/share/zsh/vendor-completions"
    mv "$TREE"/usr/lib/libbyway.* "$TREE/usr/lib/pkgconfig" "$TREE/usr/lib/$MULTIARCH/"
    sed -i "s,^libdir=.*,libdir=\${prefix}/lib/$MULTIARCH," "$TREE/usr/lib/$MULTIARCH/pkgconfig/byway.pc"
    mv "$TREE"/usr/share/zsh/site-functions/* "$TREE/usr/share/zsh/vendor-completions/"
    strip --strip-unneeded "$TREE"/usr/bin/* "$TREE"/usr/lib/byway/*.so "$TREE/usr/lib/$MULTIARCH"/libbyway.so.*.*
    chmod -x "$TREE"/usr/lib/byway/*.so "$TREE/usr/lib/$MULTIARCH"/libbyway.so.*.*
    install -Dm644 -t "$TREE/usr/lib/systemd/system" packaging/systemd/*.service
    install -Dm644 packaging/sysusers.d/byway.conf "$TREE/usr/lib/sysusers.d/byway.conf"
    install -Dm644 packaging/tmpfiles.d/byway.conf "$TREE/usr/lib/tmpfiles.d/byway.conf"
    install -Dm644 packaging/debian/tdm.env "$TREE/etc/byway/tdm.env"
    find "$TREE/usr/share/man" -type f -exec gzip -9n {} +
}

# documents NAME: what every package has in /usr/share/doc. A -dev package has its library's by a link.
documents() {
    local folder=$WORK/$1/usr/share/doc/$1
    install -Dm644 packaging/debian/copyright "$folder/copyright"
    install -m644 "$WORK/crates.txt" "$folder/crates.txt"
    gzip -9nc packaging/debian/changelog > "$folder/changelog.gz"
    chmod 644 "$folder/changelog.gz"
}

# fill NAME: the package's files, out of the tree.
fill() {
    local pattern file
    while read -r pattern; do
        for file in $(cd "$TREE" && compgen -G "$pattern"); do
            mkdir -p "$WORK/$1/$(dirname "$file")"
            cp -a "$TREE/$file" "$WORK/$1/$file"
        done
    done < "packaging/debian/$1.install"
    documents "$1"
    if [ -f "packaging/debian/$1.overrides" ]; then
        install -Dm644 "packaging/debian/$1.overrides" "$WORK/$1/usr/share/lintian/overrides/$1"
    fi
}

# control NAME: DEBIAN/*.
control() {
    local name=$1 script libraries
    mkdir -p "$WORK/$name/DEBIAN"
    for script in postinst prerm postrm; do
        [ ! -f "packaging/debian/$name.$script" ] || install -m755 "packaging/debian/$name.$script" "$WORK/$name/DEBIAN/$script"
    done
    for script in shlibs triggers; do
        [ ! -f "packaging/debian/$name.$script" ] || install -m644 "packaging/debian/$name.$script" "$WORK/$name/DEBIAN/$script"
    done
    [ ! -d "$WORK/$name/etc" ] || (cd "$WORK/$name" && find etc -type f | sed 's,^,/,' > DEBIAN/conffiles)
    (cd "$WORK/$name" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
    : > "$WORK/debian/$name.substvars"
    libraries=$(find "$WORK/$name/usr" -type f \( -path '*/bin/*' -o -name '*.so*' \) ! -name '*.gz' | sed "s,^$WORK/,,")
    [ -z "$libraries" ] || (cd "$WORK" && xargs dpkg-shlibdeps -T"debian/$name.substvars" <<< "$libraries")
    (cd "$WORK" && dpkg-gencontrol -p"$name" -P"$name" -T"debian/$name.substvars" -fdebian/files)
}

rm -rf "$WORK"
mkdir -p "$WORK/debian"
cp packaging/debian/control packaging/debian/changelog "$WORK/debian/"
head -n 1 packaging/debian/changelog | grep -qF "($VERSION)" || { echo "packaging/debian/changelog is not of $VERSION" >&2; exit 1; }
crates_of "$HOST" byway-cli byway-c byway-lab byway-tdm-interpose > "$WORK/crates.txt"
fill_tree
rm -f target/dist/*.deb
for install in packaging/debian/*.install; do
    name=$(basename "$install" .install)
    fill "$name"
    control "$name"
    find "$WORK/$name" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$WORK/$name" target/dist >&2
done
(cd target/dist && sha256sum *.deb)
