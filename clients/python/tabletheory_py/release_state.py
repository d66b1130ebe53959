from theorydb_py.release_state import *
