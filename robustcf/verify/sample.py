"""How many claims must be looked at again, so that forged ones do not go unnoticed."""

from __future__ import annotations

import math


def missed(claims: int, forged: int, sample: int) -> float:
    """The chance that a random sample of the claims holds none of the forged ones.

    >>> round(missed(10_000, 100, 299), 3)
    0.047
    """
    if sample > claims - forged:
        return 0.0
    logs = (math.log1p(-forged / (claims - k)) for k in range(sample))
    return math.exp(sum(logs))


def sample_size(claims: int, share: float = 0.01, confidence: float = 0.95) -> int:
    """The least sample that holds a forged claim with this confidence, if this share is forged.

    >>> sample_size(10**6), sample_size(1000), sample_size(100)
    (299, 258, 95)
    """
    forged = max(1, math.ceil(share * claims))
    low, high = 0, claims
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if missed(claims, forged, middle) <= 1 - confidence else (middle + 1, high)
    return low


def least_share_found(claims: int, sample: int, confidence: float = 0.95) -> float:
    """The least share of forged claims that a sample of this size finds with this confidence.

    >>> round(least_share_found(10**6, 299), 4), least_share_found(10, 10)
    (0.01, 0.1)
    """
    low, high = 1, max(claims, 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if missed(claims, middle, sample) <= 1 - confidence else (middle + 1, high)
    return low / max(claims, 1)
