"""`python -m spec_kit_memory` is `skm`."""

from spec_kit_memory.serve.cli.main import main

main()
