#!/bin/sh
# Sets up, lints, checks types and reference pages, builds the wheel, and runs the tests
# against that wheel in a clean environment. The first failure ends it.
set -eu
cd "$(dirname "$0")/.."
. scripts/env.sh

started=$(date +%s)
took() { printf '   (%s s so far)\n' "$(($(date +%s) - started))"; }

say "Setting up .venv with the development tools"
make_env .venv
"$(bin_of .venv)/python" -m pip install --quiet -e . --group dev
python="$(bin_of .venv)/python"
took

say "Lint"
"$python" -m ruff check .
"$python" -m ruff format --check .
took

say "Types"
"$python" -m mypy
took

say "Reference pages say what the code says"
"$python" -m tools.reference --check
took

say "Building the wheel"
rm -rf dist
"$python" -m build --quiet --outdir dist .
ls -l dist
took

say "Installing the wheel in a clean environment"
rm -rf build/wheel
make_env build/wheel
tested="$(bin_of build/wheel)/python"
"$tested" -m pip install --quiet dist/*.whl --group test
"$tested" -I -c 'import spec_kit_memory as skm; print(skm.__version__, "from", skm.__file__); assert "site-packages" in skm.__file__'
took

say "Tests, against the wheel"
# What some tests need is installed where that can be done; where not, they are skipped, and this says why.
wanted() { # PROGRAM PACKAGE, and what is not tried without it
  PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null 2>&1 && return
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "$1 is not installed, and only root of a Debian system can install it here: $3."
  elif ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2"; } >"build/$1.log" 2>&1; then
    echo "$1 could not be installed: $(tail -n 1 "build/$1.log") (build/$1.log): $3."
  fi
}
wanted chromium chromium "the page is not tried in a browser"
wanted pgbouncer pgbouncer "the index is not tried behind a pooler"
for optional in node git; do
  command -v "$optional" >/dev/null 2>&1 || echo "$optional is not installed: the tests that need it are skipped (listed at the end)."
done
# As many processes as there are cores; the tests of one file stay together, because they share what they set up.
"$tested" -m pytest -n auto --dist loadfile "$@"
took

say "Known vulnerabilities of what it stands on"
"$tested" -m tools.audit
took

say "Programs that others wrote, against the wheel's server"
"$tested" -m tools.conformance
took
say "Real agent hosts, each through one turn with a scripted model"
# On a busy machine a host may go on without a server that starts; three turns without tools are no accident.
"$tested" -m tools.hosts --tries 3
took
say "Client libraries that others wrote, on both transports"
"$tested" -m tools.clients
took
say "All good"
