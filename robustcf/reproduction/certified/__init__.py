"""The experiment `certified`: do certificates keep their promise, and what do they cost?"""
