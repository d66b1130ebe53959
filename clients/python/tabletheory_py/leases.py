from theorydb_py.leases import *
