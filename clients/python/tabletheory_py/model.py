from theorydb_py.model import *
