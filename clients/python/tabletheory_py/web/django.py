from theorydb_py.web.django import *
