"""What do the SQL engines have in common? The SQL they share (see `dialect`) and the code that uses it."""
