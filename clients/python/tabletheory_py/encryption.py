from theorydb_py.encryption import *
