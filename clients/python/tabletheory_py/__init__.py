"""theorydb_py by the name that TableTheory 2 gives its package: the same modules, functions and classes.

Type checkers read the stubs beside this file.
"""

from theorydb_py._alias import alias

alias(__name__)
