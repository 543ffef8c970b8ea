import assert from "node:assert/strict";
import { prune, PRUNES } from "../../src/domain/registries/pruning.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aGame } from "../support/app/game.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const DAY_MS = 86_400_000;

describe("a player's inbox", () => {
  let player: string;
  let inbox: string;
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));
  beforeEach(async () => {
    player = await game.player("ada");
    inbox = `/players/${player}/inbox`;
  });

  const titles = async (query = ""): Promise<string[]> =>
    must(await game.get(`${inbox}${query}`), 200).data.map((one: { title: string }) => one.title);

  it("has what was sent, newest first, told in the player's stream and marked when it is read", async () => {
    const first = must(await game.post(inbox, { title: "One", type: "news", data: { a: 1 } }), 201);
    const { id, createdAt, expiresAt, ...rest } = first;
    assert.equal(Date.parse(expiresAt) - Date.parse(createdAt), 90 * DAY_MS);
    assert.deepEqual(rest, {
      type: "news",
      title: "One",
      body: null,
      data: { a: 1 },
      rewardGrantId: null,
      readAt: null,
    });
    must(await game.post("/players/ext:ada/inbox", { title: "Two", body: "Text" }), 201);
    assert.deepEqual(await titles(), ["Two", "One"]);
    const [type, data] = (await game.told(player))[0]!;
    assert.deepEqual([type, data["id"], data["title"]], ["inbox.message", id, "One"]);
    const read = must(await game.post(`${inbox}/${id}/read`), 200);
    assert.ok(read.readAt);
    assert.equal(must(await game.post(`${inbox}/${id}/read`), 200).readAt, read.readAt);
    assert.deepEqual([await titles("?unread=true"), await titles("?unread=false")], [["Two"], ["One"]]);
    assert.deepEqual([await titles("?type=news"), await titles("?type=other")], [["One"], []]);
    assert.equal((await game.get(`${inbox}?limit=1`)).body.pagination.total, 2);
  });

  it("brings a reward to be claimed for as long as the message stays", async () => {
    await game.make("/rewards", { key: "box", name: "Box", kind: "BUNDLE", bundle: { xp: 5 }, stock: 1 });
    const expiresAt = new Date(Date.now() + DAY_MS).toISOString();
    const sent = must(await game.post(inbox, { title: "Yours", rewardKey: "box", expiresAt }), 201);
    const [waiting] = (await game.get(`/players/${player}/rewards?status=PENDING`)).body.data;
    assert.equal(waiting.id, sent.rewardGrantId);
    assert.ok(Math.abs(Date.parse(waiting.expiresAt) - Date.parse(expiresAt)) <= 1_000);
    must(await game.post(`/players/${player}/rewards/${waiting.id}/claim`), 200);
    assert.equal((await game.get(`/players/${player}`)).body.xp, 5);
    assertError(await game.post(inbox, { title: "Yours", rewardKey: "box" }), 409, "OUT_OF_STOCK");
    assert.deepEqual(await titles(), ["Yours"]);
  });

  it("loses messages that have ended, and then they are deleted", async () => {
    const { id } = must(await game.post(inbox, { title: "Old" }), 201);
    await game.post(inbox, { title: "New" });
    await api.sql`update inbox_messages set expires_at = created_at where id = ${id}`;
    assert.deepEqual(await titles(), ["New"]);
    assertError(await game.post(`${inbox}/${id}/read`), 404);
    const one = PRUNES.find(({ table }) => table === "inbox_messages")!;
    assert.ok((await api.app.transact((work) => prune(work, one, 1_000))) >= 1);
    const left = await api.sql`select 1 from inbox_messages where player_id = ${player}`;
    assert.equal(left.length, 1);
  });

  it("takes nothing that does not fit, and nothing for players who are not active", async () => {
    for (const [field, body] of [
      ["title", {}],
      ["title", { title: "" }],
      ["title", { title: "x".repeat(201) }],
      ["body", { title: "T", body: "x".repeat(4_001) }],
      ["type", { title: "T", type: "Not a key" }],
      ["data", { title: "T", data: { a: "x".repeat(9_000) } }],
      ["rewardKey", { title: "T", rewardKey: "gone" }],
      ["expiresAt", { title: "T", expiresAt: "2026-01-01T00:00:00Z" }],
      ["expiresAt", { title: "T", expiresAt: "2126-01-01T00:00:00Z" }],
      ["expiresAt", { title: "T", expiresAt: "tomorrow" }],
    ] as const) {
      const answer = await game.post(inbox, body);
      assert.equal(answer.status, 400, JSON.stringify(body).slice(0, 60));
      assert.equal(answer.body.error.details[0].field, field);
    }
    await game.setStatus(player, "BANNED");
    assertError(await game.post(inbox, { title: "T" }), 409, "PLAYER_INACTIVE");
    assertError(await game.get(`${inbox}?unread=maybe`), 400);
    assert.deepEqual(await titles(), []);
  });

  it("has no message of another player", async () => {
    const { id } = must(await game.post(inbox, { title: "T" }), 201);
    const bob = await game.player("bob");
    assertError(await game.post(`/players/${bob}/inbox/${id}/read`), 404);
    assertError(await game.post(`${inbox}/none/read`), 404);
  });
});
