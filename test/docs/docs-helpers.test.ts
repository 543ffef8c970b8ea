import assert from "node:assert/strict";
import { startApp, type TestApp } from "../support/app/app.ts";
import { runPrinted } from "../support/documents/commands.ts";

describe("the helpers of the guides", () => {
  let api: TestApp;
  before(async () => (api = await startApp()));

  const run = async (script: string) => {
    const env = { URL: api.url, KEY: "svc_live_wrong", TOKEN: "wrong" };
    const printed = runPrinted(`. docs/examples/guides.sh\n${script}`, env);
    return { code: await printed.ended, text: printed.output() };
  };

  it("show what the server answers when it refuses, also where its answer goes elsewhere", async () => {
    const { code, text } = await run("api GET /players > /dev/null");
    assert.equal(code, 1);
    assert.match(text, /"reason":"API_KEY_INVALID"/);
  });

  it("show an answer that has no such field, and fail", async () => {
    const ask = `curl -sS "$URL/api/v1/projects" -H "Authorization: Bearer $TOKEN"`;
    const { code, text } = await run(`PROJECT=$(${ask} | field id)`);
    assert.equal(code, 1);
    assert.match(text, /"code":"UNAUTHORIZED"/);
    const found = await run(`echo '{"user": {"id": "p-1"}}' | field user.id`);
    assert.deepEqual(found, { code: 0, text: "p-1\n" });
  });
});
