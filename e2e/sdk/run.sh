#!/bin/sh
# Runs OpenAI's SDKs and Schemathesis against fencepost dev.
#
#   run.sh                  fetches them and runs the tests
#   run.sh install FOLDER   only fetches them, into FOLDER
#
# Exit code 77: python3 or npm is not there, or cannot fetch them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# Newer ones are taken on purpose, by changing these lines.
python='openai==3.57.0 schemathesis==4.32.5'
node='openai@6.49.0 typescript@7.0.2 @types/node@20.9.5'

missing() { echo "$1" >&2; exit 77; }

# install FOLDER: a folder that has been filled is taken as it is.
install() {
	want="$python $node"
	[ "$(cat "$1/done" 2>/dev/null)" != "$want" ] || return 0
	command -v python3 >/dev/null || missing 'python3 is not there'
	command -v npm >/dev/null || missing 'npm is not there'
	rm -rf "$1" && mkdir -p "$1"
	python3 -m venv "$1/venv" || missing 'python3 makes no venv (Debian: python3-venv)'
	# shellcheck disable=SC2086 # several words, here and below
	"$1/venv/bin/pip" install -q --disable-pip-version-check $python || missing 'pip cannot fetch the packages'
	npm install --silent --no-audit --no-fund --prefix "$1" $node || missing 'npm cannot fetch the packages'
	echo "$want" >"$1/done"
}

if [ "${1-}" = install ]; then
	install "$2"
	exit
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fencepost/sdk
install "$cache"
cd "$here/../.."
exec go test -count=1 -timeout 10m ./e2e/sdk -sdk.packages "$cache" "$@"
