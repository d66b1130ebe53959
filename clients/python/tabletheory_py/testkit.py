from theorydb_py.testkit import *
