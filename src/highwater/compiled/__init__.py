"""The modules of the hot path, compiled to C from the same source where a C compiler is at hand.

`highwater compile` builds them, and `highwater serve` uses them if they were built from the sources as they are.
Everything works the same without them. Nothing here imports the rest of the package.
"""
