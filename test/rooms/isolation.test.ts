import assert from "node:assert/strict";
import { aKey, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { eventually } from "../support/eventually.ts";
import { aPlayer, join, matchmake, type Player } from "../support/rooms/sdk.ts";

describe("rooms of one project", () => {
  let api: TestApp;
  let tenant: Tenant;
  let testKey: string;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
    const { token, projectId } = tenant;
    testKey = await aKey(api, { token, projectId, environment: "test" });
  });

  const aBoard = async (key: string, name: string): Promise<void> => {
    const body = { key: name, name: "Board", metric: { source: "CUSTOM" }, operator: "SUM" };
    const { status } = await api.post("/api/v1/leaderboards", body, { key });
    assert.equal(status, 201);
  };
  const ask = async (token: string, body: object, room = "leaderboard"): Promise<number> =>
    (await matchmake(api, `joinOrCreate/${room}`, { token, body })).status;
  const setStatus = (player: Player, status: string) =>
    api.sql`update players set status = ${status} where id = ${player.playerId}`;

  it("are not there for another project of the same tenant", async () => {
    const { token } = tenant;
    const second = (await api.post("/api/v1/projects", { name: "Second" }, { token })).body.id;
    const secondKey = await aKey(api, { token, projectId: second });
    await aBoard(tenant.key, "of-the-first");
    const [insider, outsider] = [await aPlayer(api, tenant.key), await aPlayer(api, secondKey)];
    assert.equal(await ask(insider.token, { leaderboardKey: "of-the-first" }), 200);
    assert.equal(await ask(outsider.token, { leaderboardKey: "of-the-first" }), 404);
    assert.equal(
      await ask(outsider.token, { leaderboardKey: "of-the-first", projectId: tenant.projectId }),
      404,
    );
  });

  it("keep the sandbox and live data apart, also under one key", async () => {
    await aBoard(tenant.key, "live-only");
    await aBoard(testKey, "test-only");
    await aBoard(tenant.key, "both");
    await aBoard(testKey, "both");
    const [live, test] = [await aPlayer(api, tenant.key), await aPlayer(api, testKey)];
    assert.equal(await ask(live.token, { leaderboardKey: "test-only" }), 404);
    assert.equal(await ask(test.token, { leaderboardKey: "live-only" }), 404);
    for (const [key, { playerId }, score] of [
      [tenant.key, live, 1],
      [testKey, test, 2],
    ] as const)
      await api.post("/api/v1/leaderboards/both/scores", { playerId, score }, { key });
    const [liveBoard, testBoard] = [
      await join(api, live.token, "leaderboard", { leaderboardKey: "both" }),
      await join(api, test.token, "leaderboard", { leaderboardKey: "both" }),
    ];
    assert.notEqual(liveBoard.room.roomId, testBoard.room.roomId);
    const scores = ({ room }: typeof liveBoard) =>
      [...room.state.top].map(({ score }: { score: number }) => score);
    await eventually(() => scores(liveBoard).length === 1 && scores(testBoard).length === 1);
    assert.deepEqual([scores(liveBoard), scores(testBoard)], [[1], [2]]);
    for (const { room } of [liveBoard, testBoard]) await room.leave();
  });

  it("refuse a banned player's token, which is older than the ban", async () => {
    await aBoard(tenant.key, "for-the-good");
    const [suspended, banned, erased] = [
      await aPlayer(api, tenant.key),
      await aPlayer(api, tenant.key),
      await aPlayer(api, tenant.key),
    ];
    await setStatus(suspended, "SUSPENDED");
    await setStatus(banned, "BANNED");
    await setStatus(erased, "ERASED");
    const options = { leaderboardKey: "for-the-good" };
    assert.deepEqual(
      [
        await ask(suspended.token, options),
        await ask(banned.token, options),
        await ask(erased.token, options),
      ],
      [200, 403, 404],
    );
    assert.deepEqual(
      [await ask(banned.token, {}, "player"), await ask(erased.token, {}, "player")],
      [403, 404],
    );
    const { status, body } = await api.post(
      "/api/v1/auth/ws-token",
      { playerId: banned.playerId },
      { key: tenant.key },
    );
    assert.deepEqual([status, body.error.reason], [403, "PLAYER_BANNED"]);
  });

  it("are gone with their project, whatever tokens are left", async () => {
    const doomed = await aTenant(api);
    await aBoard(doomed.key, "doomed");
    const player = await aPlayer(api, doomed.key);
    const console = await api.post(
      "/api/v1/auth/ws-token",
      { projectId: doomed.projectId },
      { token: doomed.token },
    );
    await api.delete(`/api/v1/projects/${doomed.projectId}`, { token: doomed.token });
    for (const token of [player.token, console.body.token as string])
      assert.equal(await ask(token, { leaderboardKey: "doomed" }), 404);
    assert.equal(await ask(player.token, {}, "player"), 404);
  });

  it("let nobody in who is no longer a member of the tenant, whatever token is left", async () => {
    await aBoard(tenant.key, "members");
    const { userId, token } = await aMember(api, tenant.tenantId, "VIEWER");
    const { projectId } = tenant;
    const { body } = await api.post("/api/v1/auth/ws-token", { projectId }, { token });
    assert.equal(await ask(body.token, { leaderboardKey: "members" }), 200);
    await api.delete(`/api/v1/team/members/${userId}`, { token: tenant.token });
    assert.equal(await ask(body.token, { leaderboardKey: "members" }), 401);
  });

  it("are found by no other name, and by no id", async () => {
    const me = await aPlayer(api, tenant.key);
    const joined = await join(api, me.token, "player");
    const names = [
      "__proto__",
      "constructor",
      "toString",
      "hasOwnProperty",
      "prototype",
      "Player",
      "player ",
    ];
    const more = [
      "..",
      "%2e%2e",
      "player%00",
      "player%2f..",
      "player/../leaderboard",
      "*",
      "a".repeat(200),
      "",
    ];
    for (const name of [...names, ...more, joined.room.roomId]) {
      const path = `joinOrCreate/${encodeURI(name).replaceAll("%25", "%")}`;
      const { status, body } = await matchmake(api, path, { token: me.token });
      assert.ok([400, 404, 429].includes(status), `${name}: ${status}`);
      assert.equal(typeof body.error.code, "string");
    }
    for (const reconnectionToken of ["x", "__proto__", joined.room.sessionId]) {
      const { status } = await matchmake(api, `reconnect/${joined.room.roomId}`, {
        body: { reconnectionToken },
      });
      assert.ok(status >= 400 && status < 500, `reconnect: ${status}`);
    }
    assert.equal((await api.get("/health/live", { isUnchecked: true })).status, 200);
    await joined.room.leave();
  });
});
