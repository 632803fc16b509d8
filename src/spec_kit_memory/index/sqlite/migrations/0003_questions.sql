-- Questions that a memory says it answers are passages of their own: their text stands here, and their lines are
-- those of the section that they lead to.

ALTER TABLE passage ADD COLUMN question TEXT NOT NULL DEFAULT '';
