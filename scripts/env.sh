# Sourced by try.sh and test.sh: finds Python 3.11 or later and makes virtual environments.
# Nothing outside the repository is changed, nothing is compiled and nothing is asked.

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ONLY_BINARY=:all: PIP_ROOT_USER_ACTION=ignore
export PYTHONUTF8=1

say() { printf '\n== %s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

find_python() {
  for candidate in ${PYTHON:-} python3 python3.11 python3.12 python3.13 python3.14 python; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      printf '%s' "$candidate"
      return
    fi
  done
  fail "Python 3.11 or later with venv was not found. Install it (Debian: apt install python3 python3-venv), or name one: PYTHON=/path/to/python3 $0"
}

# The programs of an environment: Scripts on Windows, bin elsewhere.
bin_of() { if [ -d "$1/Scripts" ]; then printf '%s' "$1/Scripts"; else printf '%s' "$1/bin"; fi; }

# make_env FOLDER: a virtual environment with a pip that knows dependency groups.
make_env() {
  if ! "$(bin_of "$1")/python" -c 'import pip' >/dev/null 2>&1; then
    rm -rf "$1"
    "$(find_python)" -m venv "$1"
  fi
  "$(bin_of "$1")/python" -m pip install --quiet --upgrade 'pip>=25.1'
}
