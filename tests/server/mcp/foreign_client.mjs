// A client that is not ours and not Python's: it lists the tools, searches and fetches.
//   node foreign_client.mjs FOLDER_OF_SDK ADDRESS | COMMAND [ARGUMENT …]
import { pathToFileURL } from "node:url";

const [sdk, first, ...rest] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${sdk}/dist/esm/client/${name}.js`));
const { Client } = await load("index");
let transport;
if (first.startsWith("http://")) {
  const { StreamableHTTPClientTransport } = await load("streamableHttp");
  transport = new StreamableHTTPClientTransport(new URL(first));
} else {
  const { StdioClientTransport } = await load("stdio");
  transport = new StdioClientTransport({ command: first, args: rest, env: process.env });
}
const client = new Client({ name: "foreign", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const found = await client.callTool({ name: "search", arguments: { query: "spare fuse" } });
const hit = found.structuredContent.results[0];
const page = await client.callTool({ name: "fetch", arguments: { id: hit.id } });
const uri = `smartcrawl://page/${hit.number}`;
const resource = await client.readResource({ uri });
let refused;
try {
  refused = await client.callTool({ name: "search", arguments: { query: 7 } });
} catch (error) {
  refused = { isError: true, thrown: String(error) };
}
console.log(
  JSON.stringify({
    server: client.getServerVersion().name,
    tools: tools.map((tool) => tool.name),
    hit,
    page: page.structuredContent,
    resource: resource.contents[0].text,
    refused: refused.isError,
  }),
);
await client.close();
