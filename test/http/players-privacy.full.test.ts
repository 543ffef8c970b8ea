import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import assert from "node:assert/strict";
import { must } from "../support/http/client.ts";
import { type Players, playersOf } from "../support/players/players.ts";
import { newId, NIL_ID } from "../../src/domain/kernel/ids.ts";
import { eventually } from "../support/eventually.ts";
import { PERSONAL_TABLES } from "../../src/domain/player-lifecycle/erase-rows.ts";
import { createProjectJobs } from "../../src/jobs/jobs.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { madeOnce } from "../support/made.ts";

const OPEN = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };

/** The person to be written of; `secret` gives a text that names them. */
type Chatting = { id: string; mark: string; secret(what: string): string };

/** Leaves texts of a person wherever chat keeps any: messages, former ones, reports, sanctions, appeals. */
const chatAs = async (players: Players, { id, mark, secret }: Chatting): Promise<void> => {
  const other = must(await players.post("/players", { externalUserId: randomUUID() }), 201).id;
  const channel = { key: `c-${randomUUID()}`, settings: OPEN };
  const messages = `/chat/channels/${must(await players.post("/chat/channels", channel), 201).id}/messages`;
  const say = async (playerId: string, content: string): Promise<number> =>
    must(await players.post(messages, { playerId, content }), 201).seq;
  const own = await say(id, `${secret("said")} shit`);
  must(await players.patch(`${messages}/${own}`, { playerId: id, content: secret("edited") }), 200);
  const others = await say(other, "hello");
  const report = { playerId: id, reason: "OTHER", note: secret("note") };
  must(await players.post(`${messages}/${others}/reports`, report), 201);
  // Of another, about the person: it is not shown to them, and goes when they are erased.
  const about = { playerId: other, reason: "OTHER", note: `about-${mark}` };
  must(await players.post(`${messages}/${own}/reports`, about), 201);
  const sanction = { playerId: id, kind: "MUTE", reason: secret("sanction"), durationSeconds: 60 };
  const made = must(await players.post("/chat/sanctions", sanction), 201);
  const appeal = { playerId: id, text: secret("appeal") };
  must(await players.post(`/chat/sanctions/${made.id}/appeal`, appeal), 200);
  must(await players.delete(`/chat/sanctions/${made.id}`), 200);
};

/** Tables in which rows of several players, or of others, name the person. */
const OTHERS = [
  "lobbies",
  "lobby_matches",
  "chat_channels",
  "chat_messages",
  "inbox_messages",
  "outbox",
] as const;

/** The person to be told of: every text of theirs contains `mark`. */
type Playing = { id: string; ext: string; mark: string };

/** Has a person lead boards, play a match and be written of, so that many rows of others name them. */
const playAs = async (players: Players, person: Playing): Promise<void> => {
  const [other, third] = [await players.add(), await players.add()];
  await fillPage(players);
  await leadBoards(players, person, other.id);
  const guests = { other: other.id, third: third.id };
  await playMatch(players, person, guests);
  await leaveOpen(players, person, guests.other);
  await beMentioned(players, person, other);
};

/** What names the person comes after more rows than one step looks at. */
const fillPage = async (players: Players): Promise<void> => {
  const ids = JSON.stringify(Array.from({ length: 2_100 }, () => newId()));
  await players.query(sql`
    insert into outbox (project_id, id, type, data, created_at)
    select ${players.projectId}::uuid, id::uuid, 'rule.loop_detected', '{}', now()
    from json_array_elements_text(${ids}::json) as id`);
};

