from theorydb_py import *
from theorydb_py import __version__ as __version__
