"""How do people and agents reach a workspace?"""
