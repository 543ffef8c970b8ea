import assert from "node:assert/strict";
import { z } from "zod";
import { callApi } from "../../src/cli/call-api.ts";
import { startReceiver } from "../support/webhooks/receiver.ts";

describe("calls of the commands", () => {
  it("come again when the server says so, and not later", async () => {
    let calls = 0;
    const server = await startReceiver((response) => {
      const isBusy = ++calls <= 200;
      response.writeHead(isBusy ? 429 : 200, { "Content-Type": "application/json", "Retry-After": "0" });
      response.end(JSON.stringify(isBusy ? { error: { message: "slowly" } } : { ok: true }));
    });
    const notes: string[] = [];
    const api = {
      url: server.url,
      headers: {},
      stop: new AbortController().signal,
      onWaiting: (note: string) => void notes.push(note),
    };
    // Two seconds before each of them would be more than a test has.
    assert.deepEqual(await callApi(api, "/limits", z.object({ ok: z.literal(true) })), { ok: true });
    assert.deepEqual(notes, ["waiting: 429 slowly", "the server is back"]);
    await server.close();
  });
});
