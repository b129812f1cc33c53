#!/bin/sh
# Runs a worker against independent mocks of the providers' interfaces and compares what each has counted.
#
#   run.sh                            the test
#   run.sh serve PORT PORT            only the mocks, until the end: aimock on the first port, mock-llm on the second
#
# Exit code 3: npx is not there, or cannot fetch the mocks.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
aimock=@copilotkit/aimock@1.43.0
mockllm=@dwmkerr/mock-llm@0.1.29

if [ "${1-}" != serve ]; then
	cd "$here/../.."
	exec go test -count=1 -v ./e2e/mocks
fi

command -v npx >/dev/null || { echo "npx is not there" >&2; exit 3; }
for package in "$aimock" "$mockllm"; do
	npx --yes --package "$package" -- true || { echo "npx cannot fetch $package" >&2; exit 3; }
done
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT INT TERM
npx --yes --package "$aimock" -- llmock --host 127.0.0.1 --port "$2" --fixtures "$here/aimock.json" --latency 5 --chunk-size 8 --log-level warn &
HOST=127.0.0.1 PORT=$3 npx --yes --package "$mockllm" -- mock-llm --config "$here/mock-llm.yaml" &
wait
