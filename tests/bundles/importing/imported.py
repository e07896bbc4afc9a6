"""The tools of an imported document, called against a server of our own."""

from __future__ import annotations

import json
from typing import Any

from onetool_ipy import Toolbox
from onetool_ipy.bundles.importing.draft import BundleDraft, ImportRequest
from onetool_ipy.bundles.importing.formats import import_document
from onetool_ipy.faces import creation
from tests.harness.project import Project
from tests.net.loopback import Loopback, Seen


class ImportedTools:
    """Imports a document in which HOST stands for the server, then calls the tools made of it."""

    box: Toolbox

    def __init__(self, project: Project, server: Loopback) -> None:
        self._project, self._server = project, server
        self.host = f"127.0.0.1:{server.port}"

    def store(self, text: str, slug: str, secrets: dict[str, str]) -> BundleDraft:
        """Import a document into the bundle `slug` of a project that has the secrets."""
        draft = import_document(text.replace("HOST", self.host), ImportRequest(slug=slug))
        self._project.write("secrets.yaml", json.dumps(secrets), mode=0o600)
        self.box = self._project.open(f'version: 1\nhttp: {{allowed_hosts: ["{self.host}"]}}')
        creation.store_draft(self.box, draft)
        return draft

    def sent(self, tool: str, /, **args: Any) -> Seen:
        """Call a tool, and return the request that arrived."""
        result = self.box.call(tool, args)
        assert result.ok, result.error
        return self._server.seen[-1]
