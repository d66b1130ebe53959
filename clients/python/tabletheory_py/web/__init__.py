from theorydb_py.web import *
