"""The middle is arithmetic: values in, values out. No files, no SQL, no clock, no network."""
