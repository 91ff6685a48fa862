"""Read the user's model: a forest folder, a skops file, or a trusted pickle."""

from __future__ import annotations

import hashlib
import io
import warnings
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from robustcf import Forest, Judge, Schema, SchemaError
from robustcf.forest.decision import Decision
from robustcf.forest.sklearn import unsupported
from robustcf.judge import DecidingJudge
from robustcf.pipeline.read import ReadModel, read_model
from robustcf.support.documents import DocumentError, parse_toml

from ..run.forests import open_forest
from .boosted_file import BOOSTED, load_boosted
from .config import Model, Training
from .errors import BadInput, one_line
from .secrets import without_secrets
from .tables import read_table
from .uri import is_local, open_filesystem

FILES = (".skops", ".joblib", ".pkl", ".pickle", *BOOSTED)
# Types allowed in a skops file beyond those that skops trusts: they hold data or name other types.
ALLOWED = {
    "builtins.object",
    "collections.OrderedDict",
    "functools.partial",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "numpy.dtype",
    "numpy.floating",
    "numpy.generic",
    "numpy.inexact",
    "numpy.integer",
    "numpy.number",
    "pandas.CategoricalDtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
    "sklearn.utils.validation.check_array",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
}
# Functions by which a tuned threshold was chosen; nothing calls them here.
SCORES = ("sklearn.metrics._classification.", "sklearn.metrics._ranking.")


@dataclass(frozen=True)
class ModelFile:
    """A model's file as bytes; each worker opens it.

    Objects from Ray's store are read-only, and a scikit-learn model must be writable. So a worker gets
    the file and opens it. The bytes are a numpy array, which Ray shares without copying.
    """

    name: str
    content: np.ndarray = field(repr=False, compare=False)
    digest: str
    trust_pickle: bool
    decision: Decision | None = None  # the run's decision: the model's own, or a cut-off of the config

    def open(self) -> Any:
        """Load the scikit-learn model."""
        return _loaded(self.content.tobytes(), self.name, self.trust_pickle)


@dataclass(frozen=True)
class OpenedModel:
    """A model and its address.

    `read` and `file` are None for a forest folder, which has no raw columns.
    """

    address: str
    forest: Forest
    read: ReadModel | None
    file: ModelFile | None = None

    def schema(self, address: str | None = None, data: pd.DataFrame | None = None) -> Schema:
        """Return the schema: from the schema file, else the model, else the data."""
        if self.read is not None and address is not None:
            return self.read.schema(data, _document(address), without_secrets(address))
        if self.read is not None:
            return self.read.schema(data)
        if address is not None:
            return read_schema(address)
        raise BadInput(f"{without_secrets(self.address)}: a forest folder also needs a schema file")


def open_model(address: str, trust_pickle: bool = False) -> OpenedModel:
    """Read a model: a forest folder, a skops file, or a pickle if the user trusts it.

    Raises
    ------
    BadInput
        If the model cannot be read, or is a pickle and `trust_pickle` is false.
    """
    if not address.lower().endswith(FILES) and not _is_file(address):
        return OpenedModel(address, open_forest(address), None)
    shown, content = without_secrets(address), _bytes(address)
    read = read_model(_loaded(content, shown, trust_pickle, warn=True))
    digest = hashlib.sha256(content).hexdigest()
    raw = np.frombuffer(content, dtype=np.uint8)
    file = ModelFile(shown, raw, digest, trust_pickle, read.forest.decision)
    return OpenedModel(address, read.forest, read, file)


