"""SciPy's functions on arrays and traced values: `special` and `stats`."""

from stax.scipy import special as special
from stax.scipy import stats as stats
