from theorydb_py.aio import *
