import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aKey, aTenant, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Client, clientOf, must } from "../support/http/client.ts";
import { pastEdgeOf } from "../support/clock-edges.ts";
import { eventually } from "../support/eventually.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";

const DAY_MS = 86_400_000;
const DAYS = 40;
const PLAYERS = ["ann", "bob", "cyd"];

describe("the clock of a sandbox, of several processes", function () {
  let services: Services;
  let remove: () => Promise<void>;
  const servers: Laurel[] = [];
  const clients: Client[] = [];
  let tenant: Tenant;
  let key: string;

  const start = async (): Promise<void> => {
    const port = await freePort();
    const env = { PUBLIC_URL: "http://localhost", TRUSTED_PROXIES: "127.0.0.1/32", PORT: String(port) };
    servers.push(await startProcess(["serve"], { ...services.env, ...env }));
    clients.push(clientOf(`http://127.0.0.1:${port}`));
  };

  before(async () => {
    const directory = await temporaryDir();
    services = await startServices(directory.path);
    for (const _ of [1, 2]) await start();
    remove = async () => {
      for (const server of servers) await kill(server);
      await services.remove();
      await directory.remove();
    };
  });
  after(() => remove());

  const path = (): string => `/api/v1/projects/${tenant.projectId}/sandbox/clock`;
  const post = async (where: string, body: object, status = 201) =>
    must(await clients[1]!.post(`/api/v1${where}`, body, { key }), status);
  const get = async (where: string) => must(await clients[1]!.get(`/api/v1${where}`, { key }), 200);

  /** A gift of 1 XP at each noon, and a prize of 100 for the best of each day. */
  const aSeason = async (): Promise<void> => {
    tenant = await aTenant(clients[1]!);
    key = await aKey(clients[1]!, { ...tenant, environment: "test" });
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
  };

  it("is read anew by each of them, and advanced by one of all at a time", async () => {
    await aSeason();
    const answers = await Promise.all(
      [0, 1, 0, 1].map((i) => clients[i]!.put(path(), { advance: "P1D" }, { key })),
    );
    const done = answers.filter(({ status }) => status === 200).length;
    for (const answer of answers) if (answer.status !== 200) assertError(answer, 409, "INVALID_STATE");
    const [first] = PLAYERS;
    for (const client of clients) {
      assert.equal(must(await client.get(path(), { key }), 200).aheadSeconds, done * 86_400);
      const event = { externalUserId: first, eventType: "seen" };
      const { eventId } = must(await client.post("/api/v1/events?wait=true", event, { key }), 200);
      const { timestamp } = must(await client.get(`/api/v1/events/${eventId}`, { key }), 200);
      assert.ok(Math.abs(Date.parse(timestamp) - Date.now() - done * 86_400_000) < 30_000, timestamp);
    }
  });

  it("is advanced to the end, each thing once, when the process that does it is killed", async () => {
    // A day that ends while they play is closed by its own end, and not by the advance.
    await pastEdgeOf(DAY_MS, 60_000);
    await aSeason();
    const asked = clients[0]!.put(path(), { advance: `P${DAYS}D` }, { key }).catch(() => undefined);
    await eventually(async () => (await get("/players/ext:ann")).xp > 5 * 101, { timeoutMs: 60_000 });
    await kill(servers.shift()!);
    clients.shift();
    await asked;
    clients.unshift(clients[0]!);
    const clock = await eventually(
      async (): Promise<Json | false> => {
        const found = await get(path().replace("/api/v1", ""));
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
