import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { type Players, playersOf } from "../support/players/players.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("ids of players", () => {
  let players: Players;
  const api = madeOnce(startApp);
  before(async () => {
    players = playersOf(api, await aTenant(api));
  });

  describe("at other providers", () => {
    it("are given once, listed after the integrator's own, found by the list, and taken away", async () => {
      const { id, ext } = await players.add();
      const externalId = `dev/ä:${randomUUID()}`;
      const path = `/players/${id}/identities`;
      const made = await players.post(path, { provider: "device", externalId });
      assert.equal(made.status, 201);
      assert.equal((await players.post(path, { provider: "device", externalId })).status, 200);
      const { data } = must(await players.get(path), 200);
      const shown = data.map((one: { provider: string; externalId: string }) => [
        one.provider,
        one.externalId,
      ]);
      assert.deepEqual(shown, [
        ["external", ext],
        ["device", externalId],
      ]);
      const query = `?identity=${encodeURIComponent(`device:${externalId}`)}`;
      const found = must(await players.get(`/players${query}`), 200);
      assert.deepEqual([found.pagination.total, found.data[0].id], [1, id]);
      assert.deepEqual((await players.read(`${id}?include=identities`)).identities, data);
      must(await players.delete(`${path}/device/${encodeURIComponent(externalId)}`), 200);
      assertError(await players.delete(`${path}/device/${encodeURIComponent(externalId)}`), 404);
      assert.equal(must(await players.get(`/players${query}`), 200).pagination.total, 0);
    });

    it("are one player's alone", async () => {
      const [a, b] = [await players.add(), await players.add()];
      const body = { provider: "steam", externalId: randomUUID() };
      must(await players.post(`/players/${a.id}/identities`, body), 201);
      assertError(await players.post(`/players/${b.id}/identities`, body), 409, "IDENTITY_TAKEN");
    });

    it("are at most 50, and none takes the place of the integrator's own", async () => {
      const { id } = await players.add();
      const add = (provider: string) =>
        players.post(`/players/${id}/identities`, { provider, externalId: randomUUID() });
      assertError(await add("external"), 400);
      assertError(await add("No Such"), 400);
      for (let i = 0; i < 50; i++) must(await add("device"), 201);
      assertError(await add("device"), 409, "IDENTITY_LIMIT");
      assert.equal(must(await players.get(`/players/${id}/identities`), 200).data.length, 51);
    });
  });

  describe("by alias", () => {
    const alias = (anonymousId: string, externalUserId: string) =>
      players.post("/players/alias", { anonymousId, externalUserId });

    it("rename a player to a new id, and both ids find the player and count events", async () => {
      const { id, ext } = await players.add();
      const name = `known-${randomUUID()}`;
      const { player, merged } = must(await alias(ext, name), 200);
      assert.deepEqual([player.id, player.externalUserId, merged], [id, name, false]);
      for (const ref of [id, `ext:${ext}`, `ext:${name}`]) assert.equal((await players.read(ref)).id, id);
      for (const sender of [ext, name]) {
        const { status } = await players.track(sender, "seen");
        assert.equal(status, "PROCESSED");
      }
      const { data } = must(await players.get(`/players/${id}/activity?types=player.updated`), 200);
      assert.deepEqual(data[0].data.after, { externalUserId: name });
      const list = await players.get(`/players?externalUserId=${ext}&externalUserId=${name}`);
      assert.equal(must(list, 200).pagination.total, 1, "the old name is in no list");
    });

    it("say the same again without a change, also when several say it at once", async () => {
      const { id, ext } = await players.add();
      const name = `known-${randomUUID()}`;
      const answers = await Promise.all(Array.from({ length: 5 }, () => alias(ext, name)));
      for (const answer of answers) {
        const { player, merged } = must(answer, 200);
        assert.deepEqual([player.id, player.externalUserId, merged], [id, name, false]);
      }
      assert.equal((await players.read(id)).seq, 2);
    });

    it("merge a player into one who has the id", async () => {
      const [anonymous, known] = [await players.add({ tags: ["new"] }), await players.add()];
      await players.xp(anonymous.id, 120);
      await players.xp(known.id, 30);
      const { player, merged } = must(await alias(anonymous.ext, known.ext), 200);
      assert.deepEqual([player.id, player.xp, player.tags, merged], [known.id, 150, ["new"], true]);
      assert.equal((await players.read(anonymous.id)).id, known.id);
      assert.equal(must(await alias(anonymous.ext, known.ext), 200).merged, false);
    });

    it("give the next person on a device nothing of the one before", async () => {
      const device = await players.add();
      const alice = `alice-${randomUUID()}`;
      assert.equal(must(await alias(device.ext, alice), 200).linked, true);
      await players.xp(device.id, 500);
      for (const bob of [{ ext: `bob-${randomUUID()}` }, await players.add()]) {
        const answer = must(await alias(device.ext, bob.ext), 200);
        assert.deepEqual([answer.merged, answer.linked], [false, false]);
        assert.deepEqual([answer.player.externalUserId, answer.player.xp], [bob.ext, 0]);
        assert.notEqual(answer.player.id, device.id);
      }
      const still = await players.read(`ext:${device.ext}`);
      assert.deepEqual([still.id, still.externalUserId, still.xp], [device.id, alice, 500]);
    });

    it("leave an identified player as they are, also under their own name", async () => {
      const [device, cara, dan] = [await players.add(), await players.add(), await players.add()];
      must(await alias(device.ext, cara.ext), 200);
      for (const next of [dan.ext, `new-${randomUUID()}`])
        assert.equal(must(await alias(cara.ext, next), 200).linked, false);
      assert.equal((await players.read(`ext:${cara.ext}`)).id, cara.id);
      assert.equal((await players.read(`ext:${dan.ext}`)).id, dan.id);
    });

    it("need somebody to be known by", async () => {
      assertError(await alias(randomUUID(), randomUUID()), 404);
      assertError(await players.post("/players/alias", { anonymousId: "x" }), 400);
    });
  });

  describe("in a batch", () => {
    const batch = (list: unknown[]) => players.post("/players/batch", { players: list });

    it("make and change players in order, and reject a bad one alone, naming what is wrong", async () => {
      const known = await players.add({ attributes: { a: 1 } });
      const fresh = `fresh-${randomUUID()}`;
      const answer = await batch([
        { externalUserId: known.ext, displayName: "Ada", attributes: { b: 2 } },
        { externalUserId: fresh, tags: ["x"], metadata: { m: 1 } },
        { externalUserId: fresh, tags: ["y"], timezone: "Asia/Tokyo" },
        { externalUserId: "", displayName: "nobody" },
        { externalUserId: "bad-zone", timezone: "Nowhere/Here" },
        { externalUserId: "bad\u0000text" },
        {
          externalUserId: "big",
          attributes: Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`k${n}`, 1])),
        },
        7,
      ]);
      const { results, ...counts } = must(answer, 200);
      assert.deepEqual(counts, { created: 1, updated: 2, rejected: 5 });
      assert.deepEqual(pluck(results, "status"), [
        "UPDATED",
        "CREATED",
        "UPDATED",
        "REJECTED",
        "REJECTED",
        "REJECTED",
        "REJECTED",
        "REJECTED",
      ]);
      assert.match(results[4].message, /^timezone/);
      assert.match(results[6].message, /more than 100 attributes/);
      const [a, b] = [await players.read(known.id), await players.read(`ext:${fresh}`)];
      assert.deepEqual([a.displayName, a.attributes], ["Ada", { a: 1, b: 2 }]);
      assert.deepEqual([b.tags, b.metadata, b.timezone, b.seq], [["x", "y"], { m: 1 }, "Asia/Tokyo", 2]);
      for (const name of ["bad-zone", "big"]) assertError(await players.get(`/players/ext:${name}`), 404);
    });
  });
});
