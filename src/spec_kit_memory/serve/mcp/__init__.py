"""How does an agent's host talk to a workspace? Over MCP."""