/** First on a period that closes, and the leader before of one that goes on. */
const leadBoards = async (players: Players, { id, mark }: Playing, other: string): Promise<void> => {
  const score = async (key: string, playerId: string, points: number): Promise<void> => {
    const submitted = { playerId, score: points, meta: { replay: playerId === id ? `meta-${mark}` : "x" } };
    must(await players.post(`/leaderboards/${key}/scores`, submitted), 200);
  };
  const definition = { metric: { source: "CUSTOM" }, operator: "BEST", period: { kind: "DAILY" } };
  const [closing, led] = [`c${randomUUID()}`.slice(0, 20), `l${randomUUID()}`.slice(0, 20)];
  const isHeld = { bounds: { max: 100, onViolation: "HOLD" } };
  for (const key of [closing, led])
    must(await players.post("/leaderboards", { key, name: key, ...definition, ...isHeld }), 201);
  await score(closing, id, 9);
  await score(closing, other, 8);
  const [period] = must(await players.get(`/leaderboards/${closing}/periods`), 200).data;
  must(await players.post(`/leaderboards/${closing}/reset`, {}), 200);
  const results = `/leaderboards/${closing}/periods/${period.key}/results`;
  await eventually(async () => (await players.get(results)).status === 200);
  type Line = { data: { leader?: { playerId: string } } };
  const leaderIs = (who: string) =>
    eventually(async (): Promise<boolean> => {
      const { data } = must(await players.get(`/leaderboards/${led}/feed`), 200);
      return (data as Line[]).some((line) => line.data.leader?.playerId === who);
    });
  await score(led, id, 9);
  await leaderIs(id);
  await score(led, other, 10);
  await leaderIs(other);
  await score(led, id, 1_000);
};

/** Hosts a lobby, invites into it and plays, with texts wherever a lobby takes any. */
const playMatch = async (
  players: Players,
  { id, mark }: Playing,
  { other, third }: { other: string; third: string },
): Promise<void> => {
  const opened = must(
    await players.post("/lobbies", {
      hostPlayerId: id,
      mode: "duel",
      name: `lobby-${mark}`.slice(0, 64),
      maxPlayers: 4,
      metadata: { note: `lobby-metadata-${mark}` },
      privateData: { note: `lobby-private-${mark}` },
      settings: { countdownSeconds: 0, readyPolicy: "HOST" },
    }),
    201,
  );
  const act = async (what: string, body: object) =>
    must(await players.post(`/lobbies/${opened.id}/${what}`, body), 200);
  await act("invites", { playerId: id, playerIds: [third] });
  await act("join", { playerId: other });
  must(
    await players.patch(`/lobbies/${opened.id}/members/${id}`, {
      actingPlayerId: id,
      data: { note: `seat-${mark}` },
    }),
    200,
  );
  const { matchId } = await act("start", { playerId: id });
  await act("end", {
    matchId,
    results: [
      { playerId: id, outcome: "WIN", stats: { note: `stats-${mark}` } },
      { playerId: other, outcome: "LOSS", stats: { kills: 3 } },
    ],
  });
};

/** Is in the lobby of another, which goes on. */
const leaveOpen = async (players: Players, { id, mark }: Playing, other: string): Promise<void> => {
  const lobby = must(
    await players.post("/lobbies", { hostPlayerId: other, mode: "trio", maxPlayers: 4 }),
    201,
  );
  const joining = { playerId: id, data: { note: `seat-${mark}` } };
  must(await players.post(`/lobbies/${lobby.id}/join`, joining), 200);
};

/** Mentions another, whose inbox has a note of it then, and is mentioned by name. */
const beMentioned = async (
  players: Players,
  { id, ext, mark }: Playing,
  other: { id: string; ext: string },
): Promise<void> => {
  const { id: channel } = must(await players.post("/chat/channels", { key: `c-${randomUUID()}` }), 201);
  const say = async (playerId: string, content: string) =>
    must(await players.post(`/chat/channels/${channel}/messages`, { playerId, content }), 201);
  await say(id, `@${other.ext} mention-${mark}`);
  await say(other.id, `@${ext}: well played, @somebody`);
};

