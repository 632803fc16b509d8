"""Search in memory: the index as arrays, which any engine can fill."""
