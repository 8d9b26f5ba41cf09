"""The shipped broker in one thread and in virtual time, where a seed decides every delay, loss and crash.

`world.py` lists what is swapped. `docs/simulator.md` says how it works and how a failure is replayed.
"""
