"""The self-contained HTML report: plain values in, one page out. Reads no file and asks no network."""

from robustcf.report.content import Report
from robustcf.report.page import render

__all__ = ["Report", "render"]
