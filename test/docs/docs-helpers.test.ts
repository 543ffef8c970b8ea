import assert from "node:assert/strict";
import { startApp, type TestApp } from "../support/app/app.ts";
import { runPrinted } from "../support/documents/commands.ts";
import { blocksOf } from "../support/documents/steps.ts";
import { textOf } from "../support/documents/documents.ts";
import { readSourceFiles } from "../support/source/source-files.ts";

/** The functions of that name which a document defines in a block of commands. */
const functionsOf = (path: string, name: string): string[] =>
  blocksOf(textOf(path)).flatMap(({ info, text }) =>
    info === "sh run" ? (text.match(new RegExp(`^${name}\\(\\) \\{\\n[^]*?^\\}$`, "gm")) ?? []) : [],
  );

const documents = readSourceFiles().filter(({ path }) => path.endsWith(".md"));
const definitions = (name: string) => documents.flatMap(({ path }) => functionsOf(path, name));

describe("the helpers of the guides", () => {
  let api: TestApp;
  before(async () => (api = await startApp()));

  const run = async (script: string) => {
    const printed = runPrinted(script, { URL: api.url, KEY: "svc_live_wrong", TOKEN: "wrong" });
    return { code: await printed.ended, text: printed.output() };
  };

  it("show what the server answers when it refuses, also where its answer goes elsewhere", async () => {
    const apis = definitions("api");
    assert.ok(apis.length >= 6);
    for (const helper of new Set(apis)) {
      const { code, text } = await run(`${helper}\napi GET /players > /dev/null`);
      assert.equal(code, 1);
      assert.match(text, /"reason":"API_KEY_INVALID"/);
    }
  });

  it("show an answer that has no such field, and fail", async () => {
    const fields = definitions("field");
    assert.ok(fields.length >= 6);
    for (const helper of new Set(fields)) {
      const ask = `curl -sS "$URL/api/v1/projects" -H "Authorization: Bearer $TOKEN"`;
      const { code, text } = await run(`${helper}\nPROJECT=$(${ask} | field id)`);
      assert.equal(code, 1);
      assert.match(text, /"code":"UNAUTHORIZED"/);
      const found = await run(`${helper}\necho '{"id": "p-1"}' | field id`);
      assert.deepEqual(found, { code: 0, text: "p-1\n" });
    }
  });
});
