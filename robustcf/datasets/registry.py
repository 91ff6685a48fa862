"""The paper's eight data sets: file names, sizes, contents and hashes."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from robustcf.datasets.dataset import DatasetError
from robustcf.datasets.typed_csv import read_typed_csv

SYNTHETIC = "synthetic-credit"


@dataclass(frozen=True)
class Source:
    """One published file.

    Parameters
    ----------
    file : str
        The file's name in the authors' folder. In lower case and without `.csv` it is the data set's name.
    rows, features : int
        The number of rows and features, without the label and the three header lines.
    size : int
        The size in bytes.
    sha256 : str
        The SHA-256 digest.
    title, origin : str
        A title and the origin, for display.
    exact : bool
        Whether the digest is that of the authors' file. If not, a download is checked by its rows and
        columns.

    Examples
    --------
    >>> PAPER_SETS["german-credit"].rows
    1000
    """

    file: str
    rows: int
    features: int
    size: int
    sha256: str
    title: str
    origin: str
    exact: bool = True

    @property
    def name(self) -> str:
        return self.file.removesuffix(".csv").lower()

    def genuine(self, path: Path) -> bool:
        """Whether the file has the known size and SHA-256."""
        if path.stat().st_size != self.size:
            return False
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == self.sha256

    def problem(self, path: Path) -> str | None:
        """Return why a downloaded file cannot be used, or None."""
        if self.genuine(path):
            return None
        if self.exact:
            size = path.stat().st_size
            if size != self.size:
                return f"it has {size} bytes, not {self.size}"
            return f"its SHA-256 is not {self.sha256}"
        try:
            data = read_typed_csv(path)
        except DatasetError as error:
            return f"it is not typed CSV ({error})"
        if (len(data), len(data.schema)) != (self.rows, self.features):
            content = f"{len(data)} rows of {len(data.schema)} features"
            return f"it has {content}, not {self.rows} of {self.features}"
        return None


def find(name: str, registry: Mapping[str, Source]) -> Source:
    """Return the source of this name.

    The error for an unknown name suggests a similar one.
    """
    if name.lower() in registry:
        return registry[name.lower()]
    near = difflib.get_close_matches(name.lower(), [*registry, SYNTHETIC], n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join([*registry, SYNTHETIC])}"
    raise DatasetError(f"no data set is called {name!r}; {hint}")


# fmt: off
_SOURCES = (
    Source(
        "Adult.csv", 45222, 11, 1235216,
        "809228d9b0240d0eea635009d9a80dc4628569d437b5673e21df4dc61bae56b7",
        "Adult: income above 50,000 dollars", "UCI, pre-processed by the paper's authors",
    ),
    Source(
        "COMPAS.csv", 5278, 5, 63978,
        "84dfccc4f1cc803a645b837a181cd65d5eb699f3f13c3fae35c6fc31efc8d3bf",
        "COMPAS: new offence within two years", "ProPublica, pre-processed by the paper's authors",
    ),
    Source(
        "Credit-Card-Default.csv", 29623, 14, 1108925,
        "8b4b6cd32ed4e67532b550735e40a7c1f3237e19f7fc1f0d5b276aeb65bb4463",
        "Credit Card Default: next payment made", "UCI, pre-processed by the paper's authors",
    ),
    Source(
        "German-Credit.csv", 1000, 9, 38407,
        "d30254193a5a664ead06980969f99b1e13afbcabf1d57dbc9d7450c30aa6ea26",
        "German Credit: good credit risk", "UCI, pre-processed by the paper's authors",
    ),
    Source(
        "OnlineNewsPopularity.csv", 39644, 47, 14310393,
        "263475ce844815e1db4a605068cc5e636124a9ee2f14d9ceb627c63d456d710f",
        "Online News Popularity: shared 1,400 times or more",
        "UCI, typed anew to the paper's counts; the authors' own file may differ", exact=False,
    ),
    Source(
        "Phishing.csv", 11055, 30, 686104,
        "b2d29d93212da3cbaee7dfee7afe9a856e9658210e5032d70a4e7e33cc4543da",
        "Phishing: the web site is genuine", "UCI, pre-processed by the paper's authors",
    ),
    Source(
        "Spambase.csv", 4601, 57, 698975,
        "2dd66d0b5b9c144fe82cfcba4cc13f0e5f43e4cfeadd3a7c81ee94c6ca177b3b",
        "Spambase: the message is spam", "UCI, typed by the paper's authors",
    ),
    Source(
        "Students-Performance.csv", 395, 30, 39853,
        "f00c83e2618d29b09f7fb49972b94a45b7a87989d52a8e5267391bd266b5d635",
        "Students Performance: good final mark", "UCI, pre-processed by the paper's authors",
    ),
)
# fmt: on

PAPER_SETS: Mapping[str, Source] = {source.name: source for source in _SOURCES}
