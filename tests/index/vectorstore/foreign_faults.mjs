// The official client of another language meets a fault of our server as it would one of any server.
// Arguments: the folder of the package, the base URL, the id of the store, the name of the fault
// (faults.py). The store has four files. The key is in the environment.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, baseURL, store, fault] = process.argv.slice(2);
const found = createRequire(pathToFileURL(`${folder}/package.json`)).resolve("openai");
const sdk = await import(pathToFileURL(found));
const client = new sdk.default({ baseURL, maxRetries: 0 });
const files = client.vectorStores.files;

const upload = async (name = "page.md") =>
  client.files.create({ file: await sdk.toFile(Buffer.from("text"), name), purpose: "assistants" });
const count = async (list) => {
  let number = 0;
  for await (const _ of list) number++;
  return number;
};

const faults = {
  async busy() {
    const { id } = await upload();
    await assert.rejects(files.create(store, { file_id: id }), (error) => {
      assert(error instanceof sdk.RateLimitError);
      assert.equal(error.headers.get("retry-after"), "7");
      return true;
    });
    assert.equal(await count(files.list(store)), 4);
  },
  async stuck() {
    const { id } = await upload();
    assert.equal((await files.create(store, { file_id: id })).status, "in_progress");
    for (let n = 0; n < 5; n++)
      assert.equal((await files.retrieve(id, { vector_store_id: store })).status, "in_progress");
  },
  async broken_at_creation() {
    await assert.rejects(upload(), sdk.InternalServerError);
    assert.equal(await count(client.files.list({ purpose: "assistants" })), 4);
  },
  async cut() {
    const seen = [];
    const read = async () => {
      for await (const file of files.list(store)) seen.push(file.id);
    };
    await assert.rejects(read(), (error) => !(error instanceof sdk.APIError && error.status));
    assert.equal(seen.length, 3);
  },
  async attributes() {
    const { id } = await upload();
    const attributes = { smartcrawl_url: "x".repeat(512), number: 7, yes: true };
    assert.deepEqual((await files.create(store, { file_id: id, attributes })).attributes, attributes);
    const second = await upload();
    const long = { smartcrawl_url: "x".repeat(513) };
    const sent = files.create(store, { file_id: second.id, attributes: long });
    await assert.rejects(sent, sdk.BadRequestError);
  },
  async renamed() {
    assert.equal((await upload("page-1.md")).filename, "assistant-PAGE-1_MD.TXT");
  },
  async blunt() {
    const refused = (error) => {
      assert(error instanceof sdk.BadRequestError);
      assert.match(error.message, /not found/);
      return true;
    };
    // A connection that the server drops is no answer: the next request may need another one.
    const patient = new sdk.default({ baseURL, maxRetries: 5 }).vectorStores;
    await assert.rejects(patient.retrieve("vs_none"), refused);
    await assert.rejects(patient.files.retrieve("file-none", { vector_store_id: store }), refused);
    await assert.rejects(patient.files.delete("file-none", { vector_store_id: store }), refused);
    const attached = await patient.files.create(store, { file_id: "file-none" });
    assert.equal(attached.status, "failed");
    assert.match(attached.last_error.message, /not found/);
    assert.equal(await count(patient.files.list(store)), 5);
  },
};
await faults[fault]();

console.log("done");
