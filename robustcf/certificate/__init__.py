"""Certificates: fresh forests test whether a point survives retraining (docs/certificates.md)."""
