from theorydb_py.streams import *
