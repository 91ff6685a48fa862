"""Render plain values as one self-contained HTML page; reads no run files and no network."""

from robustcf.report.content import Report
from robustcf.report.page import render

__all__ = ["Report", "render"]
