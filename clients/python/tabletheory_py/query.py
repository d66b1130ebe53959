from theorydb_py.query import *
