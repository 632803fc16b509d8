"""How do systems that people use today do on the same data, in the same run?"""
