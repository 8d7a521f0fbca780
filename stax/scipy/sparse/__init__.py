"""`stax.scipy.sparse`: solvers that need a matrix only through its products."""

from stax.scipy.sparse import linalg as linalg
