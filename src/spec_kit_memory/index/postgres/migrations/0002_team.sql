-- The team server: which projects it serves, who looks after each, and what is on its way into git.

SET LOCAL search_path = spec_kit_memory, pg_temp;

-- The operator's, who owns it and sees it all. A project's transactions see how their own repository is doing.
CREATE TABLE served (
  project_id BIGINT PRIMARY KEY REFERENCES project (id),
  repository TEXT NOT NULL,             -- a git address, or a folder
  is_git BOOLEAN NOT NULL,
  branch TEXT NOT NULL,
  save_branch TEXT NOT NULL,
  hook_secret TEXT NOT NULL,
  added_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  wanted_at TIMESTAMPTZ,                -- somebody wants it read before its time
  synced_at TIMESTAMPTZ,
  branch_commit TEXT,                   -- what the index was last brought in step with
  save_commit TEXT,
  skipped TEXT NOT NULL DEFAULT '[]',   -- entries of the tree that are not read, and why
  problem TEXT,                         -- why the last round did not do all that it should
  problem_at TIMESTAMPTZ
);

-- Who reads and writes the repository of a project now.
CREATE TABLE lease (
  project_id BIGINT PRIMARY KEY REFERENCES project (id),
  holder TEXT NOT NULL,
  held_until TIMESTAMPTZ NOT NULL
);

-- Changes of files that were accepted, in the order of acceptance. Its owner, the operator, sees those of all projects.
-- What is in git stays, without its text.
CREATE TABLE outbox (
  project_id BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  id UUID NOT NULL,
  kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('write', 'edit', 'remove')),
  path TEXT COLLATE "C" NOT NULL,
  data BYTEA,                           -- of a write
  keys TEXT,                            -- of an edit: front matter, as JSON
  base TEXT COLLATE "C",                -- hash of the text that is changed; none: there was no file
  author TEXT,
  accepted_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  stage TEXT COLLATE "C" NOT NULL DEFAULT 'accepted' CHECK (stage IN ('accepted', 'in git', 'failed')),
  tries INTEGER NOT NULL DEFAULT 0,
  due_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  reason TEXT,                          -- why it is not in git yet, or will not be
  branch TEXT,
  commit TEXT COLLATE "C",
  ended_at TIMESTAMPTZ,
  PRIMARY KEY (project_id, sequence),
  UNIQUE (project_id, id)
);
CREATE INDEX outbox_path ON outbox (project_id, path, sequence);
CREATE INDEX outbox_waiting ON outbox (project_id, sequence) WHERE stage <> 'in git';

ALTER TABLE served ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_project ON served USING (project_id = nullif(current_setting('skm.project', true), '')::bigint);
GRANT SELECT (project_id, branch, save_branch, synced_at, branch_commit, save_commit, skipped, problem, problem_at)
  ON served TO @role;

ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_project ON outbox USING (project_id = nullif(current_setting('skm.project', true), '')::bigint);
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO @role;
