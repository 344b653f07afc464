#!/usr/bin/env bash
# Build the container image and say how large it is. Usage: scripts/image.sh [NAME:TAG]
#   BUILDER        docker, podman or buildah, with options of its own; default: the first of them that works
#   BUILD_OPTIONS  more options of its `build`, as `--network host`, or a mount of certificates (podman, buildah)
#   BASE_IMAGE     another base, as a mirror's, by digest (name:tag@sha256:...); UNPINNED_BASE=1 takes one without, for trying out
#   IMAGE_TAR      also save the image to this file (docker archive), for `kind load image-archive` and the like
set -euo pipefail
cd "$(dirname "$0")/.."

version="$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)"
image="${1:-oncelog:$version}"

works() {
    command -v "$1" >/dev/null && { [ "$1" = buildah ] || "$1" info >/dev/null 2>&1; }
}

find_builder() {
    for candidate in docker podman buildah; do
        if works "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "make image needs docker, podman or buildah: none of them is on PATH and answers (BUILDER= names one)." >&2
    exit 1
}

builder="${BUILDER:-$(find_builder)}"
read -ra tool <<<"$builder"
read -ra options <<<"${BUILD_OPTIONS:-}"
if [ -n "${BASE_IMAGE:-}" ]; then
    if ! [[ "$BASE_IMAGE" =~ @sha256:[0-9a-f]{64}$ ]]; then
        if [ "${UNPINNED_BASE:-}" != 1 ]; then
            echo "make image: BASE_IMAGE=$BASE_IMAGE is not pinned: name it by digest (name:tag@sha256:...), or say UNPINNED_BASE=1." >&2
            exit 1
        fi
        echo "make image: the base $BASE_IMAGE is not pinned by digest: an image for trying out, not for a release" >&2
    fi
    options+=(--build-arg "BASE_IMAGE=$BASE_IMAGE")
fi
verb=build
[ "$(basename "${tool[0]}")" != buildah ] || verb=bud

revision="$(git rev-parse HEAD 2>/dev/null || echo unknown)"
created="$(git log -1 --format=%cI 2>/dev/null || echo unknown)"
begin=$SECONDS
"${tool[@]}" "$verb" "${options[@]}" --file Dockerfile --tag "$image" --build-arg "VERSION=$version" \
    --build-arg "REVISION=$revision" --build-arg "CREATED=$created" .

if [ "$verb" = bud ]; then
    size="$("${tool[@]}" images --format '{{.Size}}' "$image")"
    [ -z "${IMAGE_TAR:-}" ] || { rm -f "$IMAGE_TAR"; "${tool[@]}" push --quiet "$image" "docker-archive:$IMAGE_TAR:$image"; }
else
    size="$(($("${tool[@]}" image inspect --format '{{.Size}}' "$image") / 1000000)) MB"
    [ -z "${IMAGE_TAR:-}" ] || { rm -f "$IMAGE_TAR"; "${tool[@]}" save --output "$IMAGE_TAR" "$image"; }
fi
echo "image: $image, $size, built by ${tool[0]} in $((SECONDS - begin)) s${IMAGE_TAR:+, saved to $IMAGE_TAR}"
