"""theorydb_py by the name that TableTheory 2 gives its package: the same modules, functions and classes.

The other files here, and the stub of this one, are for type checkers and editors; they
are not executed.
"""

from theorydb_py._alias import alias

alias(__name__)
