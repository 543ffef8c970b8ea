import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { adventureKind } from "../../src/domain/economy/adventures/kind.ts";
import { moveDraft, publishDraft } from "../../src/domain/economy/definitions/drafts.ts";
import { questKind } from "../../src/domain/economy/quests/kind.ts";
import { Adventure } from "../../src/domain/evaluation/adventures/adventure.ts";
import { changeConfig, type Work } from "../../src/domain/kernel/work.ts";
import {
  finishDefinitions,
  importDefinitions,
} from "../../src/domain/registries/configuration/import-definitions.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { define, findingsOf, memoryDomain, processAll } from "../support/domain/domain.ts";
import {
  ADVENTURES,
  aHistoryProject,
  anAge,
  play,
  QUESTS,
  QUESTS_OF_ADVENTURES,
  takeBack,
} from "../support/reverts/histories.ts";

const HOUR_MS = 3_600_000;

/** Events of a player, and what is paused while each of them comes. */
const histories = fc
  .array(
    fc.record({
      type: fc.constantFrom("a", "b", "p"),
      hoursAgo: anAge,
      score: fc.integer({ min: 0, max: 9 }),
      isPaused: fc.boolean(),
      isReverted: fc.boolean(),
    }),
    { minLength: 1, maxLength: 7 },
  )
  .map((history) => history.toSorted((a, b) => b.hoursAgo - a.hoursAgo));

type Goal = { kind: "quest" | "adventure"; key: string };
type Move = "pause" | "resume" | "end" | "publish";

