"""The auditor's own table, model and config.

They take precedence over the manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustcf.forest.arrays import ForestError
from robustcf.forest.forest import Forest
from robustcf.schema.schema import Schema, SchemaError
from robustcf.support.documents import DocumentError, parse_toml
from robustcf.verify import Findings

from ..inputs.config import AuditConfig, Model, SweepConfig, Training, config_as_json, parse
from ..inputs.errors import BadInput
from .customers import CustomerSource

# These keys do not affect any answer.
FREE = (
    "output",
    "shared",
    "shard",
    "solver.memory_limit",
    "solver.threads",
    "solver.affinity",
    "solver.licence",
)
# The auditor may have the same file at another path; its content is compared instead.
PATHS = (
    "previous",
    "model.forest",
    "model.schema",
    "model.file",
    "customers.data",
    "training.data",
    "training.later",
)


@dataclass(frozen=True)
class Auditor:
    """The auditor's own inputs, each optional; with `reads` False no table is read."""

    customers: str | None = None
    forest: str | None = None
    config: str | None = None
    reads: bool = True
    trust_pickle: bool = False


NO_OWN_INPUTS = Auditor()


class Inputs:
    """The inputs to compare a run with: the auditor's if given, else the manifest's."""

    def __init__(self, auditor: Auditor, kind: str) -> None:
        self.auditor, self.kind = auditor, kind
        self.config: Any = None if auditor.config is None else read_own_config(auditor.config, kind)
        self.forest: Forest | None = None
        self.schema: Schema | None = None
        if kind == "audit":
            self._open_model()
        elif auditor.customers is not None or auditor.forest is not None:
            raise BadInput("the run is a sweep: --customers and --forest do not apply; use --config")

    def _open_model(self) -> None:
        from ..inputs.model_file import model_and_schema, open_model

        try:
            if self.config is not None:
                model: Model = self.config.model
                self.forest, self.schema, _ = model_and_schema(model, self.config.training)
            if self.auditor.forest is not None:
                opened = open_model(self.auditor.forest, self.auditor.trust_pickle)
                self.forest = opened.forest
        except (ForestError, SchemaError, ValueError) as error:
            raise BadInput(str(error)) from None

    def where(self, config: Mapping[str, Any]) -> CustomerSource:
        """Return the customer table.

        Id and cohort columns come from the auditor's config if given.
        """
        settings = config["customers"] if self.config is None else config_as_json(self.config)["customers"]
        address = self.auditor.customers
        if address is None and self.config is not None:
            address = self.config.customers.data
        return CustomerSource(
            str(settings["data"]) if address is None else address,
            settings.get("id"),
            tuple(settings.get("cohort") or ()),
            trusted=address is not None,
        )

    def training(self, config: Mapping[str, Any]) -> Training | None:
        """Return the training table, or None if the run has none."""
        if self.config is not None:
            own: Training | None = self.config.training
            return own
        stored = config.get("training")
        if not isinstance(stored, Mapping) or not all(
            isinstance(stored.get(k), str) for k in ("data", "label")
        ):
            return None
        return Training(stored["data"], stored["label"])  # `later` is not needed to check a run

    def check(self, manifest: Mapping[str, Any], findings: Findings) -> None:
        """Compare the run's forest, schema and config with the auditor's."""
        for key, own in (("forest_hash", self.forest), ("schema_hash", self.schema)):
            if own is not None and manifest.get(key) != own.fingerprint:
                what = key.removesuffix("_hash")
                findings.add("auditor", f"the run's {what} differs from the auditor's (manifest.json: {key})")
        if self.config is not None:
            for key, stored, wanted in differences(manifest.get("config", {}), config_as_json(self.config)):
                findings.add("auditor", f"config: {key}: stored {stored}, the auditor has {wanted}")


def read_own_config(path: str, kind: str) -> Any:
    """Read the auditor's config.

    Check keys and types (`read_config` would load the solvers).
    """
    file = Path(path)
    try:
        document = parse_toml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    except (DocumentError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not a TOML file: {error}") from None
    shape: type[Any] = AuditConfig if kind == "audit" else SweepConfig
    return parse(shape, document, path, base=file.parent)


def differences(stored: Any, own: Any, at: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the keys with different values in two configs, and both values.

    Ignore file paths.
    """
    from robustcf.verify.findings import short

    if at in FREE:
        return
    if isinstance(stored, Mapping) and isinstance(own, Mapping):
        for key in sorted({*stored, *own}):
            yield from differences(stored.get(key), own.get(key), f"{at}.{key}" if at else key)
        return
    if at in PATHS:
        stored, own = stored is not None, own is not None
    if type(stored) is not type(own) or stored != own:
        yield at, short(stored), short(own)
