"""Store a fitted isolation forest as plain arrays, without pickle."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

from robustcf.methods.isolation.family import _path_lengths, _trees_of


def pack_isolation(model: Any) -> bytes:
    """Return an npz file with the trees, path lengths, offset and sample size.

    The same model gives the same bytes. `robustcf.verify.isolation` reads the file.
    """
    trees = _trees_of(model)
    arrays = {
        **trees._asdict(),
        "length": _path_lengths(model),
        "offset": np.array([model.offset_], dtype=np.float64),
        "max_samples": np.array([model.max_samples_], dtype=np.int64),
        "n_features": np.array([model.n_features_in_], dtype=np.int64),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            array = io.BytesIO()
            np.lib.format.write_array(array, np.ascontiguousarray(values), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), array.getvalue(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()
