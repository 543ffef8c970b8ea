import assert from "node:assert/strict";
import { once } from "node:events";
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
import { temporaryDir } from "../support/processes/process.ts";

/** What clients ask for all the time: each is one statement at most, in one message. */
const HOT = ["listLeaderboardEntries", "getLeaderboardEntry", "getPlayer", "listBalances"];
/**
 * The least of so many calls counts: what a process learns once, or a connection does every 5 s, is no part
 * of an operation.
 */
const CALLS = { read: 5, write: 3 };

/**
 * What a key may do, else a user; operations of super-admins and for everybody are no part of games. Those
 * that share transactions have no statements of their own: domain/shared-changes.test.ts counts a group's.
 */
const isOfTenants = ({ route: { access, sharing } }: Operation): boolean =>
  access !== "public" && access.admin === undefined && sharing === undefined;

describe("the statements of a request", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let api: TestApp;
  let side: Side;
  let server: Server;
  let counted: Client;
  /** Of the request that is served now. */
  let counts: StatementCounts;

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

  /** The least of some calls. What is only read is read again: others have asked for it before. */
  const leastOf = async ({ route, call }: Operation): Promise<StatementCounts> => {
    const { key, token, projectId } = side.tenant;
    const isOpenToKeys = route.access !== "public" && route.access.scope !== undefined;
    const who = isOpenToKeys ? { key } : { token, headers: { "X-Project-ID": projectId } };
    const isRead = route.method === "get";
    let request: Awaited<ReturnType<typeof call>> | undefined;
    const least = { statements: Infinity, roundTrips: Infinity };
    for (let n = 0; n < (isRead ? CALLS.read : CALLS.write); n++) {
      await forgetLimits(api, side, "");
      if (!request || !isRead) request = await call(side, isOpenToKeys ? "key" : "user");
      counts = { statements: 0, roundTrips: 0 };
      const answer = await send({ ...api, ...counted }, route, request, who);
      assert.ok(answer.status < 400, `${route.id}: ${answer.status} ${JSON.stringify(answer.body)}`);
      least.statements = Math.min(least.statements, counts.statements);
      least.roundTrips = Math.min(least.roundTrips, counts.roundTrips);
    }
    return least;
  };

  it("are counted for every operation of tenants, and are one for what clients ask all the time", async () => {
    const found = new Map<string, StatementCounts>();
    for (const operation of operations().filter(isOfTenants))
      found.set(operation.route.id, await leastOf(operation));
    const rows = [...found].toSorted(([, a], [, b]) => b.statements - a.statements);
    for (const [id, { statements, roundTrips }] of rows)
      process.stdout.write(`      ${id}: ${statements} statements in ${roundTrips} round trips\n`);
    for (const id of HOT) assert.ok(found.get(id)!.statements <= 1, id);
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
});
