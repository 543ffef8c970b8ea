import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aKey, aTenant, type Tenant } from "../support/app/app.ts";
import { eventually, pastEdgeOf } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Answer, type Client, must } from "../support/http/client.ts";
import { kill } from "../support/processes/process.ts";
import { twoServers, type TwoServers } from "../support/processes/two-servers.ts";

const KILLS = 5;
const GRANTS = 12;
const DAY_MS = 86_400_000;
const DAYS = 40;
const PLAYERS = ["ann", "bob", "cyd"];

describe("processes of which one is killed", () => {
  let two: TwoServers;
  let tenant: Tenant;
  let key: string;
  before(async () => {
    two = await twoServers();
  });

  const post = async (where: string, body: object, status = 201) =>
    must(await two.clients[1].post(`/api/v1${where}`, body, { key }), status);
  const get = async (where: string) => must(await two.clients[1].get(`/api/v1${where}`, { key }), 200);

  it("leave no idempotency key stuck: what was cut off works at once elsewhere, and counts once", async () => {
    tenant = await aTenant(two.clients[0]);
    ({ key } = tenant);
    const { id } = await post("/players", { externalUserId: randomUUID() });
    const grant = (at: Client, name: string): Promise<Answer> =>
      at.post(`/api/v1/players/${id}/xp`, { amount: 1 }, { key, headers: { "X-Idempotency-Key": name } });
    for (let round = 1; round <= KILLS; round++) {
      const { server, client } = await two.another();
      const names = Array.from({ length: GRANTS }, () => randomUUID());
      const cut = names.map((name) => grant(client, name).catch(() => undefined));
      await delay(Math.random() * 40);
      await kill(server);
      await Promise.all(cut);
      for (const name of names)
        // The database may take a moment to see that the connection of the dead process is gone.
        await eventually(async () => (await grant(two.clients[round % 2]!, name)).status === 201);
      assert.equal((await get(`/players/${id}`)).xp, round * GRANTS);
    }
  });

  describe("while the clock of a sandbox", () => {
    const path = (): string => `/projects/${tenant.projectId}/sandbox/clock`;

    /** A gift of 1 XP at each noon, and a prize of 100 for the best of each day. */
    beforeEach(async () => {
      tenant = await aTenant(two.clients[1]);
      key = await aKey(two.clients[1], { ...tenant, environment: "test" });
      for (const externalUserId of PLAYERS) await post("/players", { externalUserId });
      await post("/rules", {
        key: "gift",
        name: "gift",
        triggers: [{ kind: "SCHEDULE", cron: "0 12 * * *" }],
        actions: [
          { type: "grant_xp", amount: 1 },
          { type: "submit_score", leaderboardKey: "daily", score: 1 },
        ],
      });
      await post("/leaderboards", {
        key: "daily",
        name: "daily",
        metric: { source: "CUSTOM" },
        operator: "SUM",
        period: { kind: "DAILY" },
        prizes: [{ from: 1, to: 10, rewards: { xp: 100 } }],
      });
      await post("/rules/gift/publish", {}, 200);
    });

    it("is advanced by one of all at a time, and read anew by each of them", async () => {
      const answers = await Promise.all(
        [0, 1, 0, 1].map((i) => two.clients[i]!.put(`/api/v1${path()}`, { advance: "P1D" }, { key })),
      );
      const done = answers.filter(({ status }) => status === 200).length;
      for (const answer of answers) if (answer.status !== 200) assertError(answer, 409, "INVALID_STATE");
      for (const client of two.clients) {
        assert.equal(must(await client.get(`/api/v1${path()}`, { key }), 200).aheadSeconds, done * 86_400);
        const event = { externalUserId: PLAYERS[0], eventType: "seen" };
        const { eventId } = must(await client.post("/api/v1/events?wait=true", event, { key }), 200);
        const { timestamp } = must(await client.get(`/api/v1/events/${eventId}`, { key }), 200);
        assert.ok(Math.abs(Date.parse(timestamp) - Date.now() - done * DAY_MS) < 30_000, timestamp);
      }
    });

    it("is advanced, to the end, each thing once", async () => {
      // A day that ends while they play is closed by its own end, and not by the advance.
      await pastEdgeOf(DAY_MS, 60_000);
      const { server, client } = await two.another();
      const asked = client.put(`/api/v1${path()}`, { advance: `P${DAYS}D` }, { key }).catch(() => undefined);
      await eventually(async () => (await get("/players/ext:ann")).xp > 5 * 101, { timeoutMs: 60_000 });
      await kill(server);
      await asked;
      const clock = await eventually(
        async (): Promise<Json | false> => {
          const found = await get(path());
          return found.lastAdvance.status === "SUCCEEDED" && found;
        },
        { timeoutMs: 120_000 },
      );
      assert.equal(clock["aheadSeconds"], DAYS * 86_400);
      const { counts } = (clock["lastAdvance"] as { happened: { counts: Record<string, number> } }).happened;
      assert.equal(counts["scheduledRuns"], DAYS * PLAYERS.length);
      for (const name of PLAYERS) {
        const { xp } = await get(`/players/ext:${name}`);
        // The day of the last noon may be over or not.
        assert.ok(xp === DAYS * 101 || xp === DAYS * 101 - 100, `${name}: ${xp}`);
      }
      const periods = await get("/leaderboards/daily/periods?limit=100");
      const closed = periods.data.filter(({ status }: { status: string }) => status === "CLOSED");
      assert.deepEqual([counts["periodsClosed"], periods.data.length], [closed.length, closed.length + 1]);
      assert.ok(closed.length >= DAYS);
    });
  });
});
