-- Static tokens. The operator's alone: the role of a project's transactions has no rights here.

SET LOCAL search_path = spec_kit_memory, pg_temp;

CREATE TABLE token (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest TEXT COLLATE "C" NOT NULL UNIQUE,  -- SHA-256 of the secret, which has 256 bits of its own
  subject TEXT COLLATE "C" NOT NULL,
  projects TEXT[] NOT NULL,
  role TEXT COLLATE "C" NOT NULL CHECK (role IN ('reader', 'writer', 'admin', 'operator')),
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  expires_at TIMESTAMPTZ,
  revoked_at TIMESTAMPTZ
);
