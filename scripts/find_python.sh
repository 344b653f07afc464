#!/usr/bin/env bash
# Print the Python to build .venv with: $PYTHON if it is set, else the newest tried CPython on PATH that can make a venv.
set -euo pipefail

fits() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" && { command -v "$PYTHON"; exit 0; }
    echo "PYTHON=$PYTHON is not a Python 3.11 or newer with the venv module." >&2
    exit 1
fi
for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
    if fits "$candidate"; then
        command -v "$candidate"
        exit 0
    fi
done
echo "oncelog needs Python 3.11 or newer with the venv module (on Debian: python3-venv); none is on PATH." >&2
exit 1
