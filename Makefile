# The targets need only Python 3.11 or later. Without make: sh scripts/try.sh, sh scripts/try-team.sh, sh scripts/test.sh, sh scripts/bundle.sh
.PHONY: try try-team test bundle clean

try:
	@sh scripts/try.sh

# A team server from nothing: two projects, two people, two replicas.
try-team:
	@sh scripts/try-team.sh

test:
	@sh scripts/test.sh

# The .mcpb bundle that desktop hosts install, into dist/.
bundle:
	@sh scripts/bundle.sh

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis examples/*/.spec-kit-memory/index.sqlite*
