"""Remove credentials from addresses before they are printed or stored."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_SECRET = ("key", "secret", "token", "pass", "pwd", "sig", "credential", "auth", "sas")
_CONTAINER = ("abfs", "abfss", "wasb", "wasbs", "az")  # container@account: not a user
_IN_TEXT = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://[^\s'\"<>]+")
_PARAMETER = re.compile(rf"(?i)([?&][\w.-]*(?:{'|'.join(_SECRET)})[\w.-]*=)[^\s&'\"]+")


def is_uri(address: str) -> bool:
    return bool(_SCHEME.match(address))


def without_secrets(address: str) -> str:
    """Return a URI without user, password and secret parameters.

    >>> without_secrets("s3://me:hush@bucket/run?region=eu&secret_key=x")
    's3://bucket/run?region=eu'
    """
    if not is_uri(address):
        return address
    scheme, _, rest = address.partition("://")
    user, at, after = rest.rpartition("@")
    # A secret may contain an unquoted / ? or #, and a path may contain an @ that ends no user name.
    if at and (":" in user or "/" not in user):
        container = f"{user.partition(':')[0]}@" if scheme.lower() in _CONTAINER else ""
        rest = container + after
    place, _, parameters = rest.partition("#")[0].partition("?")
    query = [(k, v) for k, v in parse_qsl(parameters) if not any(s in k.lower() for s in _SECRET)]
    return f"{scheme}://{place}" + (f"?{urlencode(query, safe=':/')}" if query else "")


def scrubbed(text: str) -> str:
    """Return a text with the secrets removed from every URI in it.

    >>> scrubbed("cannot open 's3://me:hush@bucket/run': no route")
    "cannot open 's3://bucket/run': no route"
    """
    return _PARAMETER.sub(r"\1***", _IN_TEXT.sub(lambda found: without_secrets(found[0]), text))
