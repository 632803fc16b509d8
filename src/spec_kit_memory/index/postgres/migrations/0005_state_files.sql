-- What a workspace keeps in files of its state folder, for those who share a server: checkpoints, and when a tool last
-- scanned. And a fence between people, for rows that are somebody's own.
SET LOCAL search_path = spec_kit_memory, pg_temp;

CREATE TABLE state_file (
  project_id BIGINT NOT NULL,
  checkout_id BIGINT NOT NULL DEFAULT nullif(current_setting('skm.checkout', true), '')::bigint,
  kind TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  part INTEGER NOT NULL,
  data BYTEA NOT NULL,
  at BIGINT,
  PRIMARY KEY (project_id, checkout_id, kind, name, part),
  FOREIGN KEY (project_id, checkout_id) REFERENCES checkout
);
ALTER TABLE state_file ALTER data SET STORAGE EXTERNAL;  -- packed already
ALTER TABLE state_file ENABLE ROW LEVEL SECURITY;
ALTER TABLE state_file FORCE ROW LEVEL SECURITY;
CREATE POLICY own_project ON state_file USING (project_id = nullif(current_setting('skm.project', true), '')::bigint);
CREATE POLICY own_checkout ON state_file AS RESTRICTIVE USING (checkout_id = ANY
  ((SELECT string_to_array(current_setting('skm.checkout', true), ',')::bigint[])::bigint[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON state_file TO @role;

-- A transaction names its user, or that it serves the whole workspace. Where it names nobody, what is somebody's own
-- is not there.
CREATE POLICY own_user ON memory AS RESTRICTIVE USING (owner IS NULL
  OR (SELECT coalesce(current_setting('skm.everyone', true), '') = 'on')
  OR owner = (SELECT current_setting('skm.user', true)));
CREATE POLICY own_user ON session AS RESTRICTIVE USING (owner = ''
  OR (SELECT coalesce(current_setting('skm.everyone', true), '') = 'on')
  OR owner = (SELECT current_setting('skm.user', true)));
