from theorydb_py.transaction import *
