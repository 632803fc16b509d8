"""What do the files say, and does the index agree?"""