describe("reverts of events of pauses", () => {
  const { domain } = memoryDomain();
  let players = 0;

  const move = (projectId: string, { kind, key }: Goal, how: Move) =>
    domain.transact((work): Promise<unknown> => {
      const ref = { projectId, ref: key };
      const draft = kind === "quest" ? questKind : adventureKind;
      return how === "publish"
        ? publishDraft(work, draft as typeof questKind, ref)
        : moveDraft(work, draft as typeof questKind, { ...ref, move: how });
    });

  const aProject = async (quests: readonly Json[], adventures: readonly Json[]): Promise<string> => {
    const projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    for (const quest of quests) await define(domain, projectId, "quest", { name: "A quest", ...quest });
    for (const adventure of adventures) await define(domain, projectId, "adventure", adventure);
    return projectId;
  };

  /** What a player has, besides times at which something is due. */
  const has = async (projectId: string, user: string) => {
    const of = (table: string, columns: string) =>
      domain.sql<Json>`select ${sql.raw(columns)} from ${sql.table(table)} g
        join players p on p.project_id = g.project_id and p.id = g.player_id
        where p.project_id = ${projectId} and p.external_user_id = ${user} order by 1, 2`;
    const quests = await of(
      "player_quests",
      `quest_key as key, cycle_key as cycle, percent, completed_at as completed,
        case when state = 'IN_PROGRESS' and expires_at <= now() then 'EXPIRED' else state end as state`,
    );
    const adventures = await of(
      "player_adventures",
      `adventure_key as key, state, points::float8 as points, completed_at as completed,
        doc->'items' as items, doc->'tiers' as tiers, doc->'unlocked' as unlocked`,
    );
    const [player] = await domain.sql<{ xp: number; stars: number }>`
      select p.xp::float8 as xp, coalesce(b.balance, 0)::float8 as stars from players p
      left join player_balances b on b.project_id = p.project_id and b.player_id = p.id
        and b.currency_key = 'stars'
      where p.project_id = ${projectId} and p.external_user_id = ${user}`;
    return {
      ...(player ?? { xp: 0, stars: 0 }),
      quests: quests.filter(({ state, key }) => state !== "RESET" && key !== "rich"),
      adventures: adventures
        .filter(({ state }) => state !== "WAITING")
        .map(({ items, tiers, ...row }) => ({
          ...row,
          items: Object.entries(items as Json).map(([key, item]) => [key, (item as Json)["times"]]),
          tiers: Object.keys(tiers as Json),
        })),
    };
  };

  const asIfNever = async (projectId: string, goals: readonly Goal[], numRuns: number) => {
    await fc.assert(
      fc.asyncProperty(histories, async (history) => {
        const user = `player-${players++}`;
        const like = `${user}-like`;
        const ids: string[] = [];
        let isPaused = false;
        const setPaused = async (now: boolean) => {
          if (now !== isPaused)
            for (const goal of goals) await move(projectId, goal, now ? "pause" : "resume");
          isPaused = now;
        };
        for (const event of history) {
          await setPaused(event.isPaused);
          const { type, score, hoursAgo, isReverted } = event;
          const events = [{ type, at: new Date(Date.now() - hoursAgo * HOUR_MS), properties: { score } }];
          const [id] = await play(domain, projectId, { user, events });
          if (isReverted) ids.push(id!);
          else await play(domain, projectId, { user: like, events });
        }
        await setPaused(false);
        const left = new Set<string>();
        for (const id of ids) for (const what of (await takeBack(domain, projectId, id)).left) left.add(what);
        const named = [...left].filter((what) => !what.startsWith("level"));
        // A revert gives nothing.
        if (named.length > 0) return assert.match(named.join(), /^adventure season: quest \w+, which would/);
        assert.deepEqual(await has(projectId, user), await has(projectId, like));
      }),
      { numRuns },
    );
    assert.deepEqual(await findingsOf(domain, projectId), []);
  };

  it("take nothing of adventures for what came while they were paused", async () => {
    const projectId = await aProject(QUESTS_OF_ADVENTURES, ADVENTURES);
    await asIfNever(projectId, [{ kind: "adventure", key: "season" }], 40);
  });

  it("take nothing of quests for what came while they were paused", async () => {
    const projectId = await aProject(QUESTS, []);
    const goals = ["daily", "often", "story", "sums"].map((key): Goal => ({ kind: "quest", key }));
    await asIfNever(projectId, goals, 40);
  });

  const pointsOf = async (projectId: string, user: string): Promise<unknown> =>
    (await has(projectId, user)).adventures.map((row) => (row as Json)["points"]);
  const now = (...types: string[]) =>
    types.map((type) => ({ type, at: new Date(), properties: { score: 0 } }));

  it("take nothing of an adventure for what came while it was ended, once it is published", async () => {
    const projectId = await aProject(QUESTS_OF_ADVENTURES, ADVENTURES);
    const season: Goal = { kind: "adventure", key: "season" };
    await play(domain, projectId, { user: "ended", events: now("p", "p") });
    await move(projectId, season, "end");
    const [late] = await play(domain, projectId, { user: "ended", events: now("p") });
    await move(projectId, season, "publish");
    await takeBack(domain, projectId, late!);
    assert.deepEqual(await pointsOf(projectId, "ended"), [1]);
  });

  it("take nothing for what came while an import had archived it, once it is restored", async () => {
    const projectId = await aProject(QUESTS_OF_ADVENTURES, [ADVENTURES[1]!]);
    const change = { section: "adventures", key: "by-hand", fields: [] };
    await play(domain, projectId, { user: "archived", events: now("h", "h") });
    const imported = (run: (work: Work) => Promise<void>) =>
      domain.transact(async (work) => {
        await changeConfig(work, projectId);
        await run(work);
      });
    for (let i = 0; i < 2; i++) {
      const archived = [{ ...change, action: "ARCHIVE" as const }];
      await imported((work) => finishDefinitions(work, projectId, { wanted: [], archived }));
      const [late] = await play(domain, projectId, { user: "archived", events: now("h") });
      const wanted = [
        { change: { ...change, action: "CREATE" as const }, wanted: Adventure.parse(ADVENTURES[1]) },
      ];
      const { signal } = new AbortController();
      await imported(async (work) => {
        await importDefinitions(work, projectId, { wanted, archived: [], actor: "test", signal });
      });
      await takeBack(domain, projectId, late!);
    }
    assert.deepEqual(await pointsOf(projectId, "archived"), [2]);
  });

  it("follow the arrival of an event that is processed later", async () => {
    const projectId = await aProject(QUESTS_OF_ADVENTURES, ADVENTURES);
    const season: Goal = { kind: "adventure", key: "season" };
    const track = () => domain.track(projectId, [{ user: "late", type: "p", properties: {} }]);
    const [before] = await track();
    await move(projectId, season, "pause");
    const [within] = await track();
    await processAll(domain);
    await move(projectId, season, "resume");
    assert.deepEqual(await pointsOf(projectId, "late"), [0.5]);
    await takeBack(domain, projectId, within!);
    assert.deepEqual(await pointsOf(projectId, "late"), [0.5]);
    await takeBack(domain, projectId, before!);
    assert.deepEqual(await pointsOf(projectId, "late"), []);
    await move(projectId, season, "pause");
    await track();
    await move(projectId, season, "resume");
    await processAll(domain);
    assert.deepEqual(await pointsOf(projectId, "late"), []);
  });
});
