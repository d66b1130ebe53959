from theorydb_py.lease import *
