"""In-memory search: the index as arrays, which any engine can fill."""
