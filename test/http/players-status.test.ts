import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { playersOf } from "../support/players/players.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

describe("the status of a player", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const players = madeForEach(() => playersOf(api, tenant));

  const setStatus = (id: string, status: string, reason?: string) =>
    players.post(`/players/${id}/status`, { status, ...(reason === undefined ? {} : { reason }) });
  const board = async (): Promise<[string, number][]> => {
    const { data } = must(await players.get("/leaderboards/xp/entries"), 200);
    return data.map((entry: { playerId: string; rank: number }) => [entry.playerId, entry.rank]);
  };

  it("is told with its reason, once, and rejects events while it is not ACTIVE", async () => {
    const { id, ext } = await players.add();
    const { status } = must(await setStatus(id, "SUSPENDED", "chat abuse"), 200);
    assert.equal(status, "SUSPENDED");
    must(await setStatus(id, "SUSPENDED", "again"), 200);
    assert.equal((await players.track(ext, "seen")).status, "REJECTED");
    assertError(await players.post(`/players/${id}/xp`, { amount: 5 }), 409, "PLAYER_INACTIVE");
    must(await setStatus(id, "ACTIVE"), 200);
    assert.equal((await players.track(ext, "seen")).status, "PROCESSED");
    const { data } = must(await players.get(`/players/${id}/activity?types=player.updated`), 200);
    assert.deepEqual(
      data.map((one: { data: { after: object; cause: { note: string } } }) => [
        one.data.after,
        one.data.cause.note,
      ]),
      [
        [{ status: "ACTIVE" }, "status changed"],
        [{ status: "SUSPENDED" }, "chat abuse"],
      ],
    );
    for (const bad of ["MERGED", "ERASED", "GONE"]) assertError(await setStatus(id, bad), 400);
  });

  it("BANNED takes a player off the boards, so that all below move up, until they return", async () => {
    const [first, second, third] = [await players.add(), await players.add(), await players.add()];
    must(await players.post("/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } }), 201);
    for (const [i, { id }] of [first, second, third].entries()) await players.xp(id, 300 - i * 100);
    await eventuallyHolds(async () => assert.equal((await board()).length, 3));
    must(await setStatus(first.id, "BANNED", "cheating"), 200);
    await eventuallyHolds(async () =>
      assert.deepEqual(await board(), [
        [second.id, 1],
        [third.id, 2],
      ]),
    );
    assertError(await players.get(`/leaderboards/xp/players/${first.id}`), 404);
    // XP that is taken meanwhile does not bring the entry back, but counts when the player returns.
    must(await players.post(`/players/${first.id}/xp`, { amount: -150 }), 201);
    await players.xp(third.id, 1);
    await eventuallyHolds(async () => assert.equal((await players.read(third.id)).xp, 101));
    assert.equal((await board()).length, 2);
    must(await setStatus(first.id, "ACTIVE"), 200);
    await eventuallyHolds(async () =>
      assert.deepEqual(await board(), [
        [second.id, 1],
        [first.id, 2],
        [third.id, 3],
      ]),
    );
  });

  it("of a deleted player is SUSPENDED, shown by id, in no list and on no board", async () => {
    const { id, ext } = await players.add();
    must(await players.post("/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } }), 201);
    await players.xp(id, 10);
    await eventuallyHolds(async () => assert.equal((await board()).length, 1));
    assert.deepEqual(must(await players.delete(`/players/${id}`), 200), { deleted: true });
    assert.equal((await players.read(id)).status, "SUSPENDED");
    assert.equal((await players.track(ext, "seen")).status, "REJECTED");
    const again = must(await players.post("/players", { externalUserId: ext }), 200);
    assert.deepEqual([again.id, again.status], [id, "SUSPENDED"]);
    assert.match(again.warnings[0], /is SUSPENDED, as DELETE leaves them: .*\/status makes them ACTIVE/);
    const { results } = must(
      await players.post("/players/batch", { players: [{ externalUserId: ext }] }),
      200,
    );
    assert.deepEqual(results[0].warnings, again.warnings);
    for (const query of ["", "?status=SUSPENDED", `?externalUserId=${ext}`])
      assert.equal(must(await players.get(`/players${query}`), 200).pagination.total, 0, query);
    await eventuallyHolds(async () => assert.deepEqual(await board(), []));
    must(await setStatus(id, "ACTIVE", "came back"), 200);
    assert.equal(must(await players.get("/players"), 200).pagination.total, 1);
    assert.equal(must(await players.post("/players", { externalUserId: ext }), 200).warnings, undefined);
    await eventuallyHolds(async () => assert.equal((await board()).length, 1));
  });
});
