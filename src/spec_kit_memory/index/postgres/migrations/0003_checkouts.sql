-- Several checkouts of one project. Where a memory lies, whether it is there and what it says belong to a checkout;
-- which memory it is, its use, links, vectors and the ledger belong to the project.
SET LOCAL search_path = spec_kit_memory, pg_temp;

CREATE TABLE checkout (
  project_id BIGINT NOT NULL REFERENCES project (id),
  id BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY,
  name TEXT COLLATE "C",                -- NULL: of before there were several; whoever comes next takes it
  PRIMARY KEY (project_id, id),
  UNIQUE (project_id, name)
);
INSERT INTO checkout (project_id) SELECT id FROM project ORDER BY id;

-- Every id that a memory of any checkout has.
CREATE TABLE identity (
  project_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (project_id, id)
);

-- Whoever owns the tables must see all rows for what follows.
DO $$
DECLARE name TEXT;
BEGIN
  FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'spec_kit_memory'::regnamespace AND relforcerowsecurity
  LOOP
    EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', name);
  END LOOP;
END $$;
INSERT INTO identity SELECT project_id, id FROM memory;

DO $$
DECLARE constraint_name TEXT; table_name TEXT;
BEGIN
  FOR constraint_name, table_name IN
    SELECT conname, conrelid::regclass::text FROM pg_constraint WHERE confrelid = 'memory'::regclass AND contype = 'f'
  LOOP
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', table_name, constraint_name);
  END LOOP;
END $$;

