"""HTTP: the one client, with allowed hosts, pinned addresses, one deadline, a size limit, retries
and masking.

`client.HttpClient` sends for HTTP tools and model clients; `custom_client.send` uses a pack
author's own `httpx.Client` under the same limits. Every failure leaves this package as one of
`base.errors`, with secrets masked.
"""
