-- Two kinds of tables. RECORDED: cannot be read from files again; `rebuild` keeps them.
-- DERIVED: made from files (or, for vectors, from text); `rebuild` empties them.
-- The same division stands in schema.py as RECORDED and DERIVED, and a test compares the two.
-- Times are microseconds since 1970 in UTC. Text in JSON columns is UTF-8 JSON.

-- RECORDED
CREATE TABLE counter (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  instance TEXT NOT NULL,               -- which database this is: ids of another one mean something else
  generation INTEGER NOT NULL,          -- rises with every change to memories
  used INTEGER NOT NULL,                -- rises with every recorded use
  epoch INTEGER NOT NULL,               -- rises when in-memory columns must be read anew as a whole
  synced INTEGER NOT NULL               -- written at the end of a bulk block so that its commit syncs the log
);

-- RECORDED
CREATE TABLE content (
  hash TEXT PRIMARY KEY,                -- SHA-256 of the redacted text
  text BLOB NOT NULL                    -- zlib
);

-- RECORDED. Rows are never deleted: an id means the same memory for ever.
CREATE TABLE memory (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  path TEXT NOT NULL,
  source TEXT NOT NULL,
  spec_folder TEXT,
  title TEXT NOT NULL,
  tier TEXT NOT NULL,
  weight REAL NOT NULL,
  context_type TEXT NOT NULL,
  triggers TEXT NOT NULL,               -- JSON list, those of aliases included
  created_at INTEGER,
  expires_at INTEGER,
  session_id TEXT,
  channel TEXT,
  presence TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  content_hash TEXT NOT NULL,
  first_indexed_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  archived_folder INTEGER NOT NULL,
  outdated INTEGER NOT NULL DEFAULT 0,
  owner TEXT,
  project TEXT,
  trusted INTEGER NOT NULL,
  vouched INTEGER,                      -- what a person said about trust; NULL: nobody did
  forgotten_fingerprint TEXT,           -- the text that no scan may bring back
  changed INTEGER NOT NULL              -- the generation of its last change
);
-- A vanished memory may share its old path with a live one.
CREATE UNIQUE INDEX memory_live_path ON memory (path) WHERE presence = 'live';
CREATE INDEX memory_path ON memory (path);
CREATE INDEX memory_fingerprint ON memory (fingerprint);
CREATE INDEX memory_folder ON memory (spec_folder);
CREATE INDEX memory_title ON memory (title);
CREATE INDEX memory_changed ON memory (changed);
CREATE INDEX memory_content ON memory (content_hash);

-- RECORDED
CREATE TABLE usage (
  memory_id INTEGER PRIMARY KEY REFERENCES memory (id),
  access_count REAL NOT NULL DEFAULT 0,
  last_access INTEGER,
  validation_count INTEGER NOT NULL DEFAULT 0,
  confidence TEXT NOT NULL DEFAULT '0.5',
  used INTEGER NOT NULL DEFAULT 0       -- counter.used at its last change
);
CREATE INDEX usage_used ON usage (used);

-- RECORDED
CREATE TABLE override (
  memory_id INTEGER PRIMARY KEY REFERENCES memory (id),
  attributes TEXT NOT NULL              -- JSON object
);

-- RECORDED where origin is 'hand', DERIVED otherwise
CREATE TABLE link (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  source_id INTEGER NOT NULL REFERENCES memory (id),
  target_id INTEGER NOT NULL REFERENCES memory (id),
  relation TEXT NOT NULL,
  strength REAL NOT NULL,
  evidence TEXT NOT NULL,
  origin TEXT NOT NULL,
  claimant INTEGER REFERENCES memory (id), -- for origin 'file': the memory whose front matter asks for it
  created_at INTEGER,
  UNIQUE (source_id, target_id, relation)
);
CREATE INDEX link_target ON link (target_id);
CREATE INDEX link_claimant ON link (claimant);

-- RECORDED. No foreign key: history outlives everything.
CREATE TABLE history (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  memory_id INTEGER NOT NULL,
  event TEXT NOT NULL,
  before TEXT,
  after TEXT,
  hash_before TEXT,
  hash_after TEXT,
  actor TEXT NOT NULL,
  session TEXT,
  at INTEGER NOT NULL,
  spec_folder TEXT
);
CREATE INDEX history_memory ON history (memory_id, sequence);
CREATE INDEX history_folder ON history (spec_folder, sequence);
CREATE INDEX history_hash_before ON history (hash_before);
CREATE INDEX history_hash_after ON history (hash_after);
CREATE TRIGGER history_is_append_only_update BEFORE UPDATE ON history
  BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER history_is_append_only_delete BEFORE DELETE ON history
  BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;

