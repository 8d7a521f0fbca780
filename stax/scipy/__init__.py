"""SciPy's functions on arrays and traced values."""

from stax.scipy import cluster as cluster
from stax.scipy import fft as fft
from stax.scipy import integrate as integrate
from stax.scipy import interpolate as interpolate
from stax.scipy import linalg as linalg
from stax.scipy import ndimage as ndimage
from stax.scipy import optimize as optimize
from stax.scipy import signal as signal
from stax.scipy import sparse as sparse
from stax.scipy import special as special
from stax.scipy import stats as stats
