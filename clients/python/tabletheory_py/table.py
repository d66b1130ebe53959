from theorydb_py.table import *
