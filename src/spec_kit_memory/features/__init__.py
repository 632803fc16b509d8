"""What can a workspace do? One module per family of verbs, with functions that take a `Runtime`."""
