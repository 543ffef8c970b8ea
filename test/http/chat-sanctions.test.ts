import assert from "node:assert/strict";
import { sql } from "kysely";
import { muteBlocked } from "../../src/domain/social/chat/moderation/sanction-changes.ts";
import type { PlayerNotice } from "../../src/domain/kernel/events/domain-events.ts";
import { noticeTopic } from "../../src/domain/kernel/topics.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { aGame, auditOf } from "../support/app/game.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { emitted } from "../support/app/outbox.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const OPEN = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0, links: "BLOCK" };

describe("mutes, bans and appeals", () => {
  let ada: string;
  let trade: string;
  const api = madeOnce(startApp);
  const ends: (() => void)[] = [];
  afterEach(() => {
    for (const end of ends.splice(0)) end();
  });
  const game = madeForEach(() => aGame(api));
  beforeEach(async () => {
    ada = await game.player("ada");
    await game.player("bob");
    trade = (await game.make("/chat/channels", { key: "trade", settings: OPEN })).id;
  });

  const say = (content: string, playerId = "ext:ada", channel = trade) =>
    game.post(`/chat/channels/${channel}/messages`, { content, playerId });
  const sanction = (kind: string, more: object = {}) =>
    game.make("/chat/sanctions", { playerId: "ext:ada", kind, reason: "Spam", ...more });
  const read = async (playerId: string) =>
    must(await game.get(`/chat/channels/${trade}/messages?playerId=${playerId}`), 200).data;
  // oxlint-disable-next-line typescript/no-explicit-any -- what is told depends on the type
  const toldOf = (type: string) => emitted<any>(api.app, game.tenant.projectId, type);

  it("hold from the next message on, in one channel or all, until they are revoked or over", async () => {
    const mute = await sanction("MUTE", { channelId: trade, durationSeconds: 3_600 });
    assert.deepEqual([mute.kind, mute.channelId, mute.isActive], ["MUTE", trade, true]);
    const muted = await say("hello");
    assertError(muted, 403, "PLAYER_MUTED");
    const leftSeconds = Number(muted.headers.get("retry-after"));
    assert.ok(leftSeconds > 3_000 && leftSeconds <= 3_600);
    assert.ok(muted.body.error.message.includes(mute.expiresAt));
    must(await say("elsewhere", "ext:ada", "global"), 201);
    must(await say("hello", "ext:bob"), 201);
    assert.equal((await read("ext:ada")).length, 1);
    const revoked = must(await game.remove(`/chat/sanctions/${mute.id}`), 200);
    assert.deepEqual([revoked.isActive, revoked.revokedBy], [false, mute.createdBy]);
    must(await say("free"), 201);
    assertError(await game.remove(`/chat/sanctions/${mute.id}`), 409, "INVALID_STATE");

    await sanction("MUTE", { durationSeconds: 1 });
    await api.app.transact(({ db, now }) =>
      sql`update chat_sanctions set expires_at = ${now.toISOString()}::timestamptz
        where project_id = ${game.tenant.projectId}
          and expires_at > ${now.toISOString()}::timestamptz`.execute(db),
    );
    must(await say("again"), 201);
    const { data, pagination } = must(await game.get("/chat/sanctions?playerId=ext:ada&active=false"), 200);
    assert.deepEqual([data.length, pagination.total], [2, 2]);
    assert.equal(must(await game.get("/chat/sanctions?active=true"), 200).pagination.total, 0);
  });

  /** What the player is told from now on, as it comes. */
  const noticesTo = async (playerId: string): Promise<PlayerNotice[]> => {
    const notices: PlayerNotice[] = [];
    const topic = noticeTopic(game.tenant.projectId, playerId);
    ends.push(await api.app.topics.subscribe(topic, (notice: PlayerNotice) => void notices.push(notice)));
    return notices;
  };

  it("shut the banned out of reading too, and tell the player and integrators", async () => {
    const notices = await noticesTo(ada);
    await sanction("BAN");
    assertError(await say("hello"), 403, "PLAYER_BANNED");
    assertError(await game.get(`/chat/channels/${trade}/messages?playerId=ext:ada`), 403, "PLAYER_BANNED");
    const [told] = await toldOf("chat.player_sanctioned");
    assert.deepEqual([told.playerId, told.externalUserId, told.kind], [ada, "ada", "BAN"]);
    const notice = {
      name: "chat.sanction",
      data: { kind: "BAN", channelId: null, expiresAt: null, reason: "Spam" },
    };
    await eventually(() => notices.length > 0);
    assert.deepEqual(notices, [notice]);
    // Nobody asks for it again, so it is not kept.
    await eventuallyHolds(async () => assert.deepEqual(await toldOf("player.notice"), []));
  });

  it("take channels out of the lists of the banned, with what was said there last", async () => {
    const keys = async () => {
      const { data } = must(await game.get("/chat/channels?playerId=ext:ada"), 200);
      return data.map(({ key }: { key: string }) => key).toSorted();
    };
    assert.deepEqual(await keys(), ["global", "trade"]);
    const { id } = await sanction("BAN", { channelId: trade });
    assert.deepEqual(await keys(), ["global"]);
    must(await game.remove(`/chat/sanctions/${id}`), 200);
    assert.deepEqual(await keys(), ["global", "trade"]);
    await sanction("BAN");
    assert.deepEqual(await keys(), []);
  });

  it("show what the shadow-muted write to them only, and tell them nothing", async () => {
    const notices = await noticesTo(ada);
    await sanction("SHADOW_MUTE");
    const sent = must(await say("psst"), 201);
    assert.deepEqual([sent.content, sent.moderation], ["psst", "VISIBLE"]);
    assert.deepEqual([(await read("ext:ada"))[0].content, (await read("ext:bob"))[0].content], ["psst", ""]);
    assert.deepEqual([await toldOf("player.notice"), await toldOf("chat.message_sent")], [[], []]);
    // Rows are relayed in order: what comes after it is told.
    await sanction("MUTE");
    await eventually(() => notices.length > 0);
    assert.deepEqual(
      notices.map(({ data }) => "kind" in data && data.kind),
      ["MUTE"],
    );
    assert.equal((await toldOf("chat.player_sanctioned")).length, 2);
  });

  it("are appealed against once by their player, and end when that is accepted", async () => {
    const { id } = await sanction("BAN");
    const path = `/chat/sanctions/${id}/appeal`;
    const appeal = (playerId: string, text = "It was my brother") => game.post(path, { playerId, text });
    assertError(await game.patch(path, { status: "ACCEPTED" }), 409, "INVALID_STATE");
    assertError(await appeal("ext:bob"), 404);
    assertError(await appeal("ext:ada", "x".repeat(1_001)), 400);
    const open = must(await appeal("ext:ada"), 200);
    assert.equal(open.appeal.status, "OPEN");
    assertError(await appeal("ext:ada"), 409, "ALREADY_APPEALED");
    assert.equal(must(await game.get("/chat/sanctions?appealStatus=OPEN"), 200).data[0].id, id);
    const answered = must(await game.patch(path, { status: "ACCEPTED" }), 200);
    assert.deepEqual([answered.appeal.status, answered.isActive], ["ACCEPTED", false]);
    must(await say("back"), 201);
    const shadow = await sanction("SHADOW_MUTE");
    assertError(
      await game.post(`/chat/sanctions/${shadow.id}/appeal`, { playerId: "ext:ada", text: "?" }),
      404,
    );
    const audited = (await auditOf(api, id)).map(({ action, actor }) => [action, actor.split(":")[0]]);
    assert.deepEqual(audited, [
      ["chat_sanction.created", "key"],
      ["chat_sanction.appeal_accepted", "key"],
    ]);
  });

  it("are refused for what there is not, and beyond 20 that hold", async () => {
    const post = (body: object) =>
      game.post("/chat/sanctions", { playerId: "ext:ada", kind: "MUTE", reason: "Spam", ...body });
    assertError(await post({ playerId: "ext:nobody" }), 404);
    assertError(await post({ channelId: crypto.randomUUID() }), 400);
    const made = await Promise.all(Array.from({ length: 22 }, () => post({})));
    assert.equal(made.filter(({ status }) => status === 201).length, 20);
    const refused = made.filter(({ status }) => status !== 201);
    for (const one of refused) assertError(one, 409, "LIMIT_REACHED");
    const other = await aGame(api);
    assertError(
      await other.get(`/chat/sanctions/${made.find(({ status }) => status === 201)!.body.id}`),
      404,
    );
  });

  it("come by themselves after three blocked messages, and a report with the third in a week", async () => {
    const automatic = async () =>
      must(await game.get("/chat/sanctions?playerId=ext:ada"), 200).data.filter(
        (one: { isAutomatic: boolean }) => one.isAutomatic,
      );
    const block = async (suffix: string) =>
      assertError(await say(`evil.com ${suffix}`), 400, "LINK_NOT_ALLOWED");
    // What is refused for its rate or by a sanction does not count.
    await sanction("MUTE", { durationSeconds: 60, channelId: trade });
    for (const suffix of ["a", "b", "c"]) assertError(await say(`evil.com ${suffix}`), 403, "PLAYER_MUTED");
    const [byHand] = must(await game.get("/chat/sanctions?active=true"), 200).data;
    must(await game.remove(`/chat/sanctions/${byHand.id}`), 200);
    await block("one");
    await block("two");
    assert.deepEqual(await automatic(), []);
    const keyed = { key: game.tenant.key, headers: { "X-Idempotency-Key": "blocked-3" } };
    const third = { content: "evil.com three", playerId: "ext:ada" };
    const answer = await api.post(`/api/v1/chat/channels/${trade}/messages`, third, keyed);
    assertError(answer, 400, "LINK_NOT_ALLOWED");
    const [mute, ...others] = await automatic();
    assert.deepEqual([others, mute.kind, mute.channelId, mute.createdBy], [[], "MUTE", null, "system"]);
    assert.equal(Date.parse(mute.expiresAt) - Date.parse(mute.createdAt), 600_000);
    assertError(await say("hello"), 403, "PLAYER_MUTED");

    // Two more times in the week, at once and again.
    const sender = { projectId: game.tenant.projectId, channelId: trade, playerId: ada };
    for (let time = 0; time < 3; time += 1) {
      await api.sql`update chat_sanctions set created_at = created_at - interval '11 minutes'
        where project_id = ${game.tenant.projectId} and is_automatic`;
      const twice = () => api.app.transact((work) => muteBlocked(work, sender));
      await Promise.all([twice(), twice()]);
    }
    assert.equal((await automatic()).length, 4);
    const reports = must(await game.get("/chat/reports?status=OPEN"), 200).data;
    assert.equal(reports.length, 1);
    const [report] = reports;
    assert.deepEqual([report.seq, report.reporter, report.sender.playerId], [null, null, ada]);
  });
});
