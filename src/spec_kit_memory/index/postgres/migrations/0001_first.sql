-- project_id comes first in every key. Ids are unique within a project and only rise. Times are microseconds since
-- 1970 in UTC. Text sorts by code point, as in every other engine. @role is what every transaction is.

CREATE SCHEMA spec_kit_memory;
-- With the schema of pgvector, which is not `public` everywhere.
SELECT set_config('search_path', format('spec_kit_memory, %I, pg_temp', nspname), true)
  FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector';

CREATE TABLE version (number INTEGER PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now());

CREATE TABLE project (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name TEXT COLLATE "C" NOT NULL UNIQUE
);

-- The row that every writer of a project locks first.
CREATE TABLE counter (
  project_id BIGINT PRIMARY KEY REFERENCES project (id),
  instance TEXT NOT NULL,
  generation BIGINT NOT NULL DEFAULT 0,
  used BIGINT NOT NULL DEFAULT 0,
  epoch BIGINT NOT NULL DEFAULT 0,
  synced BIGINT NOT NULL DEFAULT 0,
  last_memory BIGINT NOT NULL DEFAULT 0,
  last_link BIGINT NOT NULL DEFAULT 0,
  last_history BIGINT NOT NULL DEFAULT 0,
  last_passage BIGINT NOT NULL DEFAULT 0,
  last_vector BIGINT NOT NULL DEFAULT 0,
  last_model BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE content (
  project_id BIGINT NOT NULL,
  hash TEXT COLLATE "C" NOT NULL,
  text BYTEA NOT NULL,
  PRIMARY KEY (project_id, hash)
);

CREATE TABLE memory (
  project_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  spec_folder TEXT COLLATE "C",
  title TEXT COLLATE "C" NOT NULL,
  tier TEXT COLLATE "C" NOT NULL,
  weight DOUBLE PRECISION NOT NULL,
  context_type TEXT COLLATE "C" NOT NULL,
  triggers TEXT NOT NULL,
  created_at BIGINT,
  expires_at BIGINT,
  session_id TEXT,
  channel TEXT,
  presence TEXT COLLATE "C" NOT NULL,
  fingerprint TEXT COLLATE "C" NOT NULL,
  content_hash TEXT COLLATE "C" NOT NULL,
  first_indexed_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  archived_folder BOOLEAN NOT NULL,
  outdated BOOLEAN NOT NULL DEFAULT false,
  owner TEXT COLLATE "C",
  project TEXT COLLATE "C",
  trusted BOOLEAN NOT NULL,
  vouched BOOLEAN,
  forgotten_fingerprint TEXT COLLATE "C",
  changed BIGINT NOT NULL,
  PRIMARY KEY (project_id, id)
);
CREATE UNIQUE INDEX memory_live_path ON memory (project_id, path) WHERE presence = 'live';
CREATE INDEX memory_path ON memory (project_id, path);
CREATE INDEX memory_fingerprint ON memory (project_id, fingerprint);
CREATE INDEX memory_title ON memory (project_id, title);
CREATE INDEX memory_changed ON memory (project_id, changed);
CREATE INDEX memory_content ON memory (project_id, content_hash);

CREATE TABLE usage (
  project_id BIGINT NOT NULL,
  memory_id BIGINT NOT NULL,
  access_count DOUBLE PRECISION NOT NULL DEFAULT 0,
  last_access BIGINT,
  validation_count BIGINT NOT NULL DEFAULT 0,
  confidence TEXT NOT NULL DEFAULT '0.5',
  used BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (project_id, memory_id),
  FOREIGN KEY (project_id, memory_id) REFERENCES memory
);
CREATE INDEX usage_used ON usage (project_id, used);

CREATE TABLE override (
  project_id BIGINT NOT NULL,
  memory_id BIGINT NOT NULL,
  attributes TEXT NOT NULL,
  PRIMARY KEY (project_id, memory_id),
  FOREIGN KEY (project_id, memory_id) REFERENCES memory
);

-- Which files of the project a memory names, and what they held when it was written.
CREATE TABLE citation (
  project_id BIGINT NOT NULL,
  memory_id BIGINT NOT NULL,
  body TEXT COLLATE "C" NOT NULL,
  files TEXT NOT NULL,
  PRIMARY KEY (project_id, memory_id),
  FOREIGN KEY (project_id, memory_id) REFERENCES memory
);

CREATE TABLE link (
  project_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  source_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  relation TEXT COLLATE "C" NOT NULL,
  strength DOUBLE PRECISION NOT NULL,
  evidence TEXT NOT NULL,
  origin TEXT COLLATE "C" NOT NULL,
  claimant BIGINT,
  created_at BIGINT,
  PRIMARY KEY (project_id, id),
  UNIQUE (project_id, source_id, target_id, relation),
  FOREIGN KEY (project_id, source_id) REFERENCES memory,
  FOREIGN KEY (project_id, target_id) REFERENCES memory,
  FOREIGN KEY (project_id, claimant) REFERENCES memory
);
CREATE INDEX link_target ON link (project_id, target_id);
CREATE INDEX link_claimant ON link (project_id, claimant);

CREATE TABLE history (
  project_id BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  memory_id BIGINT NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  before TEXT,
  after TEXT,
  hash_before TEXT COLLATE "C",
  hash_after TEXT COLLATE "C",
  actor TEXT NOT NULL,
  session TEXT,
  at BIGINT NOT NULL,
  spec_folder TEXT COLLATE "C",
  ledger_sequence BIGINT,
  PRIMARY KEY (project_id, sequence)
);
CREATE INDEX history_memory ON history (project_id, memory_id, sequence);
CREATE INDEX history_folder ON history (project_id, spec_folder, sequence);
CREATE INDEX history_hash_before ON history (project_id, hash_before);
CREATE INDEX history_hash_after ON history (project_id, hash_after);
CREATE INDEX history_ledger ON history (project_id, ledger_sequence);

CREATE TABLE ledger (
  project_id BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  at TEXT NOT NULL,
  type TEXT COLLATE "C" NOT NULL,
  memory_ids TEXT NOT NULL,
  hash_before TEXT COLLATE "C",
  hash_after TEXT COLLATE "C",
  actor TEXT NOT NULL,
  session TEXT,
  reason TEXT NOT NULL,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL,
  version INTEGER NOT NULL,
  operation TEXT,
  operation_id TEXT COLLATE "C",
  history TEXT,
  presence TEXT,
  PRIMARY KEY (project_id, sequence)
);
CREATE INDEX ledger_operation ON ledger (project_id, operation_id) WHERE operation_id IS NOT NULL;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;
CREATE TRIGGER history_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON history
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE session (
  project_id BIGINT NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  owner TEXT COLLATE "C" NOT NULL,
  project TEXT COLLATE "C" NOT NULL,
  turn BIGINT NOT NULL,
  loading TEXT NOT NULL,
  last_save_turn BIGINT NOT NULL,
  seen_at BIGINT,
  attention TEXT NOT NULL,
  sent TEXT NOT NULL,
  PRIMARY KEY (project_id, id, owner, project)
);
CREATE INDEX session_seen ON session (project_id, seen_at);

CREATE TABLE document (
  project_id BIGINT NOT NULL,
  memory_id BIGINT NOT NULL,
  said TEXT NOT NULL,
  said_trusted BOOLEAN NOT NULL,
  raw_hash TEXT COLLATE "C" NOT NULL,
  size BIGINT NOT NULL,
  mtime_ns BIGINT NOT NULL,
  seen_ns BIGINT NOT NULL,
  warnings TEXT NOT NULL,
  redactions BIGINT NOT NULL,
  passages BIGINT NOT NULL,
  embedded BIGINT NOT NULL DEFAULT 0,
  tokens BIGINT NOT NULL,
  vector_status TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (project_id, memory_id),
  FOREIGN KEY (project_id, memory_id) REFERENCES memory
);
CREATE INDEX document_unembedded ON document (project_id, vector_status, memory_id) WHERE vector_status <> 'success';

CREATE TABLE alias (
  project_id BIGINT NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  memory_id BIGINT NOT NULL,
  fingerprint TEXT COLLATE "C" NOT NULL,
  triggers TEXT NOT NULL,
  raw_hash TEXT COLLATE "C" NOT NULL,
  size BIGINT NOT NULL,
  mtime_ns BIGINT NOT NULL,
  seen_ns BIGINT NOT NULL,
  PRIMARY KEY (project_id, path),
  FOREIGN KEY (project_id, memory_id) REFERENCES memory
);
CREATE INDEX alias_memory ON alias (project_id, memory_id);

-- The words of a passage as the text index has them, title and body apart, for phrases.
CREATE TABLE passage (
  project_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  memory_id BIGINT NOT NULL,
  ordinal INTEGER NOT NULL,
  first_line INTEGER NOT NULL,
  last_line INTEGER NOT NULL,
  hash TEXT COLLATE "C" NOT NULL,
  tokens INTEGER NOT NULL,
  anchor TEXT NOT NULL,
  headings TEXT NOT NULL,
  speaker TEXT NOT NULL,
  question TEXT NOT NULL,
  length INTEGER NOT NULL,
  vector_id BIGINT,
  words TEXT NOT NULL,
  PRIMARY KEY (project_id, id),
  UNIQUE (project_id, memory_id, ordinal),
  FOREIGN KEY (project_id, memory_id) REFERENCES memory
);
CREATE INDEX passage_hash ON passage (project_id, hash);

-- Which passages have a word, and how often: packed for some hundred neighbouring passages at once. Passages that
-- are gone stay in it until it is made anew; whoever reads it knows which are there.
CREATE TABLE posting (
  project_id BIGINT NOT NULL,
  term TEXT COLLATE "C" NOT NULL,
  bucket BIGINT NOT NULL,
  passages BYTEA NOT NULL,              -- 64 bits each, the lowest byte first, ascending
  times BYTEA NOT NULL,                 -- 16 bits each
  PRIMARY KEY (project_id, term, bucket)
) WITH (fillfactor = 80);
ALTER TABLE posting ALTER passages SET STORAGE MAIN, ALTER times SET STORAGE MAIN;

CREATE TABLE "trigger" (
  project_id BIGINT NOT NULL,
  memory_id BIGINT NOT NULL,
  phrase TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (project_id, memory_id, phrase),
  FOREIGN KEY (project_id, memory_id) REFERENCES memory
);

CREATE TABLE claim (
  project_id BIGINT NOT NULL,
  memory_id BIGINT NOT NULL,
  ordinal INTEGER NOT NULL,
  relation TEXT COLLATE "C" NOT NULL,
  target TEXT COLLATE "C" NOT NULL,
  sibling TEXT COLLATE "C" NOT NULL,
  inward BOOLEAN NOT NULL,
  strength DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (project_id, memory_id, ordinal),
  FOREIGN KEY (project_id, memory_id) REFERENCES memory
);
CREATE INDEX claim_target ON claim (project_id, target);
CREATE INDEX claim_sibling ON claim (project_id, sibling);

CREATE TABLE model (
  project_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  name TEXT NOT NULL,
  dimensions INTEGER NOT NULL,
  weights_hash TEXT NOT NULL,
  PRIMARY KEY (project_id, id)
);

CREATE TABLE vector (
  project_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  model BIGINT NOT NULL,
  hash TEXT COLLATE "C" NOT NULL,
  vector vector NOT NULL,
  PRIMARY KEY (project_id, id),
  UNIQUE (project_id, hash, model),
  FOREIGN KEY (project_id, model) REFERENCES model
);

CREATE TABLE token_state (
  project_id BIGINT NOT NULL,
  vector_id BIGINT NOT NULL,
  states BYTEA NOT NULL,
  PRIMARY KEY (project_id, vector_id),
  FOREIGN KEY (project_id, vector_id) REFERENCES vector ON DELETE CASCADE
);

CREATE TABLE failure (
  project_id BIGINT NOT NULL,
  hash TEXT COLLATE "C" NOT NULL,
  tries INTEGER NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (project_id, hash)
);

CREATE TABLE bad_file (
  project_id BIGINT NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  seen_at BIGINT NOT NULL,
  PRIMARY KEY (project_id, path)
);

-- The second fence: whatever a statement asks for, a transaction sees the rows of its own project and no others.
DO $$
DECLARE name TEXT;
BEGIN
  FOR name IN
    SELECT table_name FROM information_schema.columns
    WHERE table_schema = 'spec_kit_memory' AND column_name = 'project_id'
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY own_project ON %I USING (project_id = nullif(current_setting(''skm.project'', true), '''')::bigint)',
      name);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO @role', name);
    IF name NOT IN ('history', 'ledger') THEN
      EXECUTE format('GRANT UPDATE, DELETE ON %I TO @role', name);
    END IF;
  END LOOP;
END $$;
GRANT USAGE ON SCHEMA spec_kit_memory TO @role;
GRANT SELECT ON version TO @role;
