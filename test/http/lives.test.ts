import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("lives by REST", () => {
  let player: string;
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    await set({ lives: { enabled: true, max: 3, refillSeconds: 3_600 } });
  });
  beforeEach(async () => {
    const made = await api.post("/api/v1/players", { externalUserId: randomUUID() }, { key: tenant.key });
    player = must(made, 201).id;
  });

  const set = async (settings: object, { projectId, token } = tenant): Promise<void> =>
    void must(await api.patch(`/api/v1/projects/${projectId}`, { settings }, { token }), 200);
  const read = async (): Promise<Record<string, unknown>> =>
    must(await api.get(`/api/v1/players/${player}/lives`, { key: tenant.key }), 200);
  const post = (step: string, body: object = {}): Promise<Answer> =>
    api.post(`/api/v1/players/${player}/lives/${step}`, body, { key: tenant.key });
  /** Lets time pass for the player. */
  const wait = (seconds: number) =>
    api.sql`update players set lives_anchor_at = lives_anchor_at - make_interval(secs => ${seconds}),
      lives_unlimited_until = lives_unlimited_until - make_interval(secs => ${seconds})
      where id = ${player}`;

  it("are those of the start, and full", async () => {
    // Five to start with, of at most three: more than that is never taken away, and none come back.
    const full = { max: 3, nextLifeAt: null, fullAt: null, unlimitedUntil: null };
    assert.deepEqual(await read(), { current: 5, ...full });
    const shown = must(await api.get(`/api/v1/players/${player}`, { key: tenant.key }), 200);
    assert.deepEqual(shown.lives, { current: 5, ...full });
  });

  it("are consumed and come back with time", async () => {
    assert.equal(must(await post("consume", { amount: 4, reason: "level" }), 200).current, 1);
    const { nextLifeAt, fullAt } = await read();
    assert.equal(Date.parse(fullAt as string) - Date.parse(nextLifeAt as string), 3_600_000);
    await wait(3_000);
    assert.equal((await read())["current"], 1);
    await wait(601);
    assert.equal((await read())["current"], 2);
    assertError(await post("consume", { amount: 3 }), 409, "INSUFFICIENT_LIVES");
    assert.equal(must(await post("consume"), 200).current, 1, "one unless told otherwise");
    await wait(100_000);
    assert.equal((await read())["current"], 3);
  });

  it("are granted by number, filled up, or made unlimited for a time", async () => {
    await post("consume", { amount: 5 });
    assert.equal(must(await post("grant", { amount: 2 }), 200).current, 2);
    assert.equal(must(await post("grant", { refill: "FULL" }), 200).current, 3);
    assert.equal(must(await post("grant", { amount: 5 }), 200).current, 3, "no more than fit");
    assert.ok(must(await post("grant", { unlimitedSeconds: 60 }), 200).unlimitedUntil);
    assert.equal(must(await post("consume", { amount: 3 }), 200).current, 3);
    await wait(61);
    assert.equal(must(await post("consume", { amount: 3 }), 200).current, 0);
    const { data } = must(
      await api.get(`/api/v1/players/${player}/ledger?asset=LIVES`, { key: tenant.key }),
      200,
    );
    assert.deepEqual(pluck(data, "amount", "balanceAfter"), [
      [-3, 0],
      [1, 3],
      [2, 2],
      [-5, 0],
    ]);
    const verdict = await api.get(`/api/v1/players/${player}/ledger/verify`, { key: tenant.key });
    assert.equal(must(verdict, 200).valid, true);
  });

  it("are not in a project without them: read as null, and changed by nobody", async () => {
    const other = await aTenant(api);
    const { id } = must(await api.post("/api/v1/players", { externalUserId: "u" }, { key: other.key }), 201);
    const path = `/api/v1/players/${id}/lives`;
    assert.equal(must(await api.get(path, { key: other.key }), 200), null);
    assertError(await api.post(`${path}/consume`, {}, { key: other.key }), 409, "LIVES_DISABLED");
    assertError(await api.post(`${path}/grant`, { amount: 1 }, { key: other.key }), 409, "LIVES_DISABLED");
  });

  it("are not given to a player who is not active, but can be taken", async () => {
    await api.sql`update players set status = 'BANNED' where id = ${player}`;
    assertError(await post("grant", { amount: 1 }), 409, "PLAYER_INACTIVE");
    assertError(await post("grant", { unlimitedSeconds: 5 }), 409, "PLAYER_INACTIVE");
    assert.equal((await post("consume")).status, 200);
  });
});
