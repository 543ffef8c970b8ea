import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { logger, setLogger } from "@colyseus/core/Logger";
import { sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aPlayer, matchmake } from "../support/rooms/sdk.ts";

describe("a room that cannot be", () => {
  const before = logger;
  after(() => setLogger(before));

  /** Lines of core from now on, which are in the log of the application otherwise. */
  const hearCore = (): string[] => {
    const told: string[] = [];
    const hear = (...parts: unknown[]): void => void told.push(parts.map(String).join(" "));
    setLogger({ trace: () => undefined, debug: () => undefined, info: hear, warn: hear, error: hear });
    return told;
  };

  it("is refused to who asks for it, and is no line in the log", async () => {
    const api = await startApp();
    const tenant = await aTenant(api);
    const { token } = await aPlayer(api, tenant.key);
    const board = { key: "board", name: "Board", metric: { source: "CUSTOM" }, operator: "LATEST" };
    must(await api.post("/api/v1/leaderboards", board, { key: tenant.key }), 201);
    const told = hearCore();
    const answers: [room: string, body: object, status: number, code: string][] = [
      ["leaderboard", { leaderboardKey: "nowhere" }, 404, "NOT_FOUND"],
      ["leaderboard", { leaderboardKey: "board", board: "de" }, 400, "VALIDATION_ERROR"],
      ["leaderboard", {}, 400, "VALIDATION_ERROR"],
      ["chat", { channelId: randomUUID() }, 404, "NOT_FOUND"],
      ["lobby", { lobbyId: randomUUID() }, 404, "NOT_FOUND"],
    ];
    for (const [room, body, status, code] of answers) {
      const answer = await matchmake(api, `joinOrCreate/${room}`, { token, body });
      assert.deepEqual([answer.status, answer.body.error.code], [status, code], `${room} ${told.join()}`);
    }
    assert.deepEqual(told, []);
  });

  it("for want of a valid token counts against the address as every such request does", async () => {
    const api = await startApp();
    const address = anAddress();
    const { points } = LIMITS.anonymous;
    const statuses = new Map<number, number>();
    for (let i = 0; i < points + 5; i++) {
      const token = i % 2 === 0 ? { token: "x.y.z" } : {};
      const { status, headers } = await matchmake(api, "joinOrCreate/player", { ...token, address });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 429) assert.ok(Number(headers.get("retry-after")) >= 1);
    }
    assert.deepEqual(Object.fromEntries(statuses), { 401: points, 429: 5 });
    assert.equal((await api.get("/api/v1/players", { headers: { "X-Forwarded-For": address } })).status, 429);
    const tenant = await aTenant(api);
    const { token } = await aPlayer(api, tenant.key);
    assert.equal((await matchmake(api, "joinOrCreate/player", { token, address })).status, 200);
  });

  it("for an outage of the database is refused as such, and is no line of core's", async () => {
    const api = await startApp();
    const tenant = await aTenant(api);
    const { token } = await aPlayer(api, tenant.key);
    const join = () => matchmake(api, "joinOrCreate/lobbies", { token, body: { mode: "duel" } });
    must(await api.post("/api/v1/lobbies", { mode: "duel", maxPlayers: 4 }, { key: tenant.key }), 201);
    const told = hearCore();
    const execute = (statement: string): Promise<unknown> =>
      api.app.transact(({ db }) => sql.raw(statement).execute(db));
    await execute(`create function refuse_reads() returns boolean language plpgsql as
      $$ begin raise exception 'refused' using errcode = '53100'; end $$`);
    await execute("create policy refused on lobbies as restrictive for select using (refuse_reads())");
    try {
      const { status, body, headers } = await join();
      const { code, reason } = body.error;
      assert.deepEqual([status, code, reason], [503, "SERVICE_UNAVAILABLE", "NOT_READY"]);
      assert.ok(Number(headers.get("retry-after")) >= 1);
    } finally {
      await execute("drop policy refused on lobbies");
      await execute("drop function refuse_reads");
    }
    assert.deepEqual(told, []);
    assert.equal((await join()).status, 200);
  });
});
