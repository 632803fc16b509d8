"""How does a person use a workspace from the shell?"""
