import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { playersOf } from "../support/players/players.ts";
import { startReceiver } from "../support/webhooks/receiver.ts";
import { hooksOf, lastOf, payloadsOf, relayed } from "../support/webhooks/webhook-app.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const WITHIN = { timeoutMs: 60_000 };
const ERASED = "Its player was erased";

describe("what webhooks were sent, or were to be, of a person who is erased", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const players = madeForEach(() => playersOf(api, tenant));

  const erase = async (id: string) => {
    const job = must(await players.post(`/players/${id}/erase`, { reason: "asked for" }), 201);
    return players.resultOf(job.id);
  };
  const aPerson = async (mark: string): Promise<string> =>
    must(await players.post("/players", { externalUserId: `ext-${mark}`, displayName: `Kay ${mark}` }), 201)
      .id;
  /** Everything of the project's feed and of what was sent of it. */
  const keptOf = async (projectId: string): Promise<string> => {
    const rows = await api.sql<{ row: string }>`
      select e::text as row from webhook_events e where project_id = ${projectId}
      union all select d::text from webhook_deliveries d where project_id = ${projectId}`;
    return rows.map(({ row }) => row).join("\n");
  };

  it("waits no more: it ends failed, is never sent, and player.erased is", async () => {
    const receiver = await startReceiver();
    try {
      const hooks = hooksOf(api, tenant);
      const id = await hooks.add(`${receiver.url}/waits`);
      await hooks.change(id, { status: "PAUSED" });
      const mark = randomUUID();
      const player = await aPerson(mark);
      const other = must(await players.post("/players", { externalUserId: "stays" }), 201);
      await players.xp(player, 5);
      await relayed(api);
      assert.deepEqual(pluck(await hooks.stored(id), "type", "status"), [
        ["player.created", "pending"],
        ["player.created", "pending"],
        ["player.xp_granted", "pending"],
      ]);
      const { rows } = await erase(player);
      assert.deepEqual([rows.webhook_events, rows.webhook_deliveries], [2, 2]);
      await relayed(api);
      await hooks.change(id, { status: "ACTIVE" });
      await eventually(() => Promise.resolve(receiver.received.length >= 2), WITHIN);
      await eventually(
        async () => (await hooks.stored(id)).every(({ status }) => status !== "pending"),
        WITHIN,
      );
      const sent = payloadsOf(receiver.received);
      assert.deepEqual(sent.map(({ type, data }) => [type, data["playerId"]]).toSorted(), [
        ["player.created", other.id],
        ["player.erased", player],
      ]);
      const stored = await hooks.stored(id);
      const xp = lastOf(stored, "player.xp_granted");
      assert.deepEqual([xp.status, xp.error, xp.attempts, xp.body], ["failed", ERASED, 0, null]);
      assert.equal(lastOf(stored, "player.erased").status, "success");
      assert.ok(!(await keptOf(tenant.projectId)).includes(mark));
    } finally {
      await receiver.close();
    }
  });

  it("goes from the log with what was answered, and from the feed, whose numbers have no gap", async () => {
    const mark = randomUUID();
    const receiver = await startReceiver((response, { body }) => response.end(`took ${body.toString()}`));
    try {
      must(await api.get("/api/v1/webhook-events", { key: tenant.key }), 200);
      const hooks = hooksOf(api, tenant);
      const id = await hooks.add(`${receiver.url}/echo`);
      const player = await aPerson(mark);
      await aPerson("stays");
      await eventually(async () => {
        const all = await hooks.stored(id);
        return all.length === 2 && all.every(({ status }) => status === "success");
      }, WITHIN);
      assert.ok((await keptOf(tenant.projectId)).split(mark).length > 4, "in the body and in the answers");
      await erase(player);
      assert.ok(!(await keptOf(tenant.projectId)).includes(mark));
      const [first, second] = await hooks.stored(id);
      assert.deepEqual([first!.status, first!.error, first!.body], ["success", null, null]);
      assert.deepEqual([first!.log.length, first!.log[0]!.responseBody], [1, null]);
      assert.match(second!.log[0]!.responseBody ?? "", /ext-stays/);

      const page = must(await api.get("/api/v1/webhook-events?cursor=e0", { key: tenant.key }), 200);
      const types = page.data.map(({ type, data }: { type: string; data: Record<string, unknown> }) =>
        type === "player.created" ? data["externalUserId"] : type,
      );
      assert.deepEqual(types.slice(0, 2), ["ext-stays", "player.erased"]);
    } finally {
      await receiver.close();
    }
  });

  it("is not sent from the commit that erases on, though the erasure has not come to it yet", async () => {
    const receiver = await startReceiver();
    try {
      const hooks = hooksOf(api, tenant);
      const id = await hooks.add(`${receiver.url}/early`);
      await hooks.change(id, { status: "PAUSED" });
      const player = await aPerson(randomUUID());
      await relayed(api);
      // As the first step of an erasure leaves the player: status and name.
      await players.query(sql`
        update players set status = 'ERASED', external_user_id = 'erased:' || id where id = ${player}`);
      await hooks.change(id, { status: "ACTIVE" });
      await eventually(
        async () => (await hooks.stored(id)).every(({ status }) => status === "failed"),
        WITHIN,
      );
      assert.equal(lastOf(await hooks.stored(id), "player.created").error, ERASED);
      assert.equal(receiver.received.length, 0);
    } finally {
      await receiver.close();
    }
  });

  it("is not told any more when it names the person among others", async () => {
    const receiver = await startReceiver();
    try {
      const hooks = hooksOf(api, tenant);
      const id = await hooks.add(`${receiver.url}/board`, { events: ["leaderboard.*", "player.merged"] });
      await hooks.change(id, { status: "PAUSED" });
      const board = { key: "xp", name: "XP", metric: { source: "XP" } };
      must(await players.post("/leaderboards", board), 201);
      const [mark, old] = [randomUUID(), randomUUID()];
      const [leader, next] = [await aPerson(mark), await aPerson(randomUUID())];
      const merged = await aPerson(old);
      must(await players.post(`/players/${leader}/merge`, { sourcePlayerId: merged }), 200);
      await players.xp(leader, 10);
      await eventually(
        async () => (await hooks.stored(id)).some(({ type }) => type === "leaderboard.new_leader"),
        WITHIN,
      );
      await players.xp(next, 20);
      await eventually(
        async () =>
          (await hooks.stored(id)).filter(({ type }) => type === "leaderboard.new_leader").length > 1,
        WITHIN,
      );
      assert.ok((await keptOf(tenant.projectId)).includes(mark));
      await erase(leader);
      const kept = await keptOf(tenant.projectId);
      assert.ok(!kept.includes(mark) && !kept.includes(old));
      const told = (await hooks.stored(id)).filter(({ body }) => body?.includes(leader));
      assert.deepEqual(told, []);
      const leaders = (await hooks.stored(id)).filter(({ type }) => type === "leaderboard.new_leader");
      // It names the one who led before, too.
      assert.ok(leaders.slice(0, 2).every(({ error, status }) => error === ERASED && status === "failed"));
    } finally {
      await receiver.close();
    }
  });

  it("cannot be sent again by anybody", async () => {
    const receiver = await startReceiver((response) => response.writeHead(500).end());
    try {
      const hooks = hooksOf(api, tenant);
      const id = await hooks.add(`${receiver.url}/again`);
      const player = await aPerson(randomUUID());
      await eventually(() => Promise.resolve(receiver.received.length === 1), WITHIN);
      await erase(player);
      await eventually(() => Promise.resolve(receiver.received.length === 2), WITHIN);
      const { token } = tenant;
      const listed = must(
        await api.get(`/api/v1/webhooks/${id}/deliveries?eventType=player.created`, { token }),
        200,
      );
      const [delivery] = listed.data;
      assert.deepEqual([delivery.status, delivery.error], ["failed", ERASED]);
      const path = `/api/v1/webhooks/${id}/deliveries/${delivery.id}`;
      assert.equal(must(await api.get(path, { token }), 200).payload, null);
      assertError(await api.post(`${path}/retry`, {}, { token }), 409, "INVALID_STATE");
      const since = new Date(Date.now() - 3_600_000).toISOString();
      const recovered = await api.post(`/api/v1/webhooks/${id}/recover`, { since }, { token });
      assert.equal(must(recovered, 200).queued, 0);
      await hooks.hurry(id);
      await relayed(api);
      assert.ok(
        payloadsOf(receiver.received)
          .slice(1)
          .every(({ type }) => type === "player.erased"),
      );
    } finally {
      await receiver.close();
    }
  });

  it("is counted before, and an export does not have it twice", async () => {
    const hooks = hooksOf(api, tenant);
    const id = await hooks.add("http://127.0.0.1:9/nobody");
    await hooks.change(id, { status: "PAUSED" });
    const player = await aPerson(randomUUID());
    await relayed(api);
    const body = { reason: "asked for", dryRun: true };
    const dry = must(await players.post(`/players/${player}/erase`, body), 201);
    const { rows } = await players.resultOf(dry.id);
    assert.deepEqual([rows.webhook_events, rows.webhook_deliveries], [1, 1]);
    const bundle = await players.resultOf(must(await players.post(`/players/${player}/export`, {}), 201).id);
    assert.equal("webhook_events" in bundle.tables, false);
    assert.ok(bundle.tables.outbox.length >= 1);
  });
});
