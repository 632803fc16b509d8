"""The index on PostgreSQL: one database for many machines and processes, one project per workspace."""
