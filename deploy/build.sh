#!/bin/sh
# Builds the programs, streamwright and streamwright-tail, for one platform (GOOS and GOARCH, this machine's if they
# are not set), with the version stamped in and nothing of this machine.
#
#   deploy/build.sh VERSION FOLDER
#
# PGO=off in the environment leaves out the profile by which the compiler optimizes the engine: that is built in
# a third of the time, and slower.
set -eu
if [ $# -ne 2 ]; then
  echo "usage: deploy/build.sh VERSION FOLDER" >&2
  exit 2
fi
version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."

suffix=""
[ "$(go env GOOS)" = windows ] && suffix=.exe
# Nothing of the environment that would change the programs, and the cache of a build with GOFLAGS=-trimpath, as of CI.
export CGO_ENABLED=0 GOFLAGS=-trimpath GOAMD64=v1 GOARM64=v8.0
# The playground of the documentation, which the engine embeds: the same for each platform.
env -u GOOS -u GOARCH go run -pgo=off ./internal/playground/make internal/docs/site/playground
stamp="-s -w -X github.com/streamwright/streamwright/embedded.Version=$version"
build() { go build -trimpath -buildvcs=false -pgo="${PGO:-auto}" -ldflags "$stamp" -o "$out/$2$suffix" "./cmd/$1"; }
build engine streamwright
build tail streamwright-tail
