"""Is the right memory among the first five, on a project's real spec folders?"""
