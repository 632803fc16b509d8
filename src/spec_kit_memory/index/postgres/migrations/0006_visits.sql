-- Browsers that signed in to the page of a team server: whichever replica they reach next knows them.

SET LOCAL search_path = spec_kit_memory, pg_temp;

CREATE TABLE visit (
  digest TEXT COLLATE "C" PRIMARY KEY,      -- SHA-256 of the cookie
  token_id BIGINT NOT NULL REFERENCES token (id),
  until TIMESTAMPTZ NOT NULL,
  notices TEXT NOT NULL DEFAULT '[]'        -- what is shown once on the next page
);
