"""The schema of the synthetic credit data, the same for every size and seed."""

from __future__ import annotations

from robustcf.schema.schema import Feature, Schema

EMPLOYMENT = ("permanent", "public service", "retired", "self-employed", "temporary", "unemployed")
HOUSING = ("own", "rent", "with family")
MARITAL = ("divorced", "married", "single")
AGES = range(18, 76)
DURATIONS = range(6, 85, 6)
MONTHS_EMPLOYED = range(481)
EXISTING_LOANS = range(6)
LATE_PAYMENTS = range(9)

# fmt: off
SCHEMA = Schema(
    (
        Feature("age", "discrete", "increase", values=tuple(AGES), unit="years", label="Age"),
        Feature("sex", "binary", "fixed", values=("female", "male"), label="Sex"),
        Feature("marital_status", "categorical", "fixed", values=MARITAL, label="Marital status"),
        Feature("employment", "categorical", values=EMPLOYMENT, label="Employment"),
        Feature(
            "months_employed", "discrete", "increase",
            values=tuple(MONTHS_EMPLOYED), unit="months", label="Time with the employer",
        ),
        Feature("housing", "categorical", values=HOUSING, label="Housing"),
        Feature(
            "income", "continuous",
            low=0, high=10_000, lower=0, step=10, unit="EUR", label="Net income per month",
        ),
        Feature(
            "savings", "continuous",
            low=0, high=60_000, lower=0, step=100, unit="EUR", label="Savings",
        ),
        Feature(
            "loan_amount", "continuous",
            low=500, high=40_000, lower=500, upper=40_000, step=100, unit="EUR", label="Loan asked for",
        ),
        Feature(
            "duration", "discrete", values=tuple(DURATIONS), unit="months", label="Duration of the loan"
        ),
        Feature("existing_loans", "discrete", "decrease", values=tuple(EXISTING_LOANS), label="Other loans"),
        Feature(
            "late_payments", "discrete", "decrease",
            values=tuple(LATE_PAYMENTS), label="Late payments in the last year",
        ),
        Feature("guarantor", "binary", values=("no", "yes"), label="Has a guarantor"),
    )
)
# fmt: on
