"""Helpers for the whole library: compiled functions, and TOML and JSON documents."""
