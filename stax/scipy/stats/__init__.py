"""Distributions, under SciPy's names: `stats.norm.logpdf(x, loc, scale)` and alike.

Input: points and parameters, arrays or traced values.  Output: densities, probabilities and their
logarithms, differentiable in points and parameters; and what is estimated from samples.
"""

from stax.scipy.stats.continuous import *  # noqa: F403 - its __all__ is the list of names
from stax.scipy.stats.discrete import *  # noqa: F403 - its __all__ is the list of names
from stax.scipy.stats.multivariate import *  # noqa: F403 - its __all__ is the list of names
from stax.scipy.stats.samples import *  # noqa: F403 - its __all__ is the list of names
