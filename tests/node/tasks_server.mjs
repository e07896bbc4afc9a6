// An MCP server on streamable HTTP, made with the official TypeScript SDK, whose tasks belong to no session.
// usage: node tasks_server.mjs PORT
// `report` requires a task; it ends when the plain tool `finish` is called, or when it is cancelled.
import { createServer } from 'node:http';
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const taskStore = new InMemoryTaskStore();
const taskMessageQueue = new InMemoryTaskMessageQueue();
let made = 0;

async function finish(text) {
  const { tasks } = await taskStore.listTasks();
  for (const task of tasks.filter(each => each.status === 'working')) {
    await taskStore.storeTaskResult(task.taskId, 'completed', { content: [{ type: 'text', text }] });
  }
  return tasks.map(each => each.status);
}

function server() {
  const capabilities = { tasks: { cancel: {}, requests: { tools: { call: {} } } } };
  const found = new McpServer({ name: 'tasks', version: '1' }, { capabilities, taskStore, taskMessageQueue });
  found.experimental.tasks.registerToolTask(
    'report',
    { description: 'Write a report.', inputSchema: { topic: z.string(), ttl: z.number().optional() }, execution: { taskSupport: 'required' } },
    {
      createTask: async (args, extra) => {
        made += 1;
        return { task: await extra.taskStore.createTask({ ttl: args.ttl ?? 600000, pollInterval: 50 }) };
      },
      getTask: async (_args, extra) => extra.taskStore.getTask(extra.taskId),
      getTaskResult: async (_args, extra) => extra.taskStore.getTaskResult(extra.taskId)
    }
  );
  found.registerTool('finish', { description: 'Finish all.', inputSchema: { text: z.string() } }, async ({ text }) => ({
    content: [{ type: 'text', text: JSON.stringify(await finish(text)) }]
  }));
  found.registerTool('states', { description: 'States of all tasks.', inputSchema: {} }, async () => {
    const { tasks } = await taskStore.listTasks();
    return { content: [{ type: 'text', text: JSON.stringify({ made, states: tasks.map(each => each.status) }) }] };
  });
  return found;
}

createServer(async (request, response) => {
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  const one = server();
  response.on('close', () => one.close());
  await one.connect(transport);
  await transport.handleRequest(request, response);
}).listen(Number(process.argv[2]), '127.0.0.1', () => console.log('listening'));
