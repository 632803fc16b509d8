#!/bin/sh
# Sets everything up, indexes the example workspace, answers a question, and asks the server another one.
set -eu
cd "$(dirname "$0")/.."
. scripts/env.sh

say "Installing into .venv (a minute the first time)"
make_env .venv
"$(bin_of .venv)/python" -m pip install --quiet -e .
skm="$(bin_of .venv)/skm"
example=examples/harbour-bikes

say "Indexing $example"
"$skm" --workspace "$example" index

say "skm search \"how long do we wait for a dock to confirm an unlock\" --explain"
"$skm" --workspace "$example" search "how long do we wait for a dock to confirm an unlock" --limit 3 --explain

say "skm serve, asked by an MCP client: \"why did we leave polling\""
"$(bin_of .venv)/python" -m tools.ask "$example" "why did we leave polling"

say "It works. Next:"
cat <<EOF
Ask it something else:     $skm --workspace $example search "why did we leave polling"
Use it in your project:    cd YOUR-PROJECT && $(pwd)/$skm init && $(pwd)/$skm index
Connect your agent:        cd YOUR-PROJECT && $(pwd)/$skm install claude-code     (or codex, copilot, cursor, gemini …)
Any other MCP client runs: $(pwd)/$skm serve --workspace YOUR-PROJECT
EOF
