import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { countingStatements, type StatementCounts } from "../../src/domain/kernel/statement-counts.ts";
import { routes } from "../../src/http/routes.ts";
import { createHttp } from "../../src/http/server.ts";
import { shareApp, type TestApp } from "../support/app/app.ts";
import { aSide, type Side } from "../support/app/sides.ts";
import { type Client, clientOf } from "../support/http/client.ts";
import { forgetLimits, type Operation, operations, send } from "../support/operations/operations.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { tell } from "../support/tell.ts";
import { temporaryDir } from "../support/processes/process.ts";

/** Statements and round trips of each operation: they may become fewer, never more. */
type Budget = Readonly<Record<string, readonly [statements: number, roundTrips: number]>>;
const FILE = new URL("../data/statement-budget.json", import.meta.url);
const BUDGET = JSON.parse(readFileSync(FILE, "utf8")) as Budget;

/** What clients ask for all the time: each is one statement at most, in one message. */
const HOT = ["listLeaderboardEntries", "getLeaderboardEntry", "getPlayer", "listBalances"];
/**
 * The least of so many calls counts: what a process learns once, or a connection does every 5 s, is no part
 * of an operation. One that seems to need too much is called again, up to `most` times.
 */
const CALLS = { read: 5, write: 3, most: 12 };

/**
 * What a key may do, else a user; operations of super-admins and for everybody are no part of games. Those
 * that share transactions have no statements of their own: domain/shared-changes.test.ts counts a group's.
 */
const ofTenants = routes.filter(
  ({ access, sharing }) => access !== "public" && access.admin === undefined && sharing === undefined,
);

describe("the budget of statements", function () {
  this.timeout(600_000);
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let api: TestApp;
  let side: Side;
  let server: Server;
  let counted: Client;
  /** Of the request that is served now. */
  let counts: StatementCounts;
  const measured = new Map<string, [number, number]>();

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    api = await shareApp(services.env);
    side = await aSide(api);
    const http = createHttp(api.app, routes);
    server = createServer((request, response) =>
      countingStatements(counts, () => void http(request, response)),
    ).listen(0, "127.0.0.1");
    await once(server, "listening");
    counted = clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
  after(async () => {
    server?.closeAllConnections();
    server?.close();
    await api?.stop();
    await services?.remove();
    await directory?.remove();
  });

  /** Counts a call. What is only read is read again: others have asked for it before. */
  const countCalls = async ({ route, call }: Operation): Promise<StatementCounts[]> => {
    const { key, token, projectId } = side.tenant;
    const isOpenToKeys = route.access !== "public" && route.access.scope !== undefined;
    const who = isOpenToKeys ? { key } : { token, headers: { "X-Project-ID": projectId } };
    const make = async () => call(side, isOpenToKeys ? "key" : "user");
    let request = await make();
    const found: StatementCounts[] = [];
    const isRead = route.method === "get";
    const [most, waits] = BUDGET[route.id] ?? [0, 0];
    const isMet = (): boolean =>
      found.some(({ statements }) => statements <= most) &&
      found.some(({ roundTrips }) => roundTrips <= waits);
    const least = isRead ? CALLS.read : CALLS.write;
    for (let n = 0; n < least || (n < CALLS.most && !isMet()); n++) {
      await forgetLimits(api, side, "");
      if (n > 0 && !isRead) request = await make();
      found.push((counts = { statements: 0, roundTrips: 0 }));
      const answer = await send({ ...api, ...counted }, route, request, who);
      assert.ok(answer.status < 400, `${route.id}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    return found;
  };

  for (const { id } of ofTenants) {
    it(`is kept by ${id}`, async () => {
      const operation = operations().find(({ route }) => route.id === id)!;
      const found = await countCalls(operation);
      const least = (of: keyof StatementCounts): number => Math.min(...found.map((one) => one[of]));
      const [statements, roundTrips] = [least("statements"), least("roundTrips")];
      measured.set(id, [statements, roundTrips]);
      const [most, waits] = BUDGET[id] ?? [0, 0];
      const text = `${statements} statements in ${roundTrips} round trips; ${most} in ${waits} are allowed`;
      assert.ok(statements <= most && roundTrips <= waits, text);
    });
  }

  it("has one statement at most for each hot read", () => {
    for (const id of HOT) assert.ok(Math.max(...(BUDGET[id] ?? [Infinity])) <= 1, id);
  });

  it("has two statements for a player with everything that can be included", async () => {
    const { key } = side.tenant;
    const made = await api.post("/api/v1/players", { externalUserId: "with-includes" }, { key });
    const include = "badges,streaks,segments,boosts,quests,adventures,identities,metrics";
    const found: number[] = [];
    for (let n = 0; n < CALLS.read; n++) {
      counts = { statements: 0, roundTrips: 0 };
      const { status } = await counted.get(`/api/v1/players/${made.body.id}?include=${include}`, { key });
      assert.equal(status, 200);
      found.push(counts.statements);
    }
    assert.ok(Math.min(...found) <= 2, String(found));
  });

  it("names every operation of tenants, and no other", () => {
    const names = ofTenants.map(({ id }) => id).toSorted();
    assert.deepEqual(Object.keys(BUDGET).toSorted(), names);
  });

  it("is as small as what was counted", function () {
    const to = process.env["BUDGET_FILE"];
    if (to) writeFileSync(to, JSON.stringify(Object.fromEntries(measured)));
    const less = [...measured].filter(([id, [statements]]) => statements < (BUDGET[id]?.[0] ?? 0));
    if (less.length > 0) tell(this, `less suffices: ${less.map(([id, [n]]) => `${id} ${n}`).join(", ")}`);
  });
});
