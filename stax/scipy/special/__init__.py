"""Special functions, under SciPy's names; elementwise, with derivatives.

Input: arrays or traced values; integers become floating.  Output: the function's values.  Those
that SciPy computes need it installed; it is imported at the first use of one.
"""

from stax.nn.normalisation import logsumexp as logsumexp
from stax.scipy.special.combinatorics import *  # noqa: F403 - its __all__ is the list of names
from stax.scipy.special.functions import *  # noqa: F403 - its __all__ is the list of names
from stax.scipy.special.harmonics import *  # noqa: F403 - its __all__ is the list of names
