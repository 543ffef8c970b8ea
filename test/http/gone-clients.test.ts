import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";

describe("a request whose client has gone", () => {
  it("while it waited for the database changes nothing", async () => {
    const api = await startApp();
    const { key } = await aTenant(api);
    const create = (externalUserId: string, signal: AbortSignal | null = null): Promise<Response> =>
      fetch(`${api.url}/api/v1/players`, {
        method: "POST",
        signal,
        headers: { "Content-Type": "application/json", "X-API-Key": key },
        body: JSON.stringify({ externalUserId }),
      });
    // What is looked up before the work is known from now on.
    assert.equal((await create(randomUUID())).status, 201);
    const count = async (): Promise<number> =>
      must(await api.get("/api/v1/players?limit=100", { key }), 200).data.length;
    const before = await count();
    const leaving = new AbortController();
    // Other requests that are answered, so that what was sent before them has arrived.
    const turn = () => fetch(`${api.url}/health/live`);
    await api.app.transact(async () => {
      const gone = assert.rejects(create(randomUUID(), leaving.signal));
      for (let turns = 0; turns < 20; turns++) await turn();
      leaving.abort();
      await gone;
      for (let turns = 0; turns < 20; turns++) await turn();
    });
    assert.equal((await create(randomUUID())).status, 201);
    await eventually(async () => (await count()) > before);
    assert.equal(await count(), before + 1);
  });
});
