"""Measurements: speed and retrieval, see README.md."""
