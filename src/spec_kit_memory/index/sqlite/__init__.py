"""The index on SQLite: one file in the state folder."""
