"""How many claims to check again in order to detect forged ones."""

from __future__ import annotations

import math


def missed(claims: int, forged: int, sample: int) -> float:
    """Return the probability that a random sample of claims contains no forged one.

    >>> round(missed(10_000, 100, 299), 3)
    0.047
    """
    if sample > claims - forged:
        return 0.0
    logs = (math.log1p(-forged / (claims - k)) for k in range(sample))
    return math.exp(sum(logs))


def sample_size(claims: int, share: float = 0.01, confidence: float = 0.95) -> int:
    """Return the smallest sample that contains a forged claim.

    It does so at this confidence, if this share of the claims is forged.

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
    """Return the smallest forged share that a sample of this size detects.

    >>> round(least_share_found(10**6, 299), 4), least_share_found(10, 10)
    (0.01, 0.1)
    """
    low, high = 1, max(claims, 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if missed(claims, middle, sample) <= 1 - confidence else (middle + 1, high)
    return low / max(claims, 1)
