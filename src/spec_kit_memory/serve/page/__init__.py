"""How does a person see, assess and correct what the agents know? Pages of HTML over a workspace."""
