import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Player } from "../../src/domain/players/player.ts";
import { type Answer, aKey, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { aMember } from "../support/app/member.ts";
import { madeOnce } from "../support/made.ts";

describe("POST /auth/ws-token", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const wsToken = (body: object, credentials: { key?: string; token?: string }) =>
    api.post("/api/v1/auth/ws-token", body, credentials);
  const claimsOf = (answer: Answer) => api.app.tokens.verifyWs(answer.body.token);

  it("gives an API key a player's token, and makes the player of a new externalUserId once", async () => {
    const externalUserId = `user:${randomUUID()}`;
    const first = await wsToken({ externalUserId }, { key: tenant.key });
    assert.equal(first.status, 200);
    const { playerId, expiresIn, expiresAt } = first.body;
    assert.equal(expiresIn, 900);
    const { exp, ...claims } = await claimsOf(first);
    assert.equal(new Date(exp * 1_000).toISOString(), expiresAt);
    const { projectId: pid, tenantId: tid } = tenant;
    assert.deepEqual(claims, { sub: playerId, pid, tid, kind: "player", externalUserId });
    for (const body of [{ externalUserId }, { playerId }, { playerId: `ext:${externalUserId}` }]) {
      assert.equal((await wsToken(body, { key: tenant.key })).body.playerId, playerId);
    }
  });

  it("makes no player where the project does not want that, nor of an unknown playerId", async () => {
    const { token, projectId, key } = await aTenant(api);
    await api.patch(`/api/v1/projects/${projectId}`, { settings: { autoCreatePlayers: false } }, { token });
    for (const body of [
      { externalUserId: "nobody" },
      { playerId: "ext:nobody" },
      { playerId: randomUUID() },
    ]) {
      assertError(await wsToken(body, { key }), 404);
    }
    assertError(await wsToken({ playerId: "ext:nobody" }, { key: tenant.key }), 404);
    assertError(await wsToken({ playerId: "not-an-id" }, { key: tenant.key }), 404);
  });

  it("knows no player of another project", async () => {
    const other = await aTenant(api);
    const { body } = await wsToken({ externalUserId: "ada" }, { key: other.key });
    assertError(await wsToken({ playerId: body.playerId }, { key: tenant.key }), 404);
    assertError(
      await wsToken({ externalUserId: "ada", projectId: other.projectId }, { key: tenant.key }),
      403,
      "PROJECT_MISMATCH",
    );
  });

  it("refuses a banned player", async () => {
    const { body } = await wsToken({ externalUserId: "troll" }, { key: tenant.key });
    await api.app.transact(async ({ em }) => {
      const player = await em.findOneOrFail(Player, { projectId: tenant.projectId, id: body.playerId });
      player.status = "BANNED";
    });
    assertError(await wsToken({ externalUserId: "troll" }, { key: tenant.key }), 403, "PLAYER_BANNED");
  });

  it("wants the scope", async () => {
    const { token, projectId } = tenant;
    const key = await aKey(api, { token, projectId, scopes: ["players:*"] });
    assertError(await wsToken({ externalUserId: "x" }, { key }), 403, "INSUFFICIENT_SCOPE");
  });

  it("of a test key is for the sandbox's player", async () => {
    const { token, projectId } = tenant;
    const key = await aKey(api, { token, projectId, environment: "test" });
    const live = await wsToken({ externalUserId: "grace" }, { key: tenant.key });
    const test = await wsToken({ externalUserId: "grace" }, { key });
    assert.notEqual(test.body.playerId, live.body.playerId);
    const { body } = await api.get(`/api/v1/projects/${projectId}`, { token });
    assert.equal((await claimsOf(test)).pid, body.sandboxProjectId);
  });

  it("gives a console user a token for a project of the tenant, never a player's", async () => {
    const viewer = await aMember(api, tenant.tenantId, "VIEWER");
    const answer = await wsToken({ projectId: tenant.projectId }, { token: viewer.token });
    const { exp: _exp, ...claims } = await claimsOf(answer);
    const { projectId: pid, tenantId: tid } = tenant;
    assert.deepEqual(claims, { sub: viewer.userId, pid, tid, kind: "console" });
    assert.equal("playerId" in answer.body, false);
    const other = await aTenant(api);
    assertError(await wsToken({ projectId: other.projectId }, { token: viewer.token }), 404);
    assertError(await wsToken({ externalUserId: "ada" }, { token: viewer.token }), 400);
  });

  it("is given 60 times a minute to one player, and to one console user", async () => {
    const other = await aTenant(api);
    const ask = [
      () => wsToken({ externalUserId: "often" }, { key: other.key }),
      () => wsToken({ projectId: other.projectId }, { token: other.token }),
    ];
    for (const one of ask) {
      const answers = await Promise.all(Array.from({ length: 61 }, one));
      const refused = answers.filter(({ status }) => status !== 200);
      assert.equal(refused.length, 1);
      assertError(refused[0]!, 429, "USER_RATE");
      assert.ok(Number(refused[0]!.headers.get("retry-after")) >= 1);
    }
    assert.equal((await wsToken({ externalUserId: "another" }, { key: other.key })).status, 200);
  });
});
