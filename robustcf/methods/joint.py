"""Certificates of many customers that hold together: divide δ among them before the first test."""

from __future__ import annotations

from collections.abc import Sequence

from robustcf.methods.base import Method


def joint_tests(methods: Sequence[Method], customers: int) -> int | None:
    """Return how many certificates hold together: customers times joint methods; None without such methods.

    >>> from robustcf.methods import Certified, Naive
    >>> joint_tests([Naive(), Certified(0.1, joint=True), Certified(0.05, joint=True)], 50)
    100
    """
    joint = sum(method.joint for method in methods)
    return customers * joint if joint else None


def settle_joint(methods: Sequence[Method], customers: int) -> tuple[Method, ...]:
    """Return the methods with the δ of joint ones divided among all certificates of the customers.

    Customers are those who may get a certificate. Nobody needs to know the certification forests to count
    them.

    Raises
    ------
    ValueError
        If the certification forests are too few for so many certificates, or joint methods differ in δ.
    """
    tests = joint_tests(methods, customers)
    if tests is None:
        return tuple(methods)
    deltas = sorted({method.parameter for method in methods if method.joint if method.parameter is not None})
    if len(deltas) > 1:
        raise ValueError(
            f"joint methods have delta = {deltas[0]:g} and delta = {deltas[1]:g}; they share one delta, so "
            "give all of them the same"
        )
    return tuple(method.shared_by(tests) if method.joint else method for method in methods)