ALTER TABLE history DISABLE TRIGGER USER;
ALTER TABLE ledger DISABLE TRIGGER USER;
DO $$
DECLARE name TEXT;
BEGIN
  FOREACH name IN ARRAY ARRAY['memory', 'document', 'alias', 'passage', 'trigger', 'claim', 'citation', 'bad_file',
    'history', 'ledger']
  LOOP
    EXECUTE format('ALTER TABLE %I ADD checkout_id BIGINT', name);
    EXECUTE format(
      'UPDATE %I AS part SET checkout_id = checkout.id FROM checkout WHERE checkout.project_id = part.project_id', name);
    EXECUTE format('ALTER TABLE %I ALTER checkout_id SET NOT NULL, ALTER checkout_id SET DEFAULT'
      ' nullif(current_setting(''skm.checkout'', true), '''')::bigint', name);
  END LOOP;
END $$;
ALTER TABLE history ENABLE TRIGGER USER;
ALTER TABLE ledger ENABLE TRIGGER USER;

ALTER TABLE memory DROP CONSTRAINT memory_pkey, ADD PRIMARY KEY (project_id, checkout_id, id),
  ADD FOREIGN KEY (project_id, checkout_id) REFERENCES checkout;
DROP INDEX memory_live_path, memory_path, memory_fingerprint, memory_title, memory_changed, memory_content;
CREATE UNIQUE INDEX memory_live_path ON memory (project_id, checkout_id, path) WHERE presence = 'live';
CREATE INDEX memory_path ON memory (project_id, path);
CREATE INDEX memory_fingerprint ON memory (project_id, fingerprint);
CREATE INDEX memory_title ON memory (project_id, checkout_id, title);
CREATE INDEX memory_changed ON memory (project_id, checkout_id, changed);
CREATE INDEX memory_content ON memory (project_id, content_hash);
CREATE INDEX memory_identity ON memory (project_id, id);

CREATE FUNCTION name_identity() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO spec_kit_memory.identity (project_id, id) VALUES (NEW.project_id, NEW.id) ON CONFLICT DO NOTHING;
  RETURN NEW;
END $$;
CREATE TRIGGER memory_has_an_identity BEFORE INSERT ON memory FOR EACH ROW EXECUTE FUNCTION name_identity();

ALTER TABLE usage ADD FOREIGN KEY (project_id, memory_id) REFERENCES identity;
ALTER TABLE override ADD FOREIGN KEY (project_id, memory_id) REFERENCES identity;

-- A link that follows from files is one of the checkouts whose files ask for it; one made by hand is the project's.
ALTER TABLE link ADD checkouts BIGINT[] NOT NULL DEFAULT '{}',
  ADD FOREIGN KEY (project_id, source_id) REFERENCES identity,
  ADD FOREIGN KEY (project_id, target_id) REFERENCES identity,
  ADD FOREIGN KEY (project_id, claimant) REFERENCES identity;
UPDATE link SET checkouts = ARRAY[checkout.id] FROM checkout
  WHERE checkout.project_id = link.project_id AND origin <> 'hand';

ALTER TABLE document DROP CONSTRAINT document_pkey, ADD PRIMARY KEY (project_id, checkout_id, memory_id),
  ADD FOREIGN KEY (project_id, checkout_id, memory_id) REFERENCES memory;
DROP INDEX document_unembedded;
CREATE INDEX document_unembedded ON document (project_id, checkout_id, vector_status, memory_id)
  WHERE vector_status <> 'success';

ALTER TABLE alias DROP CONSTRAINT alias_pkey, ADD PRIMARY KEY (project_id, checkout_id, path),
  ADD FOREIGN KEY (project_id, checkout_id, memory_id) REFERENCES memory;
DROP INDEX alias_memory;
CREATE INDEX alias_memory ON alias (project_id, checkout_id, memory_id);

ALTER TABLE passage DROP CONSTRAINT passage_project_id_memory_id_ordinal_key,
  ADD UNIQUE (project_id, checkout_id, memory_id, ordinal),
  ADD FOREIGN KEY (project_id, checkout_id, memory_id) REFERENCES memory;

ALTER TABLE "trigger" DROP CONSTRAINT trigger_pkey, ADD PRIMARY KEY (project_id, checkout_id, memory_id, phrase),
  ADD FOREIGN KEY (project_id, checkout_id, memory_id) REFERENCES memory;

ALTER TABLE claim DROP CONSTRAINT claim_pkey, ADD PRIMARY KEY (project_id, checkout_id, memory_id, ordinal),
  ADD FOREIGN KEY (project_id, checkout_id, memory_id) REFERENCES memory;
DROP INDEX claim_target, claim_sibling;
CREATE INDEX claim_target ON claim (project_id, checkout_id, target);
CREATE INDEX claim_sibling ON claim (project_id, checkout_id, sibling);

ALTER TABLE citation DROP CONSTRAINT citation_pkey, ADD PRIMARY KEY (project_id, checkout_id, memory_id),
  ADD FOREIGN KEY (project_id, checkout_id, memory_id) REFERENCES memory;

ALTER TABLE bad_file DROP CONSTRAINT bad_file_pkey, ADD PRIMARY KEY (project_id, checkout_id, path),
  ADD FOREIGN KEY (project_id, checkout_id) REFERENCES checkout;

-- The second fence again. A transaction names the checkouts that it looks at, nearly always its own alone. What is
-- looked up once for a statement stands in a SELECT: a function would be called for every row.
DO $$
DECLARE name TEXT;
BEGIN
  FOREACH name IN ARRAY ARRAY['checkout', 'identity']
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY own_project ON %I USING (project_id = nullif(current_setting(''skm.project'', true), '''')::bigint)',
      name);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO @role', name);
  END LOOP;
  FOREACH name IN ARRAY ARRAY['memory', 'document', 'alias', 'passage', 'trigger', 'claim', 'citation', 'bad_file']
  LOOP
    EXECUTE format(
      'CREATE POLICY own_checkout ON %I AS RESTRICTIVE USING (checkout_id = ANY'
      ' ((SELECT string_to_array(current_setting(''skm.checkout'', true), '','')::bigint[])::bigint[]))', name);
  END LOOP;
  FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'spec_kit_memory'::regnamespace AND relrowsecurity
    AND relname NOT IN ('outbox', 'served')  -- which the operator, who owns them, sees for all projects
  LOOP
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
  END LOOP;
END $$;
