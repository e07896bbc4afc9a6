"""Tools made from documents of other formats (`formats.import_document`) or a curl command
(`curl.import_curl`).

Both are pure: nothing is fetched. The bodies they return are those of PUT /bundles and PUT
.../tools.
"""
