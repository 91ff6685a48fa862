"""Models from the libraries' own files: classifiers that predict, but do not know how they were trained.

A file holds trees and no parameters, so these models cannot be retrained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


class StoredXGBoost:
    """An XGBoost model from its JSON or UBJ format, as a classifier."""

    def __init__(self, content: bytes) -> None:
        import xgboost

        self._model = xgboost.XGBClassifier()
        self._model.load_model(bytearray(content))
        self.classes_ = np.asarray(self._model.classes_)
        self.n_features_in_ = int(self._model.n_features_in_)
        named = self._model.get_booster().feature_names
        if named is not None:
            self.feature_names_in_ = np.array(named, dtype=object)

    def get_booster(self) -> Any:
        return self._model.get_booster()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def predict_proba(self, X: Any) -> np.ndarray:
        scores: np.ndarray = self._model.predict_proba(X)
        return scores

    def predict(self, X: Any) -> np.ndarray:
        labels: np.ndarray = self._model.predict(X)
        return labels


class StoredLightGBM:
    """A LightGBM model from its text format, as a classifier of the labels 0 and 1."""

    def __init__(self, text: str) -> None:
        import lightgbm

        self.booster_ = lightgbm.Booster(model_str=text)
        self.classes_ = np.array([0, 1])
        self.n_features_in_ = int(self.booster_.num_feature())
        self.feature_names_in_ = np.array(self.booster_.feature_name(), dtype=object)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def predict_proba(self, X: Any) -> np.ndarray:
        columns = X.to_numpy(dtype=np.float64) if isinstance(X, pd.DataFrame) else X
        second: np.ndarray = np.asarray(self.booster_.predict(columns))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        labels: np.ndarray = self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]
        return labels
