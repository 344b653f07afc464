#!/usr/bin/env bash
# Bring a venv to what a lock file says. Usage: scripts/setup.sh VENV LOCK [--project]
# Every package is pinned and checked by hash, the build tools too: sources (pyspark, etcd3) are built without isolation.
# --project also installs this checkout into it, editable, and first what builds need.
set -euo pipefail
cd "$(dirname "$0")/.."

venv="$1"
lock="$2"
if [ ! -x "$venv/bin/python" ]; then
    python="$(scripts/find_python.sh)"
    echo "setup: $venv with $("$python" --version)"
    "$python" -m venv "$venv"
fi

install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation "$@"
}

if [ "${3:-}" = --project ]; then
    install --require-hashes --requirement locks/build.txt
fi
large=""
if grep -q '^pyspark==' "$lock"; then large=" (the first time takes minutes: pyspark is large)"; fi
echo "setup: $lock into $venv$large"
install --require-hashes --requirement "$lock"
if [ "${3:-}" = --project ]; then
    install --no-deps --editable .
fi
