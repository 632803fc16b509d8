"""How do many people share many repositories? One more reader of each, with a larger index (docs/explain/team.md)."""
