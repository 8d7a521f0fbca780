"""Clustering: `vq`, the assignment of points to the nearest of given centres."""

from stax.scipy.cluster import vq as vq
