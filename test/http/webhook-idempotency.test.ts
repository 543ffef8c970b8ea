import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { startReceiver } from "../support/webhooks/receiver.ts";
import { hooksOf } from "../support/webhooks/tenant.ts";
import { madeOnce } from "../support/made.ts";

describe("requests about webhooks that are sent again under their idempotency key", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const post = (path: string, body: object, key: string): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { token: tenant.token, headers: { "X-Idempotency-Key": key } });
  /** Whether a text is readable anywhere in the database. */
  const isPlain = async (text: string): Promise<boolean> =>
    api.app.transact(async ({ db }) => {
      const tables = await sql<{ name: string }>`
        select table_name as name from information_schema.tables
        where table_schema = 'public' and table_type = 'BASE TABLE'`.execute(db);
      for (const { name } of tables.rows) {
        const found = await sql`
          select 1 from ${sql.table(name)} t where position(${text} in t::text) > 0 limit 1`.execute(db);
        if (found.rows.length > 0) return true;
      }
      return false;
    });

  it("show the secret that was made the first time, which is kept sealed", async () => {
    const body = { url: "http://127.0.0.1:9/sealed", events: ["player.created"] };
    const [key, other] = [randomUUID(), randomUUID()];
    const made = must(await post("/webhooks", body, key), 201);
    assert.match(made.secret, /^whsec_/);
    assert.deepEqual(must(await post("/webhooks", body, key), 201), made);
    const path = `/webhooks/${made.id}/rotate-secret`;
    const rotated = must(await post(path, {}, other), 200);
    assert.notEqual(rotated.secret, made.secret);
    assert.deepEqual(must(await post(path, {}, other), 200), rotated);
    for (const secret of [made.secret, rotated.secret]) assert.equal(await isPlain(secret), false);
    assert.equal(await isPlain("http://127.0.0.1:9/sealed"), true, "the look finds what is there");
  });

  it("send a test once, and do not take what is on its way for its end", async () => {
    const held: (() => void)[] = [];
    const receiver = await startReceiver((response) => void held.push(() => response.end("done")));
    try {
      const id = await hooksOf(api, tenant).add(`${receiver.url}/once`);
      const key = randomUUID();
      const first = post(`/webhooks/${id}/test`, {}, key);
      await eventually(() => Promise.resolve(held.length === 1));
      const early = await post(`/webhooks/${id}/test`, {}, key);
      assert.deepEqual([early.status, early.body.error?.reason], [409, "IDEMPOTENCY_IN_PROGRESS"]);
      held[0]!();
      const result = must(await first, 200);
      assert.deepEqual([result.success, result.responseBody], [true, "done"]);
      assert.deepEqual(must(await post(`/webhooks/${id}/test`, {}, key), 200), result);
      assert.equal(receiver.received.length, 1);
    } finally {
      for (const end of held) end();
      await receiver.close();
    }
  });
});
