"""Load boosted models from the formats of their libraries, which hold data and no code."""

from __future__ import annotations

from typing import Any

from robustcf.forest.boosted.stored import StoredLightGBM, StoredXGBoost

from .errors import BadInput

BOOSTED = (".json", ".ubj", ".txt")


def load_boosted(content: bytes, shown: str) -> Any:
    """Return the model of an XGBoost file (.json, .ubj) or a LightGBM file (.txt).

    Raises
    ------
    BadInput
        If the library is not installed, or the file is not one of its models.
    """
    library = "LightGBM" if shown.lower().endswith(".txt") else "XGBoost"
    try:
        return StoredLightGBM(_text(content)) if library == "LightGBM" else StoredXGBoost(content)
    except ImportError:
        raise BadInput(f"{shown}: needs {library}; install robustcf[boosting]") from None
    except Exception as error:  # a broken file can raise any exception
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise BadInput(f"{shown}: not a model that {library} stored: {words[0]}") from None


def _text(content: bytes) -> str:
    """Return a text that starts and ends as LightGBM's; its C code may not survive another one."""
    text = content.decode("utf-8")
    if not text.startswith("tree\n") or "\nend of trees\n" not in text:
        raise ValueError("the text has no trees")
    return text
