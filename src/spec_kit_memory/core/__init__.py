"""The pure core: functions from values to values. No files, no SQL, no clock, no network."""
