from theorydb_py.errors import *
