"""A document of any known format -> the draft of a bundle. Pure; nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.records import collector_paused
from onetool_ipy.bundles.importing.document import ImportNotes, as_dict, parse_document
from onetool_ipy.bundles.importing.draft import BundleDraft, ImportRequest
from onetool_ipy.bundles.importing.openapi import import_openapi
from onetool_ipy.bundles.importing.postman import import_postman, is_postman

_PLAIN = ImportRequest()


@collector_paused()
def import_document(
    source: bytes | str | Mapping[str, Any], request: ImportRequest = _PLAIN
) -> BundleDraft:
    """Import a document; raises InvalidRequest if its format is unknown or it has no usable
    server."""
    notes = ImportNotes()
    root = parse_document(source, notes)
    if is_postman(root):
        return import_postman(root, notes, request)
    if "entries" in as_dict(root.get("log")):
        raise InvalidRequest(
            "HAR files are not imported. In the browser, copy the request as cURL and paste that: "
            'the menu of a request in its network view has "copy as cURL".'
        )
    return import_openapi(root, notes, request)
