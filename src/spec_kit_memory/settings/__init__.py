"""Which choices do users differ on, and where did each value come from? Settings are frozen once they are loaded.

`keys` is the table of settings, `trust` defines what a repository's own file may set, `loading` reads them, and
`own_folders` locates the user's own files.
"""

from spec_kit_memory.settings.keys import (
    BY_NAME,
    KEYS,
    STATE_FOLDER,
    Allow,
    Decay,
    IndexPlace,
    Isolation,
    Key,
    Search,
    Semantic,
    Settings,
    Triggers,
    Weights,
    describe,
    plain,
)
from spec_kit_memory.settings.loading import (
    CONFIG,
    RESERVED_VARIABLES,
    find_root,
    load,
    load_with_problems,
    parse_flag,
    places_of,
    repository_excludes,
    starter_config,
)
from spec_kit_memory.settings.own_folders import make_private_folder, user_config_file, user_folder, user_state_folder
from spec_kit_memory.settings.trust import TRUST, TrustLevel

__all__ = [
    "BY_NAME",
    "CONFIG",
    "KEYS",
    "RESERVED_VARIABLES",
    "STATE_FOLDER",
    "TRUST",
    "Allow",
    "Decay",
    "IndexPlace",
    "Isolation",
    "Key",
    "Search",
    "Semantic",
    "Settings",
    "Triggers",
    "TrustLevel",
    "Weights",
    "describe",
    "find_root",
    "load",
    "load_with_problems",
    "make_private_folder",
    "parse_flag",
    "places_of",
    "plain",
    "repository_excludes",
    "starter_config",
    "user_config_file",
    "user_folder",
    "user_state_folder",
]
