// The official client of another language does with our server what a push does.
// Arguments: the folder of the package, the base URL, the id of the store. The key is in the environment.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, baseURL, store] = process.argv.slice(2);
const found = createRequire(pathToFileURL(`${folder}/package.json`)).resolve("openai");
const { default: OpenAI, NotFoundError, AuthenticationError, toFile } = await import(pathToFileURL(found));
const client = new OpenAI({ baseURL, maxRetries: 0 });

assert.equal((await client.vectorStores.retrieve(store)).id, store);
const names = [];
for (let n = 0; n < 7; n++) {
  const file = await toFile(Buffer.from(`text ${n}`), `page-${n}.md`, { type: "text/markdown" });
  const upload = await client.files.create({ file, purpose: "assistants" });
  assert.equal(upload.filename, `page-${n}.md`);
  assert.equal(upload.bytes, 6);
  const attributes = { smartcrawl_url: `http://docs.example/${n}` };
  const attached = await client.vectorStores.files.createAndPoll(store, { file_id: upload.id, attributes });
  assert.equal(attached.status, "completed");
  assert.deepEqual(attached.attributes, attributes);
  names.push(upload.id);
}
const listed = [];
for await (const file of client.vectorStores.files.list(store, { limit: 100 })) listed.push(file.id);
assert.deepEqual(listed, names);
const uploads = [];
for await (const file of client.files.list({ purpose: "assistants" })) uploads.push(file.id);
assert.deepEqual(uploads, names);

assert.equal((await client.vectorStores.files.delete(names[0], { vector_store_id: store })).deleted, true);
assert.equal((await client.files.delete(names[0])).deleted, true);
await assert.rejects(client.vectorStores.files.retrieve(names[0], { vector_store_id: store }), NotFoundError);
await assert.rejects(client.files.delete(names[0]), NotFoundError);
await assert.rejects(client.vectorStores.retrieve("vs_none"), NotFoundError);
const stranger = new OpenAI({ baseURL, apiKey: "sk-wrong", maxRetries: 0 });
await assert.rejects(stranger.vectorStores.retrieve(store), AuthenticationError);
console.log("done");
