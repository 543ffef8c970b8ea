import assert from "node:assert/strict";
import { type ChatLine } from "../../src/domain/kernel/events/social-views.ts";
import { chatTopic } from "../../src/domain/kernel/topics.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { aGame, auditOf } from "../support/app/game.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { emitted } from "../support/app/outbox.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { jobResult } from "../support/app/processed.ts";
import { pluck } from "../support/pluck.ts";

const OPEN = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };

describe("reports of messages", () => {
  let ada: string;
  let messages: string;
  const api = madeOnce(startApp);
  const game = madeForEach(() => aGame(api));
  beforeEach(async () => {
    ada = await game.player("ada");
    for (let at = 0; at < 7; at += 1) await game.player(`p${at}`);
    const { id } = await game.make("/chat/channels", { key: "trade", settings: OPEN });
    messages = `/chat/channels/${id}/messages`;
  });

  const say = async (content: string, playerId = "ext:ada"): Promise<number> =>
    must(await game.post(messages, { content, playerId }), 201).seq;
  const report = (seq: number, playerId: string, more: object = {}) =>
    game.post(`${messages}/${seq}/reports`, { playerId, reason: "HARASSMENT", ...more });
  const seenBy = async (seq: number, playerId?: string) => {
    const as = playerId === undefined ? "" : `&playerId=${playerId}`;
    const { data } = must(await game.get(`${messages}?before=${seq + 1}&limit=1${as}`), 200);
    return [data[0].content, data[0].moderation];
  };
  // oxlint-disable-next-line typescript/no-explicit-any -- what is told depends on the type
  const toldOf = (type: string) => emitted<any>(api.app, game.tenant.projectId, type);
  const review = (id: string) => game.patch(`/chat/reports/${id}`, { status: "IN_REVIEW" });
  const aReport = async (content = "you again") => {
    const seq = await say(content);
    const { id } = must(await report(seq, "ext:p0"), 201);
    return { seq, id };
  };

  it("are one for each player and message, of what the player can read", async () => {
    const seq = await say("you again");
    const made = must(await report(seq, "ext:p0", { note: "Every day" }), 201);
    assert.deepEqual(Object.keys(made), ["id", "createdAt"]);
    assertError(await report(seq, "ext:p0"), 409, "ALREADY_REPORTED");
    assertError(await report(seq, "ext:ada"), 409, "INVALID_STATE");
    assertError(await report(seq + 1, "ext:p0"), 404);
    assertError(await report(seq, "ext:nobody"), 404);
    assertError(await report(seq, "ext:p1", { reason: "BORING" }), 400);
    const other = await aGame(api);
    await other.player("p1");
    const foreign = { playerId: "ext:p1", reason: "SPAM" };
    assertError(await other.post(`${messages}/${seq}/reports`, foreign), 404);
    assertError(await other.get(`/chat/reports/${made.id}`), 404);
    const [told] = await toldOf("chat.message_reported");
    assert.deepEqual([told.reportId, told.reporter.externalUserId, told.reports], [made.id, "p0", 1]);
  });

  it("hold the message with the fifth player in 10 minutes, once, however many race", async () => {
    const seq = await say("you again");
    const lines: ChatLine[] = [];
    const topic = chatTopic(game.tenant.projectId, messages.split("/")[3]!);
    const stop = await api.app.topics.subscribe(topic, (told) => {
      const changes = (told as ChatLine[]).filter(({ name }) => name !== "chat.message");
      lines.push(...changes);
    });
    // Of before: they do not count.
    must(await report(seq, "ext:p6"), 201);
    await api.sql`update chat_reports set created_at = created_at - interval '11 minutes'
      where project_id = ${game.tenant.projectId}`;
    for (const player of [0, 1, 2]) must(await report(seq, `ext:p${player}`), 201);
    assert.deepEqual(await seenBy(seq, "ext:p5"), ["you again", "VISIBLE"]);
    const racing = await Promise.all([3, 4, 5].map((player) => report(seq, `ext:p${player}`)));
    // The last may find it held by then.
    assert.ok(racing.filter(({ status }) => status === 201).length >= 2);
    assert.deepEqual(await seenBy(seq, "ext:p5"), ["", "HELD"]);
    assert.deepEqual(await seenBy(seq, "ext:ada"), ["you again", "HELD"]);
    assert.deepEqual(await toldOf("chat.message_moderated"), [
      { channelId: messages.split("/")[3], seq, action: "HELD", by: "AUTO", flags: ["reports"] },
    ]);
    const restored = must(await game.post(`${messages}/${seq}/restore`), 200);
    assert.deepEqual([restored.content, restored.moderation], ["you again", "VISIBLE"]);
    assert.deepEqual(await seenBy(seq, "ext:p5"), ["you again", "VISIBLE"]);
    assertError(await game.post(`${messages}/${seq}/restore`), 409, "INVALID_STATE");
    await eventually(() => lines.length === 2);
    assert.deepEqual(
      lines.map(({ name, data }) => [name, "seq" in data && data.seq]),
      [
        ["chat.deleted", seq],
        ["chat.edited", seq],
      ],
    );
    stop();
  });

  it("go from OPEN to IN_REVIEW to an end, and no other way, of two moderators for one", async () => {
    const { id } = await aReport();
    const patch = (body: object) => game.patch(`/chat/reports/${id}`, body);
    assertError(await patch({ status: "RESOLVED", action: "NONE" }), 409, "INVALID_STATE");
    assertError(await patch({ status: "DISMISSED" }), 409, "INVALID_STATE");
    assertError(await patch({ status: "OPEN" }), 400);
    const both = await Promise.all([review(id), review(id)]);
    assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 409]);
    const taken = must(await patch({ assignee: "grace" }), 200);
    assert.deepEqual([taken.status, taken.assignee], ["IN_REVIEW", "grace"]);
    assertError(await patch({ status: "RESOLVED" }), 400);
    assertError(await patch({ status: "DISMISSED", action: "BAN" }), 400);
    assertError(await patch({ status: "RESOLVED", action: "WARN", durationSeconds: 5 }), 400);
    const closed = must(await patch({ status: "DISMISSED" }), 200);
    assert.deepEqual([closed.status, closed.assignee, closed.action], ["DISMISSED", "grace", null]);
    assert.ok(closed.resolvedAt && closed.resolvedBy.startsWith("key:"));
    for (const body of [{ status: "IN_REVIEW" }, { status: "RESOLVED", action: "NONE" }, { assignee: "x" }])
      assertError(await patch(body), 409, "INVALID_STATE");
    assertError(await game.patch(`/chat/reports/${crypto.randomUUID()}`, { status: "IN_REVIEW" }), 404);
    const actions = (await auditOf(api, id)).map(({ action, data }) => [action, data.status]);
    assert.deepEqual(actions, [
      ["chat_report.updated", "IN_REVIEW"],
      ["chat_report.updated", "IN_REVIEW"],
      ["chat_report.updated", "DISMISSED"],
    ]);
  });

  it("end with an action that is done in the same commit", async () => {
    const resolve = async (action: string, more: object = {}) => {
      const { id, seq } = await aReport(`words for ${action}`);
      must(await review(id), 200);
      must(await game.patch(`/chat/reports/${id}`, { status: "RESOLVED", action, ...more }), 200);
      return seq;
    };
    const removed = await resolve("REMOVE");
    assert.deepEqual(await seenBy(removed), ["", "REMOVED"]);
    const [moderated] = await toldOf("chat.message_moderated");
    assert.deepEqual([moderated.seq, moderated.action, moderated.by], [removed, "REMOVED", "MODERATOR"]);
    await resolve("WARN", { reason: "Be kind" });
    const [warning] = must(await game.get(`/players/${ada}/inbox`), 200).data;
    assert.deepEqual([warning.type, warning.body], ["chat-warning", "Be kind"]);
    await resolve("NONE");
    await resolve("MUTE", { durationSeconds: 60, channelOnly: true });
    const [mute] = must(await game.get("/chat/sanctions"), 200).data;
    assert.deepEqual(
      [mute.kind, mute.player.playerId, messages.includes(mute.channelId)],
      ["MUTE", ada, true],
    );
    assertError(await game.post(messages, { content: "hello", playerId: "ext:ada" }), 403, "PLAYER_MUTED");
  });

  it("show the message as it was sent, ten neighbours, and what is known of the sender", async () => {
    for (let at = 1; at <= 7; at += 1) await say(`before ${at}`, "ext:p1");
    const { id, seq } = await aReport("shit happens");
    for (let at = 1; at <= 7; at += 1) await say(`after ${at}`, "ext:p1");
    must(await game.post("/chat/sanctions", { playerId: ada, kind: "MUTE", reason: "Spam" }), 201);
    assert.deepEqual(await seenBy(seq, "ext:p0"), ["**** happens", "MASKED"]);
    must(await game.remove(`${messages}/${seq - 1}`), 200);
    const shown = must(await game.get(`/chat/reports/${id}`), 200);
    const { content, original, flags } = shown.message;
    assert.deepEqual([content, original, flags], ["**** happens", "shit happens", ["word:@en"]]);
    const around = shown.neighbours.map((one: { seq: number }) => one.seq - seq);
    assert.deepEqual(around, [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]);
    assert.deepEqual([shown.neighbours[4].content, shown.neighbours[4].original], ["", "before 7"]);
    const { sanctions, sanctionCount, reports, reportCount } = shown.history;
    assert.deepEqual([sanctions[0].reason, sanctionCount, reports[0].id, reportCount], ["Spam", 1, id, 1]);
    const restored = must(await game.post(`${messages}/${seq}/restore`), 200);
    assert.deepEqual([restored.content, restored.moderation], ["shit happens", "VISIBLE"]);
    assert.deepEqual(pluck(await toldOf("chat.message_moderated"), "action"), [
      "MASKED",
      "REMOVED",
      "RESTORED",
    ]);
  });

  it("are listed oldest first, and go with players who are merged or erased", async () => {
    const one = await aReport("one");
    const two = await aReport("two");
    must(await report(two.seq, "ext:p1", { note: "My name is Bob" }), 201);
    const { data } = must(await game.get(`/chat/reports?status=OPEN&senderId=${ada}`), 200);
    assert.deepEqual([data.length, data[0].id], [3, one.id]);
    // Both have reported the second message: one of the reports stays.
    must(await game.post("/players/ext:p1/merge", { sourcePlayerId: "ext:p0" }), 200);
    const merged = must(await game.get("/chat/reports"), 200).data;
    assert.deepEqual(
      merged.map((it: { reporter: { externalUserId: string } }) => it.reporter.externalUserId),
      ["p1", "p1"],
    );
    must(await game.post("/chat/sanctions", { playerId: "ext:p1", kind: "MUTE", reason: "Spam" }), 201);
    const job = must(await game.post("/players/ext:p1/erase", { reason: "asked for" }), 201);
    await jobResult(api, game.tenant, job.id);
    const left = must(await game.get("/chat/reports"), 200).data;
    assert.deepEqual(pluck(left, "note"), [null, null]);
    assert.equal(must(await game.get("/chat/sanctions"), 200).pagination.total, 0);
  });
});
