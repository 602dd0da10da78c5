# Sourced by the scripts here: the Python module, built as pip builds it, in an environment of its own.

PYTHON=target/python/bin/python

# The environment with what the module is built and tested with. Fails with one sentence.
python_environment() {
    python_can || { [ "$(id -u)" = 0 ] && apt_get install -y -qq python3-venv; } >/dev/null 2>&1
    if ! python_can; then
        echo "Python 3.11 with venv is missing: install it (on Debian: apt-get install python3-venv)"
        return 1
    fi
    [ -x "$PYTHON" ] || python3 -m venv target/python || return 1
    "$PYTHON" -c 'import maturin, mypy, numpy, pytest' 2>/dev/null && return 0
    "$PYTHON" -m pip install -q 'maturin>=1.8,<2' mypy numpy pytest >/dev/null 2>&1 && return 0
    echo "maturin, mypy, numpy and pytest are not to be had: pip cannot reach its index"
    return 1
}

# DuckDB, beside which the device's queries are tested. Fails with one sentence.
python_duckdb() {
    "$PYTHON" -c 'import duckdb, pyarrow' 2>/dev/null && return 0
    "$PYTHON" -m pip install -q duckdb pyarrow >/dev/null 2>&1 && return 0
    echo "duckdb and pyarrow are not to be had: pip cannot reach its index"
    return 1
}

python_can() {
    python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# As `pip install ./bindings/python`, but unoptimised, by what is here already, and without asking for dependencies.
python_install() {
    PATH=$PWD/target/python/bin:$PATH "$PYTHON" -m pip install -q --no-build-isolation --no-deps --force-reinstall \
        --config-settings=build-args='--profile dev' ./bindings/python
}
