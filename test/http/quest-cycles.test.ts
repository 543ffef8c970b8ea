import { sql } from "kysely";
import assert from "node:assert/strict";
import {
  messagesOf,
  readPlayersNow,
  type StoredLines,
  type StreamRef,
} from "../../src/domain/delivery/outbox/stream.ts";
import type { PlayerMessage } from "../../src/domain/kernel/topics.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { projectPlans, readPlan } from "../../src/domain/progression/plan.ts";
import { settleQuests } from "../../src/jobs/jobs.ts";
import { pruneEnded } from "../../src/jobs/sweeps.ts";
import { aKey, type Answer, aTenant, startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { playersOf } from "../support/players/players.ts";
import { aQuestGame, counting, manual, type QuestGame } from "../support/quests/quest-game.ts";
import { findingsOf } from "../support/domain/domain.ts";
import { pluck } from "../support/pluck.ts";

/** All lines of a player's stream, in order. */
const linesOfPlayer = async ({ db }: Work, { projectId, playerId }: StreamRef): Promise<PlayerMessage[]> => {
  const { rows } = await sql<StoredLines>`
    select player_seq as seq, id, type, data, created_at, lines from outbox
    where project_id = ${projectId} and player_id = ${playerId} and player_seq is not null
    order by player_seq`.execute(db);
  return rows.flatMap(messagesOf);
};

const HOUR_MS = 3_600_000;

describe("quests, lived by the clock of a sandbox", () => {
  let key: string;
  let projectId: string;
  let beginMs: number;

  const api = madeOnce(startApp);
  beforeEach(async () => {
    beginMs = Date.now();
    const tenant = await aTenant(api);
    ({ projectId } = tenant);
    key = await aKey(api, { ...tenant, environment: "test" });
    must(await post("/players", { externalUserId: "ann" }), 201);
  });

  const hours = (n: number): string => new Date(beginMs + n * HOUR_MS).toISOString();
  const get = async (path: string) => must(await api.get(`/api/v1${path}`, { key }), 200);
  const post = (path: string, body: unknown = {}) => api.post(`/api/v1${path}`, body, { key });
  const goTo = async (n: number): Promise<void> => {
    const path = `/api/v1/projects/${projectId}/sandbox/clock`;
    const { lastAdvance } = must(await api.put(path, { to: hours(n) }, { key }), 200);
    assert.equal(lastAdvance.status, "SUCCEEDED");
  };
  const waiting = async (): Promise<unknown[]> =>
    (await get("/quest-reviews?status=PENDING")).data.map((one: Json) => one["questKey"]);

  /** Publishes a quest for which something of the player's waits for a review. */
  const submitted = async (quest: string, times: object): Promise<void> => {
    const steps = [manual("photo", { requiresApproval: true })];
    must(await post("/quests", { key: quest, name: quest, steps, ...times }), 201);
    must(await post(`/quests/${quest}/publish`), 200);
    must(await post(`/players/ext:ann/quests/${quest}/steps/photo/submit`), 200);
  };
  const endAt = async (quest: string, availableUntil: string): Promise<void> => {
    must(await api.patch(`/api/v1/quests/${quest}`, { availableUntil }, { key }), 200);
    must(await post(`/quests/${quest}/publish`), 200);
  };

  it("withdraw what waits for a review when they are over, unless their end was put off", async () => {
    for (const quest of ["timed", "longer"]) await submitted(quest, { availableUntil: hours(2) });
    await endAt("longer", hours(5));
    await goTo(1);
    assert.deepEqual(await waiting(), ["timed", "longer"]);
    await goTo(4);
    assert.deepEqual(await waiting(), ["longer"]);
    await goTo(7);
    assert.deepEqual(await waiting(), []);
  });
});

const assertRefused = (answer: Answer, field: string): void => {
  assert.equal(answer.status, 400, JSON.stringify(answer.body));
  assert.equal(answer.body.error.details[0].field, field);
};

/** Local days of these begin 26 hours apart. */
const [EAST, WEST] = ["Pacific/Kiritimati", "Etc/GMT+12"];

describe("cycles of quests", () => {
  const game = madeOnce(async () => aQuestGame(await startApp()));
  let player: string;

  beforeEach(async () => {
    player = await game.newPlayer();
  });

  const move = async (timezone: string): Promise<void> => {
    must(await game.patch(`/players/${player}`, { timezone }), 200);
  };
  const cycles = async (key: string): Promise<[string, string][]> => {
    const { data } = await game.get(`/quests/${key}/players`);
    return data.map((one: { cycleKey: string; state: string }) => [one.cycleKey, one.state]);
  };

  for (const [claim, gives] of [
    ["AUTO", {}],
    ["MANUAL", { claimWindowSeconds: 3 * 3_600 }],
  ] as const)
    it(`are each had once, however often the player moves to another time zone: ${claim}`, async () => {
      const key = `daily-${claim.toLowerCase()}`;
      await game.publish({
        key,
        steps: [counting("do", key, 1)],
        repeat: { mode: "DAILY" },
        rewards: { xp: 10 },
        claim,
        ...gives,
      });
      const midnight = Math.floor(Date.now() / (24 * HOUR_MS)) * 24 * HOUR_MS;
      const at = (hours: number) => ({ timestamp: new Date(midnight + hours * HOUR_MS).toISOString() });
      for (const [zone, hours] of [
        [EAST, -40],
        [EAST, -37.9],
        [WEST, -35.9],
        [EAST, -33],
        [WEST, -31],
      ] as const) {
        await move(zone);
        await game.send(key, at(hours));
      }
      const had = await cycles(key);
      assert.equal(had.length, new Set(had.map(([cycleKey]) => cycleKey)).size);
      assert.equal(had.length, 2, JSON.stringify(had));
      if (claim === "AUTO") assert.equal(await game.xp(), 20);
    });

  it("have numbers that no earlier cycle has, also after the quest has repeated otherwise", async () => {
    const base = {
      key: "modes",
      steps: [counting("do", "modes.do", 1)],
      rewards: { xp: 1 },
      claim: "MANUAL",
    };
    await game.publish({ ...base, repeat: { mode: "UNLIMITED" } });
    for (let n = 0; n < 2; n++) await game.send("modes.do");
    const change = async (repeat: object): Promise<void> => {
      must(await game.patch("/quests/modes", { repeat }), 200);
      must(await game.post("/quests/modes/publish"), 200);
    };
    await change({ mode: "WEEKLY" });
    await game.send("modes.do", { timestamp: new Date(Date.now() + 1).toISOString() });
    await change({ mode: "UNLIMITED" });
    await game.send("modes.do");
    const had = await cycles("modes");
    assert.deepEqual(new Set(had.map(([, state]) => state)), new Set(["COMPLETED"]));
    assert.equal(new Set(had.map(([cycleKey]) => cycleKey)).size, had.length);
  });

  it("are deleted 400 days after the last change, but for the latest and those that wait", async () => {
    const repeat = { mode: "DAILY", maxCompletions: 5 };
    for (const [key, claim] of [
      ["past", "AUTO"],
      ["waits", "MANUAL"],
    ] as const)
      await game.publish({ key, steps: [counting("do", "past.do", 1)], repeat, claim, rewards: { xp: 10 } });
    const day = (n: number) => ({ timestamp: new Date(Date.UTC(2026, 0, n, 12)).toISOString() });
    const [first] = [await game.send("past.do", day(1)), await game.send("past.do", day(2))];
    await game.send("past.do", day(4));
    must(await game.act("waits", "claim"), 200);
    const { app } = game.api;
    const left = async (days: number) => {
      await app.transact(({ db }) =>
        sql`update player_quests set updated_at = now() - ${`${days} days`}::interval
          where player_id = ${player}`.execute(db),
      );
      await pruneEnded.run(app, "*");
      const keys = async (key: string) =>
        (await cycles(key)).map(([cycleKey]) => cycleKey.slice(-1)).toSorted();
      return [await keys("past"), await keys("waits")];
    };
    assert.deepEqual(await left(399), [
      ["1", "2", "4"],
      ["1", "2", "4"],
    ]);
    assert.deepEqual(await left(401), [["4"], ["2", "4"]]);
    assert.deepEqual(await findingsOf(app, game.tenant.projectId), []);
    await game.send("past.do", day(6));
    await game.send("past.do", day(7));
    await game.send("past.do", day(8));
    assert.deepEqual((await cycles("past")).length, 3, "the completions of those that are gone count");
    const xp = await game.xp();
    const job = must(await game.post(`/events/${first.eventId}/revert`, { reason: "wrong" }), 200);
    const { left: named } = await playersOf(game.api, game.tenant).resultOf(job.id);
    assert.match(named.join(), /rewards of quests/, "a revert says that it does not know the cycle");
    assert.equal(await game.xp(), xp);
  });

  it("do not begin for a player who does nothing when the one before is over", async () => {
    const step = { key: "photo", name: "A photo", kind: "MANUAL" };
    const repeat = { mode: "UNLIMITED" };
    await game.publish({ key: "idle", steps: [step], repeat, timeLimitSeconds: 60 });
    assert.equal((await game.questOf("idle")).state, "IN_PROGRESS");
    const { app } = game.api;
    await app.transact(({ db }) =>
      sql`update player_quests set expires_at = now() - interval '1 s', due_at = now() - interval '1 s'
        where player_id = ${player}`.execute(db),
    );
    await settleQuests.run(app, "*");
    assert.deepEqual(await cycles("idle"), [["1", "EXPIRED"]]);
    assert.equal((await game.questOf("idle")).cycleKey, "2", "it begins when somebody looks at it");
  });

  it("that are over when their events come late stay open for the others of that time", async () => {
    await game.publish({ key: "offline", steps: [counting("a", "offline.a", 2)], timeLimitSeconds: 3_600 });
    const startedMs = Date.now() - 86_400_000;
    const sentAt = (ms: number) => ({ timestamp: new Date(startedMs + ms).toISOString() });
    await game.send("offline.a", sentAt(0));
    await settleQuests.run(game.api.app, "*");
    await game.send("offline.a", sentAt(60_000));
    assert.deepEqual(await cycles("offline"), [["once", "CLAIMED"]]);
  });

  it("without end are not driven by what their own rewards cause", async () => {
    const made = (steps: readonly object[], given: object) =>
      game.post("/quests", {
        key: "endless",
        name: "Endless",
        repeat: { mode: "UNLIMITED" },
        steps,
        ...given,
      });
    const xp = counting("xp", "player.xp_granted", 1);
    for (const [steps, given] of [
      [[xp], { rewards: { xp: 1 } }],
      [[counting("xp", "player.*", 1)], { rewards: { xp: 1 } }],
      [[{ ...xp, rewards: { xp: 1 } }], {}],
      [[xp, counting("other", "other", 1)], { rewards: { xp: 1 }, stepMode: "ANY" }],
    ] as const)
      assertRefused(await made(steps, given), "repeat.mode");
    must(await made([xp, counting("other", "other", 1)], { rewards: { xp: 1 } }), 201);
  });

  it("are not counted under names that every object has", async () => {
    const key = "constructor";
    const steps = [counting(key, "named", 2)];
    assertRefused(await game.post("/quests", { key: "named", name: "Named", steps }), "steps.0.key");
    assertRefused(await game.post("/quests", { key, name: "Named", steps: [counting("a", "a", 1)] }), "key");
  });
});

const QUESTS = ["a", "b", "c", "d", "e"];

describe("the lines of quests that change together", () => {
  let game: QuestGame;
  let player: string;

  beforeEach(async () => {
    game = await aQuestGame(await startApp());
    for (const key of QUESTS) await game.publish({ key, steps: [counting("do", "did", 4)] });
    player = await game.newPlayer();
  });

  const rowsOf = async <T>(query: ReturnType<typeof sql<T>>): Promise<T[]> =>
    game.api.app.transact(async ({ db }) => (await query.execute(db)).rows);
  const lines = async () => {
    const { projectId } = game.tenant;
    const all = await game.api.app.transact((work) => linesOfPlayer(work, { projectId, playerId: player }));
    return all.filter(({ type }) => type === "quest.updated");
  };
  const keyOf = ({ data }: { data: object }): string => (data as { quest: Json }).quest["questKey"] as string;

  it("share a row, and are one each in the stream, in activity and among an event's effects", async () => {
    const { effects } = await game.send("did");
    const rows = await rowsOf(sql<{ lines: number }>`
      select lines from outbox where player_id = ${player} and type = 'quest.updated'`);
    assert.deepEqual(rows, [{ lines: QUESTS.length }]);
    const stream = await lines();
    assert.deepEqual(stream.map(keyOf), QUESTS);
    assert.equal(new Set(stream.map(({ id }) => id)).size, QUESTS.length);
    assert.deepEqual(
      stream.map(({ seq }) => seq - stream[0]!.seq),
      [0, 1, 2, 3, 4],
    );
    assert.deepEqual(effects.filter(({ type }) => type === "quest.updated").map(keyOf), QUESTS);
    const pages: Json[] = [];
    for (let cursor = ""; ;) {
      const page = await game.get(`/players/${player}/activity?types=quest.updated&limit=2${cursor}`);
      pages.push(...page.data);
      if (page.pagination.nextCursor === null) break;
      cursor = `&cursor=${page.pagination.nextCursor}`;
    }
    assert.deepEqual(
      pages.map(({ id, seq, data }) => [id, seq, data]).toReversed(),
      pluck(stream, "id", "seq", "data"),
    );
  });

  it("are sent from within a row to who has had the first of them", async () => {
    await game.send("did");
    await game.send("did");
    const stream = await lines();
    assert.equal(stream.length, 2 * QUESTS.length);
    const { app } = game.api;
    const { projectId } = game.tenant;
    await app.transact((work) => readPlan(work, projectId, projectPlans));
    for (const { seq: afterSeq } of stream) {
      const asked = [{ playerId: player, afterSeq }];
      const [page] = (await readPlayersNow(app.read, { projectId, asked, now: app.clock(), limit: 100 }))!;
      assert.deepEqual(
        page!.messages.filter(({ type }) => type === "quest.updated"),
        stream.filter(({ seq }) => seq > afterSeq),
      );
    }
  });

  it("tell webhooks of each of them once", async () => {
    const feed = (cursor: string) => game.get(`/webhook-events?types=quest.progress&cursor=${cursor}`);
    await game.send("did");
    let cursor = (await feed("latest")).pagination.nextCursor as string;
    await game.send("did");
    const stream = (await lines()).slice(-QUESTS.length);
    const told: Json[] = [];
    await eventually(async () => {
      const page = await feed(cursor);
      told.push(...page.data);
      cursor = page.pagination.nextCursor;
      return told.length >= QUESTS.length;
    });
    assert.deepEqual(
      told.map(({ id, data }) => [id, (data as Json)["questKey"], (data as Json)["percent"]]),
      stream.map((line) => [line.id, keyOf(line), 50]),
    );
    assert.deepEqual((await feed(cursor)).data, []);
  });
});

type Row = { key: number; state: string; isLatest: boolean; isLive: boolean };

describe("quests that repeat UNLIMITED, of players who are merged", () => {
  let game: QuestGame;
  beforeEach(async () => {
    game = await aQuestGame(await startApp());
  });

  const rowsOf = (player: string): Promise<Row[]> => game.api
    .sql<Row>`select cycle_key::int as key, state, is_latest as "isLatest", is_live as "isLive"
    from player_quests where player_id = ${player}::uuid order by 1`;
  const publish = (target: number) =>
    game.publish({
      key: "again",
      steps: [counting("do", "done", target)],
      repeat: { mode: "UNLIMITED" },
      claim: "MANUAL",
      rewards: { xp: 10 },
    });
  const complete = async (times: number): Promise<void> => {
    for (let n = 0; n < times; n++) await game.send("done");
  };
  const claim = async (): Promise<unknown> => must(await game.act("again", "claim"), 200);
  const merge = (target: string, source: string) =>
    game.post(`/players/${target}/merge`, { sourcePlayerId: source });
  const assertSound = async (): Promise<void> =>
    assert.deepEqual(await findingsOf(game.api.app, game.tenant.projectId), []);

  for (const isTargetFirst of [true, false])
    it(`keep all rewards that wait; the target is the ${isTargetFirst ? "first" : "second"}`, async () => {
      await publish(1);
      const first = await game.newPlayer();
      await complete(4);
      const second = await game.newPlayer();
      await complete(2);
      await claim();
      const [target, source] = isTargetFirst ? [first, second] : [second, first];
      must(await merge(target, source), 200);
      const merged = await rowsOf(target);
      assert.equal(new Set(merged.map(({ key }) => key)).size, merged.length);
      assert.equal(merged.filter(({ state }) => state === "COMPLETED").length, 5);
      // What is over of the source stays with it.
      assert.equal(merged.filter(({ state }) => state === "CLAIMED").length, isTargetFirst ? 0 : 1);
      const latest = merged.filter(({ isLatest }) => isLatest);
      assert.deepEqual(latest, [merged.at(-1)]);
      await game.send("done", { externalUserId: (await game.get(`/players/${target}`)).externalUserId });
      const after = await rowsOf(target);
      assert.equal(after.length, merged.length + 1, "the next one takes no other's place");
      assert.equal(after.filter(({ state }) => state === "COMPLETED").length, 6);
      await assertSound();
    });

  it("have one cycle in progress: the other one has ended, and nothing is swept for ever", async () => {
    await publish(2);
    const target = await game.newPlayer();
    await complete(3);
    const source = await game.newPlayer();
    await complete(1);
    must(await merge(target, source), 200);
    const rows = await rowsOf(target);
    assert.deepEqual(pluck(rows, "state", "isLatest", "isLive"), [
      ["COMPLETED", false, true],
      ["EXPIRED", false, false],
      ["IN_PROGRESS", true, true],
    ]);
    await assertSound();
  });
});
