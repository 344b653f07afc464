#!/usr/bin/env bash
# Write every lock file anew from its input: all versions pinned, all files hashed, no index named.
# `make lock` asks for the newest versions that the inputs allow.
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {
    local output="$1"
    shift
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-header --upgrade --output-file "locks/$output" "$@"
}

compile build.txt locks/build.in
compile dev.txt pyproject.toml --all-extras
# The images run what the tests ran on.
compile server.txt pyproject.toml --extra server --constraints locks/dev.txt
compile protos.txt locks/protos.in
compile jdk.txt locks/jdk.in
compile chart.txt locks/chart.in
compile docs.txt locks/docs.in
# The floors of pyproject.toml, each taken at its word.
compile oldest.txt pyproject.toml --resolution lowest-direct
