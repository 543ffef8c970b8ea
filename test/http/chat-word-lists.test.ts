import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { aGame, auditOf } from "../support/app/game.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const OPEN = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0, profanity: "OFF" };

describe("word lists", () => {
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));
  beforeEach(async () => {
    await game.player("ada");
    await game.make("/chat/channels", { key: "trade", settings: OPEN });
  });

  const put = (key: string, body: object, one = game) =>
    api.put(`/api/v1/chat/word-lists/${key}`, body, { key: one.tenant.key });
  const list = (action: string, words: string[], match = "WORD") => ({ action, match, words });
  const say = (content: string) =>
    game.post("/chat/channels/trade/messages", { content, playerId: "ext:ada" });
  const outcome = async (content: string) => {
    const { status, body } = await say(content);
    return status === 201 ? [body.moderation, body.content] : [body.error.reason];
  };

  it("hold from the next message on, after every change, and in their project only", async () => {
    const other = await aGame(api);
    must(await put("slurs", list("BLOCK", ["noob"]), other), 200);
    assert.deepEqual(await outcome("noob one"), ["VISIBLE", "noob one"]);
    must(await put("slurs", list("MASK", ["noob"])), 200);
    assert.deepEqual(await outcome("noob two"), ["MASKED", "**** two"]);
    must(await put("slurs", list("HOLD", ["noob"])), 200);
    assert.deepEqual(await outcome("noob three"), ["HELD", "noob three"]);
    must(await put("more", list("BLOCK", ["oo"], "SUBSTRING")), 200);
    assert.deepEqual(await outcome("noob four"), ["MESSAGE_BLOCKED"]);
    must(await put("fine", list("ALLOW", ["noob"])), 200);
    assert.deepEqual(await outcome("noob five"), ["VISIBLE", "noob five"]);
    must(await game.remove("/chat/word-lists/fine"), 200);
    must(await game.remove("/chat/word-lists/more"), 200);
    must(await game.remove("/chat/word-lists/slurs"), 200);
    assert.deepEqual(await outcome("noob six"), ["VISIBLE", "noob six"]);
    assertError(await game.remove("/chat/word-lists/slurs"), 404);
  });

  it("are refused with more words that differ in doubled letters alone than are compared", async () => {
    const twins = Array.from({ length: 33 }, (_, n) =>
      Array.from("abcdef", (letter, i) => ((n >> i) & 1 ? letter + letter : letter)).join(""),
    );
    const refused = await put("slurs", list("BLOCK", twins));
    assertError(refused, 400);
    assert.equal(refused.body.error.details[0].field, "words.32");
    must(await put("slurs", list("BLOCK", [...twins.slice(0, 32), "noob"])), 200);
    for (const word of [twins[0]!, twins[31]!]) assert.deepEqual(await outcome(word), ["MESSAGE_BLOCKED"]);
  });

  it("are made, replaced and shown with their words, each change in the audit log", async () => {
    const made = must(await put("slurs", list("MASK", ["b", "a", "b"])), 200);
    assert.deepEqual([made.words, made.wordCount, made.match], [["b", "a"], 2, "WORD"]);
    must(await put("slurs", list("BLOCK", [], "SUBSTRING")), 200);
    const { data } = must(await game.get("/chat/word-lists"), 200);
    assert.deepEqual(pluck(data, "key", "action", "wordCount", "words"), [["slurs", "BLOCK", 0, undefined]]);
    const shown = must(await game.get("/chat/word-lists/slurs"), 200);
    assert.deepEqual([shown.words, shown.createdAt], [[], made.createdAt]);
    must(await game.remove("/chat/word-lists/slurs"), 200);
    assertError(await game.get("/chat/word-lists/slurs"), 404);
    const audited = (await auditOf(api, "slurs")).filter(({ tenant }) => tenant === game.tenant.tenantId);
    assert.deepEqual(pluck(audited, "action"), [
      "chat_word_list.saved",
      "chat_word_list.saved",
      "chat_word_list.deleted",
    ]);
  });

  it("are refused when they have what no text can have, or too much", async () => {
    assertError(await put("Bad Key", list("MASK", [])), 400);
    assertError(await put("a", list("KILL", [])), 400);
    assertError(await put("a", list("MASK", ["x".repeat(65)])), 400);
    assertError(await put("a", list("MASK", ["\u200b"])), 400);
    const many = (count: number) => Array.from({ length: count }, (_, at) => `word${at}`);
    assertError(await put("a", list("MASK", many(5_001))), 400);
    const bad = await put("a", list("MASK", ["fine", "***"]));
    assert.equal(bad.body.error.details[0].field, "words.1");
    must(await put("a", list("MASK", many(5_000))), 200);
    for (let at = 1; at < 49; at += 1) must(await put(`list-${at}`, list("MASK", ["x"])), 200);
    const racing = await Promise.all(["y", "z"].map((key) => put(key, list("MASK", ["x"]))));
    assert.deepEqual(racing.map(({ status }) => status).toSorted(), [200, 409]);
    assertError(
      racing.find(({ status }) => status === 409)!,
      409,
      "LIMIT_REACHED",
    );
    must(await put("a", list("MASK", ["y"])), 200);
  });

  it("tell by a trial which of them would match where, and write nothing", async () => {
    must(await put("slurs", list("HOLD", ["noob"])), 200);
    const { id } = must(await game.get("/chat/channels/trade"), 200);
    const trial = (text: string, channelId?: string) => game.post("/chat/filter/test", { text, channelId });
    const held = must(await trial("you n00b, shit"), 200);
    assert.deepEqual(
      [held.outcome, held.content, held.flags],
      ["HELD", "you n00b, ****", ["word:slurs", "word:@en"]],
    );
    assert.deepEqual(held.words[0], { list: "slurs", word: "noob", action: "HOLD", start: 4, end: 8 });
    assert.equal(must(await trial("you n00b, shit", id), 200).words.length, 1);
    const link = must(await trial("see www.example.com"), 200);
    assert.deepEqual([link.outcome, link.reason, link.content], ["BLOCKED", "LINK_NOT_ALLOWED", null]);
    assert.deepEqual(link.links, [{ host: "www.example.com", domain: "example.com" }]);
    assertError(await trial("text", crypto.randomUUID()), 404);
    assertError(await game.post("/chat/filter/test", {}), 400);
    assert.deepEqual(must(await game.get("/chat/channels/trade/messages"), 200).data, []);
  });
});
