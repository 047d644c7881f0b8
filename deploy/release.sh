#!/bin/sh
# Builds a release: an archive for each platform, and their checksums.
#
#   deploy/release.sh VERSION FOLDER [OS/ARCH…]
#
# The same version of the same sources and compiler gives the same bytes.
set -eu
if [ $# -lt 2 ]; then
  echo "usage: deploy/release.sh VERSION FOLDER [OS/ARCH...]" >&2
  exit 2
fi
version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
cd "$(dirname "$0")/.."

case $version in
  [0-9]*.[0-9]*.[0-9]*) ;;
  *) echo "release: the version $version must be like 1.2.3" >&2; exit 2 ;;
esac

for platform in "$@"; do
  os=${platform%/*} arch=${platform#*/}
  name=streamwright-$version-$os-$arch
  rm -rf "${out:?}/$name"
  GOOS=$os GOARCH=$arch deploy/build.sh "$version" "$out/$name"
  cp README.md engine.example.toml "$out/$name/"
  if [ -e LICENSE ]; then cp LICENSE "$out/$name/"; fi
  tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - "$name" | gzip -n >"$out/$name.tar.gz"
  rm -rf "${out:?}/$name"
  echo "$name.tar.gz"
done
(cd "$out" && sha256sum streamwright-"$version"-*.tar.gz >"streamwright-$version-SHA256SUMS")
