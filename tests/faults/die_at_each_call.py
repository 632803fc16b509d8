"""A program for test_file_faults: an operation in processes that die, each before the next of its calls.

    python -m tests.faults.die_at_each_call TEMPLATE FOLDER OPERATION

It forks, so that a death costs milliseconds and not a start of Python. It prints the workspaces that were left.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from spec_kit_memory import filesystem
from tests.faults import failing


def main(template: Path, folder: Path, name: str) -> list[str]:
    left = []
    for at in range(1, 500):
        root = Path(os.path.realpath(folder)) / str(at)
        shutil.copytree(template, root, symlinks=True)
        left.append(str(root))
        child = os.fork()
        if child == 0:
            try:
                workspace = failing.open_at(root)
                with filesystem.using(failing.Dying(at)):
                    failing.OPERATIONS[name].act(workspace)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != 99:
            return left  # it got through
    raise SystemExit("the operation never got through")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
