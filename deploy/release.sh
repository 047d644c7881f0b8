#!/bin/sh
# Makes a release: programs for each platform as archives, Debian packages and npm packages, with what they are
# made of; the clients for Node and Python; a Helm chart; a Homebrew formula; and the checksums of all.
#
#   deploy/release.sh VERSION FOLDER [OS/ARCH...]
#
# It wants Go, npm, and a python3 with setuptools and wheel. The same version of the same sources with the same
# versions of these gives the same bytes, on any machine. All files are dated SOURCE_DATE_EPOCH.
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
if [ -n "$(ls -A "$out")" ]; then
  echo "release: $out is not empty: all that is in it is the release, so give an empty folder" >&2
  exit 2
fi
fail() { echo "release: $*" >&2; exit 1; }
# Debian's Python has Debian's setuptools, whichever else is before it on the PATH.
python=python3
[ ! -x /usr/bin/python3 ] || python=/usr/bin/python3
command -v npm >/dev/null || fail "npm is missing: it makes the Node client"
"$python" -c "import setuptools, wheel" 2>/dev/null || fail "$python has no setuptools and wheel, which make the Python client (Debian: python3-setuptools, python3-wheel)"

# The date that npm gives its own packages, since zip has none before 1980.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-499162500}
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for platform in "$@"; do
  GOOS=${platform%/*} GOARCH=${platform#*/} deploy/build.sh "$version" "$work/bin/${platform%/*}-${platform#*/}"
done

# The manual and the completions are what the program says of itself.
own=$(env -u GOOS -u GOARCH go env GOOS)-$(env -u GOOS -u GOARCH go env GOARCH)
programs=$work/bin/$own
if [ ! -d "$programs" ]; then
  programs=$work/own
  env -u GOOS -u GOARCH deploy/build.sh "$version" "$programs"
fi
"$programs/streamwright" man "$work/man"
mkdir "$work/completions"
"$programs/streamwright" completion bash >"$work/completions/streamwright.bash"
"$programs/streamwright" completion zsh >"$work/completions/_streamwright"
"$programs/streamwright" completion fish >"$work/completions/streamwright.fish"

# The Node client: compiled in a copy, with the modules that its lockfile names.
node=$work/node
mkdir -p "$node" "$out/npm"
cp -R clients/node/src clients/node/README.md clients/node/package.json clients/node/package-lock.json clients/node/tsconfig.json clients/node/tsconfig.build.json LICENSE "$node"
if (cd clients/node && npm ls --silent >/dev/null 2>&1); then
  ln -s "$PWD/clients/node/node_modules" "$node/node_modules"
else
  (cd "$node" && npm ci --silent --no-audit --no-fund --ignore-scripts)
fi
(
  cd "$node"
  npm version --silent --no-git-tag-version --allow-same-version "$version" >/dev/null
  npm run --silent build
  npm pack --silent --ignore-scripts --pack-destination "$out/npm" >/dev/null
)

# The Python client. Its sdist has times of its own, so it is packed anew.
py=$work/py
mkdir -p "$py" "$out/python" "$work/sdist"
cp -R clients/python/streamwright clients/python/README.md clients/python/pyproject.toml LICENSE "$py"
find "$py" -name __pycache__ -prune -exec rm -rf {} +
sed "s/^version = .*/version = \"$version\"/" clients/python/pyproject.toml >"$py/pyproject.toml"
(
  cd "$py"
  build() {
    "$python" -c "import sys; from setuptools import build_meta; build_meta.build_$1(sys.argv[1])" "$2" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  }
  build sdist "$work/sdist"
  build wheel "$out/python"
)
tar -xzf "$work"/sdist/*.tar.gz -C "$work/sdist"
rm "$work"/sdist/*.tar.gz

(cd deploy/pack && env -u GOOS -u GOARCH CGO_ENABLED=0 go build -trimpath -o "$work/pack" .)
"$work/pack" "$version" "$work" "$out"
cat "$out/streamwright-$version-SHA256SUMS"
