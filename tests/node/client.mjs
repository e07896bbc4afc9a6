// Drives an MCP server with the official TypeScript SDK and prints what it saw as one JSON document.
// usage: node client.mjs '{"url": ..., "token": ...}' | '{"command": ..., "args": [...], "cwd": ...}'; "heard" names a file that is
// written when a progress arrives
import { writeFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const asked = JSON.parse(process.argv[2]);
const transport = asked.url
  ? new StreamableHTTPClientTransport(new URL(asked.url), {
      requestInit: { headers: asked.token ? { Authorization: `Bearer ${asked.token}` } : {} }
    })
  : new StdioClientTransport({ command: asked.command, args: asked.args, cwd: asked.cwd, env: process.env, stderr: 'inherit' });
const client = new Client({ name: 'tests', version: '1' });
const seen = { tools: [], calls: [], progress: [], pages: 0 };
try {
  await client.connect(transport);
  seen.server = client.getServerVersion();
  seen.instructions = client.getInstructions();
  seen.capabilities = client.getServerCapabilities();
  let cursor;
  do {
    const page = await client.listTools(cursor ? { cursor } : {});
    seen.tools.push(...page.tools);
    seen.pages += 1;
    cursor = page.nextCursor;
  } while (cursor);
  for (const call of asked.calls ?? []) {
    const onprogress = told => {
      seen.progress.push(told);
      if (asked.heard) writeFileSync(asked.heard, 'heard');
    };
    seen.calls.push(await client.callTool(call, undefined, { onprogress }));
  }
  await client.close();
} catch (error) {
  seen.error = String(error);
}
console.log(JSON.stringify(seen));
process.exit(0);