/** The stats in the results of a player's matches. */
const statsOf = async (players: Players, playerId: string): Promise<(object | undefined)[]> => {
  const played = JSON.stringify([playerId]);
  const matches = await players.query(sql<{ results: { stats?: object }[] }>`
    select results from lobby_matches
    where project_id = ${players.projectId} and players @> ${played}::jsonb`);
  return matches.flatMap(({ results }) => results.map(({ stats }) => stats));
};

/** A person of whom everything is known, each text of its own. */
type Known = { id: string; ext: string; oldExt: string; secrets: string[]; mark: string };

describe("what is known of a person", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  const players = madeOnce(() => playersOf(api, tenant));
  before(async () => {
    await players.define("currencies", { key: "coins", name: "Coins", expiryDays: 30 });
    await players.define("badges", { key: "fan", name: "Fan" });
    await players.define("segments", { key: "vips", name: "VIPs" });
    await players.define("streaks", {
      key: "daily",
      name: "Daily",
      qualify: { parts: [{ metric: { eventTypes: ["told"], aggregate: "count" } }] },
    });
    await players.define("rewards", { key: "card", name: "Card", kind: "PRIZE", fulfilment: "CODE" });
    const shadow = {
      key: "shadow",
      name: "Shadow",
      triggers: [{ kind: "EVENT", eventTypes: ["told"] }],
      actions: [{ type: "grant_xp", amount: 3 }],
    };
    const live = must(await players.post("/rules", { ...shadow, key: "live" }), 201);
    must(await players.post(`/rules/${live.id}/publish`, {}), 200);
    const { id } = must(await players.post("/rules", shadow), 201);
    must(await players.post(`/rules/${id}/publish`, { mode: "SHADOW" }), 200);
    must(await players.post("/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } }), 201);
    const steps = [{ key: "write", name: "Write", kind: "MANUAL", evidence: "TEXT", requiresApproval: true }];
    must(await players.post("/quests", { key: "letters", name: "Letters", steps }), 201);
    must(await players.post("/quests/letters/publish", {}), 200);
    must(
      await players.post("/rewards/card/codes", {
        codes: Array.from({ length: 10 }, () => `GIFT-${randomUUID()}`),
      }),
      200,
    );
  });

  /** Makes a person of two merged players, with something in every place that keeps text of callers. */
  const aPerson = async (): Promise<Known> => {
    const secrets: string[] = [];
    // In every text of the person and nowhere else, so that one look finds all of them.
    const mark = randomUUID();
    const secret = (what: string): string => {
      const text = `${what}-${mark}`;
      secrets.push(text);
      return text;
    };
    const [ext, oldExt] = [secret("ext"), secret("old")];
    const profile = {
      displayName: secret("name"),
      avatarUrl: `https://example.com/${secret("avatar")}.png`,
      attributes: { note: secret("attribute") },
      metadata: { deep: [{ note: secret("metadata") }] },
      country: "SE",
      locale: "sv-SE",
      timezone: "Europe/Stockholm",
    };
    const old = must(await players.post("/players", { externalUserId: oldExt, ...profile }), 201);
    const { id } = must(
      await players.post("/players", { externalUserId: ext, ...profile, displayName: secret("second") }),
      201,
    );
    for (const sender of [oldExt, ext]) {
      const properties = { text: secret("property") };
      await players.track(sender, "told", { properties, idempotencyKey: `${sender}-first` });
      await players.track(sender, "told", { properties, idempotencyKey: randomUUID() });
    }
    must(await players.post(`/players/${old.id}/xp`, { amount: 5, reason: secret("old-reason") }), 201);
    must(await players.post(`/players/${id}/merge`, { sourcePlayerId: old.id }), 200);
    const xp = { amount: 120, reason: secret("reason"), reference: secret("reference") };
    must(await players.post(`/players/${id}/xp`, xp), 201);
    const coins = `/players/${id}/balances/coins`;
    must(await players.post(`${coins}/grant`, { amount: 50, reason: secret("grant") }), 201);
    must(
      await players.post(`${coins}/spend`, {
        amount: 5,
        reason: secret("spend"),
        reference: secret("order"),
      }),
      201,
    );
    must(
      await players.post(`${coins}/holds`, { amount: 5, expiresInSeconds: 600, reference: secret("hold") }),
      201,
    );
    must(await players.post(`/players/${id}/badges/fan`, {}), 201);
    must(await players.post("/segments/vips/members", { playerIds: [id] }), 200);
    must(
      await players.post(`/players/${id}/inbox`, {
        type: "letter",
        title: secret("title"),
        body: secret("letter"),
        data: { x: secret("data") },
      }),
      201,
    );
    must(await players.post("/rewards/card/grant", { playerId: id }), 201);
    const boost = { boostKey: "double", applies: "xp", factor: 2, durationSeconds: 600 };
    must(await players.post(`/players/${id}/boosts`, boost), 201);
    must(
      await players.post(`/players/${id}/identities`, { provider: "email", externalId: secret("device") }),
      201,
    );
    const evidence = secret("evidence");
    must(await players.post(`/players/${id}/quests/letters/steps/write/submit`, { evidence }), 200);
    await chatAs(players, { id, mark, secret });
    must(await players.post(`/players/${id}/status`, { status: "SUSPENDED", reason: secret("status") }), 200);
    must(await players.post(`/players/${id}/status`, { status: "ACTIVE", reason: secret("back") }), 200);
    return { id, ext, oldExt, secrets, mark };
  };

  /** Every place of the whole database in which a text of the person is. */
  const placesOf = async (mark: string): Promise<string[]> => {
    const tables = await players.query(sql<{ name: string }>`
      select table_name as name from information_schema.tables
      where table_schema = 'public' and table_type = 'BASE TABLE'`);
    const places: string[] = [];
    for (const { name } of tables) {
      const found = await players.query(sql<{ row: string }>`
        select t::text as row from ${sql.table(name)} t where position(${mark} in t::text) > 0`);
      places.push(...found.map(({ row }) => `${name}: ${row}`));
    }
    return places;
  };

  const erase = async (id: string, more: object = {}) => {
    const job = must(await players.post(`/players/${id}/erase`, { reason: "asked for", ...more }), 201);
    return players.resultOf(job.id);
  };

  it("is in the list of tables, whatever table there is", async () => {
    const columns = await players.query(sql<{ name: string }>`
      select distinct c.table_name as name from information_schema.columns c
      join information_schema.tables t using (table_schema, table_name)
      where table_schema = 'public' and t.table_type = 'BASE TABLE'
        and c.column_name in ('player_id', 'external_user_id', 'event_id', 'target_id', 'source_id')`);
    const partitions = await players.query(sql<{ name: string }>`
      select relname as name from pg_class where relispartition`);
    const known = new Set(PERSONAL_TABLES.map(({ table }) => table));
    for (const { name } of partitions) known.add(name);
    // Partitions go with their table; the audit log's targets are ids of all kinds.
    const others = columns.filter(({ name }) => name !== "audit_log");
    assert.deepEqual(
      others.map(({ name }) => name).filter((name) => !known.has(name)),
      [],
    );
  });

  it("is exported whole: every text, from every table that has one", async () => {
    const { id, ext, oldExt, secrets } = await aPerson();
    const job = must(await players.post(`/players/${id}/export`, {}), 201);
    assert.equal(job.kind, "PLAYER_EXPORT");
    const bundle = await players.resultOf(job.id);
    assert.deepEqual(bundle.externalUserIds.toSorted(), [ext, oldExt].toSorted());
    assert.deepEqual([bundle.playerId, bundle.incomplete], [id, {}]);
    // References are kept as hashes only, former texts for moderators; the audit log is not the player's.
    const text = JSON.stringify(bundle.tables);
    const missing = secrets.filter((secret) => !text.includes(secret));
    assert.deepEqual(missing.map((one) => one.split("-")[0]).toSorted(), ["reference", "said"]);
    assert.ok(bundle.tables.ledger_entries.length >= 5);
    assertError(await players.post("/players/ext:nobody/export", {}), 404);
  });

  it("is gone from every table of the database once erased, and sums, hashes and numbers stand", async () => {
    const { id, ext, secrets, mark } = await aPerson();
    await playAs(players, { id, ext, mark });
    const told = await players.query(sql<{ id: string }>`
      select id from tracked_events
      where project_id = ${tenant.projectId} and external_user_id = ${ext} limit 1`);
    // An event that failed is told of outside of the player's stream, with the error that it met.
    const failure = JSON.stringify({
      eventId: told[0]!.id,
      eventType: "told",
      externalUserId: ext,
      error: secrets[3],
      attempts: 4,
    });
    await players.query(sql`
      insert into event_results (project_id, event_id, status, error, attempts, processed_at)
      values (${tenant.projectId}, ${told[0]!.id}, 'FAILED', ${secrets[3]}, 4, now())`);
    await players.query(sql`
      insert into outbox (project_id, id, type, data, created_at)
      values (${tenant.projectId}, ${newId()}, 'event.failed', ${failure}::jsonb, now())`);
    const job = must(await players.post(`/players/${id}/export`, {}), 201);
    await players.resultOf(job.id);
    const places = (await placesOf(mark)).join("\n");
    for (const table of OTHERS) assert.ok(places.includes(`${table}: `), table);
    const unseen = secrets.filter((text) => !places.includes(text)).map((text) => text.split("-")[0]);
    assert.deepEqual(unseen, ["reference"], "the test looks in the right places");
    const before = await players.query(sql<{ xp: number; seq: number; head: string }>`
      select xp, seq, ledger_hash as head from players where id = ${id}`);

    const { dryRun, rows } = await erase(id);
    assert.equal(dryRun, false);
    assert.ok(
      rows.tracked_events >= 4 && rows.ledger_entries >= 5 && rows.outbox >= 10,
      JSON.stringify(rows),
    );
    assert.deepEqual(await placesOf(mark), []);
    assert.deepEqual(await statsOf(players, id), [undefined, { kills: 3 }], "others keep theirs");
    const after = await players.read(id);
    assert.deepEqual(
      [after.status, after.externalUserId, after.displayName],
      ["ERASED", `erased:${id}`, null],
    );
    const rowAfter = await players.query(sql<{ xp: number; seq: number; head: string }>`
      select xp, seq, ledger_hash as head from players where id = ${id}`);
    assert.deepEqual(
      [rowAfter[0]!.xp, rowAfter[0]!.head, rowAfter[0]!.seq],
      [before[0]!.xp, before[0]!.head, before[0]!.seq + 1],
    );
    assert.equal(must(await players.get(`/players/${id}/ledger/verify`), 200).valid, true);
    const stream = await players.query(sql<{ n: number; last: number; type: string }>`
      select count(*) as n, max(player_seq) as last, (array_agg(type order by player_seq desc))[1] as type
      from outbox where player_id = ${id} and player_seq is not null`);
    assert.deepEqual(
      [stream[0]!.n, stream[0]!.last, stream[0]!.type],
      [after.seq, after.seq, "player.erased"],
    );
    assertError(await players.get(`/jobs/${job.id}/result`), 409, "INVALID_STATE");
  });

  it("is gone from a sandbox as well whose clock is ahead", async () => {
    const { token, projectId } = tenant;
    const path = `/api/v1/projects/${projectId}`;
    must(await api.post(`${path}/sandbox`, {}, { token }), 201);
    const to = new Date(Date.now() + 40 * 86_400_000).toISOString();
    const set = must(await api.put(`${path}/sandbox/clock`, { to }, { token }), 200);
    if (set.jobId) await players.resultOf(set.jobId);
    const { sandboxProjectId } = must(await api.get(path, { token }), 200);
    const key = await aKey(api, { token, projectId, environment: "test" });
    const own = playersOf(api, { ...tenant, key, projectId: sandboxProjectId });
    const mark = randomUUID();
    const ext = `ext-${mark}`;
    const { id } = must(
      await own.post("/players", { externalUserId: ext, displayName: `name-${mark}` }),
      201,
    );
    await playAs(own, { id, ext, mark });
    assert.ok((await placesOf(mark)).length > 5);
    const job = must(await own.post(`/players/${id}/erase`, { reason: "asked for" }), 201);
    await own.resultOf(job.id);
    assert.deepEqual(await placesOf(mark), []);
  });

  it("counts nothing of before for the same id later: that is a new player", async () => {
    const { id, ext } = await aPerson();
    await erase(id);
    assertError(await players.get(`/players/ext:${ext}`), 404);
    assert.equal((await players.track(ext, "told", { idempotencyKey: `${ext}-first` })).status, "PROCESSED");
    const fresh = await players.read(`ext:${ext}`);
    assert.notEqual(fresh.id, id);
    assert.deepEqual([fresh.xp, fresh.displayName, fresh.tags], [3, null, []]);
    assert.equal(must(await players.get(`/players?externalUserId=${ext}`), 200).pagination.total, 1);
  });

  it("is counted by a dry run, which changes nothing", async () => {
    const { id, mark } = await aPerson();
    const before = await placesOf(mark);
    const { dryRun, rows } = await erase(id, { dryRun: true });
    assert.equal(dryRun, true);
    assert.deepEqual([rows.players, rows.tracked_events, rows.player_identities], [2, 4, 1]);
    assert.deepEqual(await placesOf(mark), before);
    assert.equal((await players.read(id)).status, "ACTIVE");
  });

  it("cannot be given to an erased player again", async () => {
    const { id } = await players.add();
    await erase(id);
    const name = `ext:erased:${id}`;
    assertError(await players.patch(`/players/${id}`, { displayName: "Ada" }), 409, "INVALID_STATE");
    const again = { externalUserId: name.slice(4), displayName: "Ada" };
    assertError(await players.post("/players", again), 409, "INVALID_STATE");
    assertError(await players.post(`/players/${id}/status`, { status: "ACTIVE" }), 409, "INVALID_STATE");
    assertError(await players.post(`/players/${id}/xp`, { amount: 1 }), 409, "PLAYER_INACTIVE");
    const identity = { provider: "device", externalId: "x" };
    assertError(await players.post(`/players/${id}/identities`, identity), 409, "INVALID_STATE");
    const other = await players.add();
    const merge = await players.post(`/players/${other.id}/merge`, { sourcePlayerId: id });
    assertError(merge, 409, "PLAYER_INACTIVE");
    assert.deepEqual((await erase(id)).rows, {}, "there is nothing left");
  });

  it("is erased to the end by another job when the first was cancelled on the way", async () => {
    const { id, secrets, mark } = await aPerson();
    const job = must(await players.post(`/players/${id}/erase`, { reason: "asked for" }), 201);
    await players.resultOf(job.id);
    const left = {
      ids: [id],
      names: secrets.slice(0, 2),
      events: { upTo: NIL_ID, also: [] },
      phase: "LEDGER",
      after: [],
    };
    const state = JSON.stringify({ ...left, rows: {}, erasedAt: new Date().toISOString() });
    await players.query(sql`
      update ledger_entries set reason = ${secrets[0]}
      where project_id = ${tenant.projectId} and player_id = ${id}`);
    await players.query(sql`
      update project_jobs set status = 'CANCELLED', state = ${state}::jsonb where id = ${job.id}`);
    assert.notEqual((await placesOf(mark)).length, 0);
    await erase(id);
    await createProjectJobs().run(api.app, "*");
    assert.deepEqual(await placesOf(mark), []);
  });
});
