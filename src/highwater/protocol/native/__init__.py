"""The hot messages as native classes: Python source made from their declarations, for mypyc to compile.

Without it everything works the same, on the functions that `codec` makes while the program runs.
"""
