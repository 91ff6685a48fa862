"""Small helpers of the whole library: compiled functions and documents from files."""