def _loaded(content: bytes, shown: str, trust_pickle: bool, warn: bool = False) -> Any:
    """Load the model.

    With `warn`, say on stderr if another scikit-learn version wrote it.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if _is_skops(content):
            model = _load_skops(content, shown)
        elif shown.lower().endswith(BOOSTED):
            model = load_boosted(content, shown)
        elif trust_pickle:
            model = _load_pickle(content, shown)
        else:
            raise BadInput(
                f"{shown}: a pickle can run any code when it is loaded. Store the model with skops or, if "
                "you trust the file, use --trust-pickle (in a config: trust_pickle = true under [model])"
            )
    for warning in caught if warn else ():
        if type(warning.message).__name__ == "InconsistentVersionWarning":
            words = str(warning.message).split(". ")[0]
            typer.echo(f"robustcf: {one_line(f'{shown}: {words}')}", err=True)
            break
    return model


_judges: dict[tuple[str, str, Decision | None], Judge] = {}


def judge_of(file: ModelFile, schema: Schema) -> Judge:
    """Return the model as the judge of raw rows; each process opens the file once."""
    key = (file.digest, schema.fingerprint, file.decision)
    if key not in _judges:
        _judges.clear()
        read = read_model(file.open())
        judge = read.judge(schema)
        if file.decision != read.forest.decision:
            judge = DecidingJudge(judge, read.forest.with_decision(file.decision))
        _judges[key] = judge
    return _judges[key]


def model_and_schema(model: Model, training: Training | None) -> tuple[Forest, Schema, ModelFile | None]:
    """Return the forest, the schema and the model file of a config's `[model]`.

    Ranges that the model does not define come from the training rows. The file is None for a forest
    folder.
    """
    address = model.forest if model.file is None else model.file
    assert address is not None  # the config was checked
    opened = open_model(address, model.trust_pickle)
    data = None
    if opened.read is not None and training is not None and not is_whole(model.schema, opened.read):
        data = raw_rows(training.data, opened.read)
    schema = opened.schema(model.schema, data)
    forest = opened.forest.deciding(model.favourable, model.cutoff, model.score_of, model.decision)
    return forest, schema, opened.file and replace(opened.file, decision=forest.decision)


def read_schema(address: str) -> Schema:
    """Read a schema file from any address."""
    return Schema.from_toml(_bytes(address), name=without_secrets(address))


def raw_rows(address: str, read: ReadModel) -> pd.DataFrame:
    """Read the columns of a table that a model uses."""
    frame: pd.DataFrame = read_table(address, list(dict.fromkeys(t.name for t in read.tracks))).to_pandas()
    return frame


def is_whole(address: str | None, read: ReadModel) -> bool:
    """Whether a schema file describes every column, so that no data need be read."""
    if address is None:
        return False
    tables = _document(address).get("feature", [])
    described = {t.get("name") for t in tables if isinstance(t, dict) and "kind" in t}
    return described >= {track.name for track in read.tracks}


def _document(address: str) -> dict[str, Any]:
    try:
        return parse_toml(_bytes(address).decode("utf-8"))
    except (DocumentError, UnicodeDecodeError) as error:
        raise SchemaError(f"{without_secrets(address)}: not a TOML file: {error}") from None


def _is_file(address: str) -> bool:
    return is_local(address) and Path(open_filesystem(address)[1]).is_file()


def _bytes(address: str) -> bytes:
    filesystem, path = open_filesystem(address)
    try:
        with filesystem.open_input_stream(path) as stream:
            content: bytes = stream.read()
            return content
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None


def _is_skops(content: bytes) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return "schema.json" in archive.namelist()
    except zipfile.BadZipFile:
        return False


def _load_skops(content: bytes, shown: str) -> Any:
    import skops.io

    try:
        untrusted = set(skops.io.get_untrusted_types(data=content))
        unknown = sorted(name for name in untrusted - ALLOWED if not name.startswith(SCORES))
        if not unknown:
            return skops.io.loads(content, trusted=sorted(untrusted))
    except Exception as error:  # a broken file can raise any exception
        raise BadInput(f"{shown}: not a readable skops file: {type(error).__name__}: {error}") from None
    models = [name.rpartition(".")[2] for name in unknown if name.endswith(("Classifier", "Regressor"))]
    if models:  # not a matter of safety: the model itself is not supported
        raise BadInput(f"{shown}: {unsupported(models[0])}")
    raise BadInput(f"{shown}: contains types that are not allowed: {', '.join(unknown)}")


def _load_pickle(content: bytes, shown: str) -> Any:
    import joblib

    try:
        return joblib.load(io.BytesIO(content))
    except Exception as error:  # a pickle can run any code and raise any exception
        raise BadInput(f"{shown}: cannot be loaded: {type(error).__name__}: {error}") from None
