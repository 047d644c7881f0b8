#!/bin/sh
# Builds the image that deploy/docker/Dockerfile describes, and runs it, with
# buildah and without a network: the programs are built here, by deploy/build.sh,
# and the Dockerfile's own last stage takes them from a folder in place of its first
# stage, which needs the golang image. Run it as root; it leaves nothing behind.
#
#   deploy/check/image.sh [FOLDER with the programs, built before]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
data=/data/$(basename "$work") # a name by which the engine's process is found
store() { buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }
# shellcheck disable=SC2317 # it is called by the trap
finish() {
  pkill -f -- "--dir $data " || true
  store rm --all >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT

stage=$work/stage
mkdir -p "$stage/etc/ssl/certs" "$stage/usr/share" "$stage/rootfs/data" "$stage/rootfs/tmp"
chmod 1777 "$stage/rootfs/tmp"
cp /etc/ssl/certs/ca-certificates.crt "$stage/etc/ssl/certs/"
cp -r /usr/share/zoneinfo "$stage/usr/share/"
if [ $# -gt 0 ]; then
  mkdir -p "$stage/out" && cp "$1/streamwright" "$1/streamwright-tail" "$stage/out/"
else
  "$here/build.sh" 0.0.0-image "$stage/out"
fi
sed -n '/^FROM scratch/,$p' "$here/docker/Dockerfile" >"$work/Dockerfile"
store bud --quiet --isolation chroot --build-context "build=$stage" -t streamwright -f "$work/Dockerfile" "$work" >/dev/null

container=$(store from --pull-never localhost/streamwright)
root=$(store mount "$container")
user=$(store inspect --format '{{.OCIv1.Config.User}}' --type image localhost/streamwright)
[ "$user" = 65532:65532 ] || { echo "the image runs as $user" >&2; exit 1; }
[ "$(stat -c %u:%g "$root/data")" = 65532:65532 ] || { echo "/data is not the image's user's" >&2; exit 1; }
store run --isolation chroot "$container" -- /streamwright --version

# As its user, in what it holds, it serves until it is told to stop.
store run --isolation chroot "$container" -- /streamwright serve --dir "$data" --nats-listen 127.0.0.1:0 --http 127.0.0.1:0 >"$work/log" 2>&1 &
tries=0
until grep -q "engine ready" "$work/log"; do
  tries=$((tries + 1))
  if [ $tries -gt 300 ]; then
    cat "$work/log" >&2
    exit 1
  fi
  sleep 0.1
done
kill -INT "$(pgrep -f "^/streamwright serve --dir $data ")"
wait $!
du -sh "$root" | cut -f1
echo "the image is built, and runs"
