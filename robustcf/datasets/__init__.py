"""Data sets: built-in synthetic credit, typed CSV files, the paper's eight."""

from robustcf.datasets.dataset import Dataset, DatasetError
from robustcf.datasets.fetch import fetch
from robustcf.datasets.named import available, describe, load
from robustcf.datasets.synthetic import synthetic_credit
from robustcf.datasets.typed_csv import read_typed_csv

__all__ = [
    "Dataset",
    "DatasetError",
    "available",
    "describe",
    "fetch",
    "load",
    "read_typed_csv",
    "synthetic_credit",
]
