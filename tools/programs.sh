# Sourced by scripts that run programs under the library of transparent mappings: Valkey, Redis, SQLite and RocksDB's db_bench, where they
# can be had. Servers come by the packages of their tools, of which they are another name: those start no service.

programs=target/programs

# Has them on the PATH. What cannot be had is said, and left out by who looks for it.
have_programs() {
    mkdir -p "$programs/bin"
    PATH=$PWD/$programs/bin:$PATH
    need sqlite3 sqlite3 || true
    need rocksdb-tools db_bench || true
    # What both need beside themselves comes with it.
    have_server redis || true
    have valkey-check-rdb || apt-cache show valkey-tools > /dev/null 2>&1 || unpack_valkey || true
    have_server valkey || true
}

# have_server NAME: a link to its tools says that it is the server.
have_server() {
    have "$1-server" && return
    need "$1-tools" "$1-check-rdb" && ln -sf "$(command -v "$1-check-rdb")" "$programs/bin/$1-server"
}

# From the backports of a Debian that has it there alone, beside what apt has of this machine.
unpack_valkey() {
    local release here=$PWD/$programs apt
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    [ -n "$release" ] && [ -n "$(mirror)" ] && have dpkg || return 1
    mkdir -p "$here/lists/partial" "$here/cache/archives/partial"
    echo "deb $(mirror) $release-backports main" > "$here/backports.list"
    apt=(apt-get -qq -o APT::Sandbox::User=root -o "Dir::Etc::SourceList=$here/backports.list"
        -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$here/lists" -o "Dir::Cache=$here/cache")
    "${apt[@]}" update > /dev/null 2>&1 || return
    (cd "$here" && rm -f valkey-tools_*.deb && "${apt[@]}" download valkey-tools > /dev/null 2>&1) || return
    dpkg -x "$here"/valkey-tools_*.deb "$here" && ln -sf ../usr/bin/valkey-{check-rdb,check-aof,benchmark,cli} "$here/bin/"
}