-- RECORDED
CREATE TABLE ledger (
  sequence INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  type TEXT NOT NULL,
  memory_ids TEXT NOT NULL,             -- JSON list
  hash_before TEXT,
  hash_after TEXT,
  actor TEXT NOT NULL,
  session TEXT,
  reason TEXT NOT NULL,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL
);
CREATE TRIGGER ledger_is_append_only_update BEFORE UPDATE ON ledger
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_is_append_only_delete BEFORE DELETE ON ledger
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- RECORDED. Empty text stands for "no user" and "no project", so that the key has no NULL.
CREATE TABLE session (
  id TEXT NOT NULL,
  owner TEXT NOT NULL,
  project TEXT NOT NULL,
  turn INTEGER NOT NULL,
  loading TEXT NOT NULL,
  last_save_turn INTEGER NOT NULL,
  seen_at INTEGER,
  attention TEXT NOT NULL,              -- JSON list
  sent TEXT NOT NULL,                   -- JSON list
  PRIMARY KEY (id, owner, project)
) WITHOUT ROWID;
CREATE INDEX session_seen ON session (seen_at);

-- DERIVED
CREATE TABLE document (
  memory_id INTEGER PRIMARY KEY REFERENCES memory (id),
  said TEXT NOT NULL,                   -- JSON: attributes before overrides, aliases and trust
  said_trusted INTEGER NOT NULL,
  raw_hash TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  seen_ns INTEGER NOT NULL,
  warnings TEXT NOT NULL,               -- JSON list
  redactions INTEGER NOT NULL,
  passages INTEGER NOT NULL,
  embedded INTEGER NOT NULL DEFAULT 0,  -- how many of them have a vector
  tokens INTEGER NOT NULL,
  vector_status TEXT NOT NULL
);
CREATE INDEX document_unembedded ON document (vector_status, memory_id) WHERE vector_status <> 'success';

-- DERIVED: second names of a memory
CREATE TABLE alias (
  path TEXT PRIMARY KEY,
  memory_id INTEGER NOT NULL REFERENCES memory (id),
  fingerprint TEXT NOT NULL,
  triggers TEXT NOT NULL,
  raw_hash TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  seen_ns INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX alias_memory ON alias (memory_id);

-- DERIVED. Ids only rise: in-memory columns and posting lists rely on it.
CREATE TABLE passage (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  memory_id INTEGER NOT NULL REFERENCES memory (id),
  ordinal INTEGER NOT NULL,
  first_line INTEGER NOT NULL,
  last_line INTEGER NOT NULL,
  hash TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  anchor TEXT NOT NULL,
  headings TEXT NOT NULL,               -- JSON list
  speaker TEXT NOT NULL,
  length INTEGER NOT NULL,              -- indexed words, title included
  vector_id INTEGER,
  UNIQUE (memory_id, ordinal)
);
CREATE INDEX passage_hash ON passage (hash);

-- DERIVED. Holds the passages of live memories only.
CREATE VIRTUAL TABLE passage_fts USING fts5 (
  title, body, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE passage_terms USING fts5vocab ('passage_fts', 'instance');

-- DERIVED: phrases of live, trusted memories
CREATE TABLE "trigger" (
  memory_id INTEGER NOT NULL REFERENCES memory (id),
  phrase TEXT NOT NULL,
  PRIMARY KEY (memory_id, phrase)
) WITHOUT ROWID;

-- DERIVED: links that front matter asks for, resolved or not
CREATE TABLE claim (
  memory_id INTEGER NOT NULL REFERENCES memory (id),
  ordinal INTEGER NOT NULL,
  relation TEXT NOT NULL,
  target TEXT NOT NULL,
  sibling TEXT NOT NULL,                -- the target read as a path beside the file; '' where it is none
  inward INTEGER NOT NULL,
  strength REAL NOT NULL,
  PRIMARY KEY (memory_id, ordinal)
) WITHOUT ROWID;
CREATE INDEX claim_target ON claim (target);
CREATE INDEX claim_sibling ON claim (sibling);

-- DERIVED: the one model whose vectors are here
CREATE TABLE model (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  dimensions INTEGER NOT NULL,
  weights_hash TEXT NOT NULL
);

-- DERIVED. Ids only rise.
CREATE TABLE vector (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model INTEGER NOT NULL REFERENCES model (id),
  hash TEXT NOT NULL,
  vector BLOB NOT NULL,
  UNIQUE (hash, model)
);

-- DERIVED
CREATE TABLE token_state (
  vector_id INTEGER PRIMARY KEY REFERENCES vector (id) ON DELETE CASCADE,
  states BLOB NOT NULL
);

-- DERIVED: passages whose embedding failed
CREATE TABLE failure (hash TEXT PRIMARY KEY, tries INTEGER NOT NULL, reason TEXT NOT NULL) WITHOUT ROWID;

-- DERIVED
CREATE TABLE bad_file (
  path TEXT PRIMARY KEY,
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  seen_at INTEGER NOT NULL
) WITHOUT ROWID;
