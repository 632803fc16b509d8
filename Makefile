# Both targets need only Python 3.11 or later. Without make: sh scripts/try.sh, sh scripts/test.sh
.PHONY: try test clean

try:
	@sh scripts/try.sh

test:
	@sh scripts/test.sh

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis examples/*/.spec-kit-memory/index.sqlite*
