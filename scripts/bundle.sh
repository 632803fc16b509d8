#!/bin/sh
# Builds dist/spec-kit-memory-<version>.mcpb, the bundle that desktop hosts install with one click.
set -eu
cd "$(dirname "$0")/.."
. scripts/env.sh

make_env .venv
"$(bin_of .venv)/python" -m pip install --quiet -e .
"$(bin_of .venv)/python" -m tools.bundle
