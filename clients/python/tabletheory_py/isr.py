from theorydb_py.isr import *
