import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { advancePlayerQuest, claimPlayerQuest } from "../../src/domain/economy/quests/player-quests.ts";
import { checkQuests } from "../../src/domain/registries/reconcile/quest-checks.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { define, findingsOf, memoryDomain } from "../support/domain/domain.ts";
import {
  AFTER,
  aHistoryProject,
  anAge,
  aTurn,
  play,
  playReverted,
  QUESTS,
  takeBack,
} from "../support/reverts/histories.ts";
import { cases } from "../support/properties.ts";

const items = fc
  .array(
    fc.record({
      type: fc.constantFrom("a", "b"),
      hoursAgo: anAge,
      score: fc.integer({ min: 0, max: 9 }),
      game: fc.constantFrom("x", "y"),
      reverted: aTurn,
    }),
    { minLength: 1, maxLength: 8 },
  )
  .map((history) => history.toSorted((a, b) => b.hoursAgo - a.hoursAgo));

type Row = {
  quest: string;
  cycle: string;
  state: string;
  percent: number;
  started: string;
  completed: string | null;
  completions: number;
  latest: boolean;
  steps: Record<string, { doneMs?: number }>;
};

describe("quests of which events were reverted", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  let players = 0;

  before(async () => {
    projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    for (const quest of QUESTS) await define(domain, projectId, "quest", { name: "A quest", ...quest });
  });

  const has = async (user: string) => {
    const [player] = await domain.sql<{ id: string; xp: string; stars: string; counts: Json }>`
      select p.id, p.xp, coalesce(b.balance, 0) as stars, s.doc->'q' as counts from players p
      left join player_states s on s.project_id = p.project_id and s.player_id = p.id
      left join player_balances b on b.project_id = p.project_id and b.player_id = p.id
        and b.currency_key = 'stars'
      where p.project_id = ${projectId} and p.external_user_id = ${user}`;
    if (!player) return { xp: 0, stars: 0, rows: [], completions: [] };
    const rows = await domain.sql<Row>`
      select quest_key as quest, cycle_key as cycle, percent, started_at as started,
        completed_at as completed,
        case when state = 'IN_PROGRESS' and expires_at <= now() then 'EXPIRED' else state end as state,
        completions, is_latest as latest, doc->'steps' as steps
      from player_quests where project_id = ${projectId} and player_id = ${player.id} order by 1, 2`;
    return {
      xp: Number(player.xp),
      stars: Number(player.stars),
      rows: rows
        .filter(({ state }) => state !== "RESET")
        .map(({ quest, cycle, state, percent, started, completed, steps }) => ({
          is: [quest, cycle, state, percent, started, completed],
          quest,
          state,
          percent,
          done: Object.entries(steps)
            .flatMap(([key, { doneMs }]) => (doneMs === undefined ? [] : [`${key} ${doneMs}`]))
            .toSorted(),
        })),
      completions: rows
        .filter(({ latest, completions }) => latest && completions > 0)
        .map(({ quest, completions }) => [quest, completions]),
    };
  };
  /** Without the quest that begins when the player is next looked at. */
  const played = async (user: string) => {
    const { rows, ...more } = await has(user);
    return { ...more, rows: rows.filter(({ quest }) => quest !== "rich") };
  };
  const stateOf = async (user: string, quest: string) =>
    (await has(user)).rows.filter((row) => row.quest === quest).map(({ state, percent }) => [state, percent]);
  const now = (...types: string[]) =>
    types.map((type) => ({ type, at: new Date(), properties: { score: 1, game: "x" } }));

  it("are as if the reverted ones had never been: states, steps, progress and rewards", () =>
    fc.assert(
      fc.asyncProperty(items, fc.boolean(), async (history, isTogether) => {
        const user = `player-${players++}`;
        const like = `${user}-like`;
        const left = await playReverted(domain, projectId, { user, like, history, isTogether });
        assert.deepEqual(
          left.filter((what) => what.startsWith("quest")),
          [],
        );
        assert.deepEqual(await played(user), await played(like));
      }),
      { numRuns: cases(40) },
    ));

  it("give rewards again that were taken back, once, when they are reached again", async () => {
    const [first] = await play(domain, projectId, { user: "again", events: now("a", "a") });
    assert.equal((await has("again")).xp, 11);
    const { reversed, left } = await takeBack(domain, projectId, first!);
    assert.deepEqual([reversed.quests.includes("daily"), left], [true, []]);
    assert.deepEqual([(await has("again")).xp, await stateOf("again", "daily")], [0, [["IN_PROGRESS", 50]]]);
    const [third] = await play(domain, projectId, { user: "again", events: now("a") });
    assert.deepEqual([(await has("again")).xp, await stateOf("again", "daily")], [11, [["CLAIMED", 100]]]);
    await takeBack(domain, projectId, third!);
    await play(domain, projectId, { user: "again", events: now("a", "a") });
    assert.equal((await has("again")).xp, 12, "two of a day, and the third of all for the story");
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("are held against their steps, and what those gave, by reconciliation", async () => {
    await play(domain, projectId, { user: "steps", events: now("a", "a") });
    const page = { projectId, playerIds: [await domain.addPlayer(projectId, "steps")] };
    const found = async (change: ReturnType<typeof sql>): Promise<string[]> => {
      const rollback = new Error("only to look");
      const findings: string[] = [];
      const broken = domain.transact(async (work) => {
        await sql`update player_quests q set ${change} from players p where p.project_id = q.project_id
          and p.id = q.player_id and p.external_user_id = 'steps' and q.quest_key = 'daily'`.execute(work.db);
        findings.push(...(await checkQuests(work, page, false)).map(({ message }) => message));
        throw rollback;
      });
      await assert.rejects(broken, rollback);
      return findings.map((text) => text.replace(/, cycle [^:]+/, "").replace(/q:[^:]+/, "q"));
    };
    assert.deepEqual(await found(sql`percent = percent`), []);
    assert.deepEqual(await found(sql`doc = doc #- '{steps,do,doneMs}'`), [
      "quest daily: it is CLAIMED, but its steps do not complete it",
    ]);
    assert.deepEqual(await found(sql`doc = jsonb_set(doc, '{rewarded}', '[]')`), [
      "quest daily: it gave q:s:do:xp, of which it does not know",
    ]);
    const open = sql`state = 'IN_PROGRESS', percent = 50, completed_at = null, claimed_at = null`;
    assert.match((await found(open)).join(), /it is IN_PROGRESS, but its steps complete it/);
  });

  it("stay, and are named, where they would be further without the event", async () => {
    const [first] = await play(domain, projectId, { user: "further", events: now("c", "d") });
    assert.equal((await has("further")).xp, 1);
    const { left } = await takeBack(domain, projectId, first!);
    assert.deepEqual(left, ["quest either: it would be further without the event, and stays as it is"]);
    assert.deepEqual(
      [(await has("further")).xp, await stateOf("further", "either")],
      [1, [["CLAIMED", 100]]],
    );
  });

  it("lose a state that the event has brought, with what that gave", async () => {
    const event = { type: "won", at: new Date(), properties: { score: 5_000 } };
    const [won] = await play(domain, projectId, { user: "state", events: [event] });
    assert.deepEqual([(await has("state")).stars, await stateOf("state", "rich")], [3, [["CLAIMED", 100]]]);
    const { left } = await takeBack(domain, projectId, won!);
    assert.deepEqual([left, (await has("state")).stars], [[], 0]);
    await play(domain, projectId, { user: "state", events: [event] });
    assert.deepEqual([(await has("state")).stars, await stateOf("state", "rich")], [3, [["CLAIMED", 100]]]);
  });

  it("lose rewards that a request has claimed, when what completed them is reverted", async () => {
    const events = now("h", "h", "h", "h", "h");
    const [first] = await play(domain, projectId, { user: "claimed", events });
    const playerId = await domain.addPlayer(projectId, "claimed");
    const claim = () =>
      domain.transact((work) => claimPlayerQuest(work, { projectId, id: playerId }, { questRef: "by-hand" }));
    await claim();
    assert.equal((await has("claimed")).xp, 51);
    await takeBack(domain, projectId, first!);
    assert.deepEqual(
      [(await has("claimed")).xp, await stateOf("claimed", "by-hand")],
      [0, [["IN_PROGRESS", 80]]],
    );
    await assert.rejects(claim, /not completed/);
    await play(domain, projectId, { user: "claimed", events: now("h") });
    await claim();
    assert.equal((await has("claimed")).xp, 51);
  });

  it("take back what requests have added to only as far as it adds up, and name the rest", async () => {
    const [first] = await play(domain, projectId, { user: "added", events: now("h", "h") });
    const playerId = await domain.addPlayer(projectId, "added");
    const by = { questRef: "by-hand", stepKey: "h" };
    const add = (amount: number) =>
      domain.transact((work) => advancePlayerQuest(work, { projectId, id: playerId }, { ...by, amount }));
    await add(1);
    assert.deepEqual((await takeBack(domain, projectId, first!)).left, []);
    assert.deepEqual(await stateOf("added", "by-hand"), [["IN_PROGRESS", 40]]);
    const [last] = await play(domain, projectId, { user: "added", events: now("h") });
    await add(2);
    const { left } = await takeBack(domain, projectId, last!);
    assert.deepEqual(left, ["quest by-hand: its progress and rewards stay"]);
    assert.deepEqual(await stateOf("added", "by-hand"), [["COMPLETED", 100]]);
  });

  it("that count other quests lose those that the event has completed", async () => {
    const all = projectId;
    projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    for (const quest of [QUESTS[0]!, AFTER])
      await define(domain, projectId, "quest", { name: "Q", ...quest });
    const [, second] = await play(domain, projectId, { user: "chain", events: now("a", "a") });
    assert.deepEqual(await stateOf("chain", "after"), [["IN_PROGRESS", 33]]);
    const { left, reversed } = await takeBack(domain, projectId, second!);
    assert.deepEqual([left, reversed.quests], [[], ["after", "daily"]]);
    assert.deepEqual(await stateOf("chain", "after"), [["IN_PROGRESS", 0]]);
    await play(domain, projectId, { user: "chain", events: now("a") });
    assert.deepEqual(await stateOf("chain", "after"), [["IN_PROGRESS", 33]]);
    // One that another event has completed: what that brought about is named.
    const [first] = await play(domain, projectId, { user: "other", events: now("a", "a") });
    assert.deepEqual((await takeBack(domain, projectId, first!)).left, [
      "quest daily: what followed its completion",
    ]);
    assert.deepEqual(await findingsOf(domain, projectId), []);
    projectId = all;
  });
});
