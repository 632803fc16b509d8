"""How does a person see what the agents know, judge it and put it right? Pages of HTML over a workspace."""
