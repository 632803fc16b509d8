-- Which files of the project a memory names, and what they held when it was written.

-- RECORDED: what a file held once cannot be read from files again.
CREATE TABLE citation (
  memory_id INTEGER PRIMARY KEY REFERENCES memory (id),
  body TEXT NOT NULL,                   -- of which text: its fingerprint
  files TEXT NOT NULL                   -- JSON list of [path, hash, size, commit]
);
