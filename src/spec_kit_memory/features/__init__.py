"""What can be asked of a workspace? One module per family of verbs, functions over `Runtime`."""
