import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { claimPlayerTier, givePlayerPremium } from "../../src/domain/economy/adventures/change-adventures.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { checkAdventures } from "../../src/domain/registries/reconcile/player-checks.ts";
import { define, findingsOf, memoryDomain, publish } from "../support/domain/domain.ts";
import {
  ADVENTURES,
  aHistoryProject,
  anAge,
  aTurn,
  play,
  playReverted,
  QUESTS_OF_ADVENTURES,
  takeBack,
} from "../support/reverts/histories.ts";
import { cases } from "../support/properties.ts";

const histories = fc
  .array(
    fc.record({
      type: fc.constantFrom("a", "b", "p"),
      hoursAgo: anAge,
      score: fc.integer({ min: 0, max: 9 }),
      reverted: aTurn,
    }),
    { minLength: 1, maxLength: 8 },
  )
  .map((history) => history.toSorted((a, b) => b.hoursAgo - a.hoursAgo));

type Row = {
  key: string;
  state: string;
  points: string;
  completed: string | null;
  doc: {
    items: Record<string, { doneMs: number; times: number }>;
    unlocked: string[];
    tiers: Record<string, { freeMs?: number; premiumMs?: number }>;
  };
};

describe("adventures of which events were reverted", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  let players = 0;

  before(async () => {
    projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    for (const quest of QUESTS_OF_ADVENTURES) await define(domain, projectId, "quest", quest);
    for (const adventure of ADVENTURES) await define(domain, projectId, "adventure", adventure);
  });

  const has = async (user: string) => {
    const [player] = await domain.sql<{ id: string; xp: string; stars: string }>`
      select p.id, p.xp, coalesce(b.balance, 0) as stars from players p
      left join player_balances b on b.project_id = p.project_id and b.player_id = p.id
        and b.currency_key = 'stars'
      where p.project_id = ${projectId} and p.external_user_id = ${user}`;
    if (!player) return { xp: 0, stars: 0, rows: [] };
    const rows = await domain.sql<Row>`
      select adventure_key as key, state, points, completed_at as completed, doc from player_adventures
      where project_id = ${projectId} and player_id = ${player.id} and state <> 'WAITING' order by 1`;
    return {
      xp: Number(player.xp),
      stars: Number(player.stars),
      rows: rows.map(({ key, state, points, completed, doc }) => ({
        is: [key, state, Number(points), completed],
        items: Object.entries(doc.items)
          .map(([quest, { doneMs, times }]) => [quest, doneMs, times])
          .toSorted(),
        unlocked: doc.unlocked.toSorted(),
        tiers: Object.entries(doc.tiers).map(([tier, { freeMs, premiumMs }]) => [
          tier,
          freeMs !== undefined,
          premiumMs !== undefined,
        ]),
      })),
    };
  };
  const now = (...types: string[]) =>
    types.map((type) => ({ type, at: new Date(), properties: { score: 1 } }));
  const idOf = (user: string) => domain.addPlayer(projectId, user);
  const rowOf = async (user: string, key: string) =>
    (await has(user)).rows.find(({ is: [of] }) => of === key);

  it("are as if the reverted ones had never been: points, items, tiers, completion and rewards", async () => {
    await fc.assert(
      fc.asyncProperty(histories, fc.boolean(), async (history, isTogether) => {
        const user = `player-${players++}`;
        const like = `${user}-like`;
        const left = await playReverted(domain, projectId, { user, like, history, isTogether });
        assert.deepEqual(
          left.filter((what) => !what.startsWith("level")),
          [],
        );
        assert.deepEqual(await has(user), await has(like));
      }),
      { numRuns: cases(40) },
    );
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("give rewards again that were taken back, once, when they are reached again", async () => {
    const [first] = await play(domain, projectId, { user: "again", events: now("a", "a") });
    const before = await has("again");
    const { adventures, left } = await takeBack(domain, projectId, first!);
    assert.deepEqual([adventures, left], [["season"], []]);
    assert.equal((await has("again")).stars, 0);
    await play(domain, projectId, { user: "again", events: now("a") });
    const { xp, stars } = await has("again");
    assert.deepEqual([xp, stars], [before.xp, before.stars]);
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("lose what a request has claimed of a tier that is lost, and keep premium", async () => {
    const [first] = await play(domain, projectId, { user: "claimed", events: now("h", "h") });
    const player = { projectId, id: await idOf("claimed") };
    const ref = { adventureRef: "by-hand" };
    await domain.transact((work) => givePlayerPremium(work, player, { ...ref, isGranted: true }));
    const claim = (track: "FREE" | "PREMIUM") =>
      domain.transact((work) => claimPlayerTier(work, player, { ...ref, tier: 1, track }));
    await claim("FREE");
    await claim("PREMIUM");
    assert.equal((await has("claimed")).stars, 11);
    assert.deepEqual((await takeBack(domain, projectId, first!)).left, []);
    assert.equal((await has("claimed")).stars, 0);
    assert.deepEqual((await rowOf("claimed", "by-hand"))?.tiers, []);
    await assert.rejects(claim("FREE"), /not reached/);
    await play(domain, projectId, { user: "claimed", events: now("h") });
    await claim("FREE");
    const shown = await claim("PREMIUM");
    assert.deepEqual([(await has("claimed")).stars, shown.premium], [11, true]);
  });

  it("are held against quests, points and the ledger by reconciliation", async () => {
    await play(domain, projectId, { user: "broken", events: now("a", "a", "b", "p") });
    assert.deepEqual(await findingsOf(domain, projectId), []);
    const page = { projectId, playerIds: [await idOf("broken")] };
    const found = async (change: ReturnType<typeof sql>): Promise<string[]> => {
      const rollback = new Error("only to look");
      const findings: string[] = [];
      const broken = domain.transact(async (work) => {
        await sql`update player_adventures a set ${change} from players p where p.project_id = a.project_id
          and p.id = a.player_id and p.external_user_id = 'broken' and a.adventure_key = 'season'`.execute(
          work.db,
        );
        findings.push(...(await checkAdventures(work, page, false)).map(({ message }) => message));
        throw rollback;
      });
      await assert.rejects(broken, rollback);
      return findings.toSorted();
    };
    const tier = (number: number) => sql`doc = doc #- array['tiers', ${String(number)}]`;
    assert.deepEqual(await found(sql`points = points`), []);
    assert.match((await found(sql`claimed_at = null`)).join(), /season: CLAIMED with 20.700000 points/);
    assert.match(
      (await found(sql`state = 'COMPLETED'`)).join(),
      /it is COMPLETED, but gave adv:[^:]+:complete/,
    );
    assert.match((await found(tier(1))).join(), /gave adv:[^:]+:t:1:FREE.*tier 1 of 1 points is not reached/);
    const often = sql`doc = jsonb_set(doc, '{items,often,times}', '2')`;
    assert.deepEqual(await found(often), [
      "adventure season: 2 times quest often, which was completed 1 times",
    ]);
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("are as not joined where nothing is left of the progress that joined", async () => {
    const [only] = await play(domain, projectId, { user: "alone", events: now("p") });
    assert.equal((await has("alone")).rows.length, 1);
    await takeBack(domain, projectId, only!);
    assert.deepEqual((await has("alone")).rows, []);
    const [player] = await domain.sql<{ doc: Json }>`
      select o.data as doc from outbox o where o.project_id = ${projectId}
      and o.type = 'adventure.updated' order by o.id desc limit 1`;
    const shown = player!.doc["adventure"] as Json;
    assert.deepEqual([shown["state"], shown["id"], shown["points"]], ["AVAILABLE", null, 0]);
  });

  it("lock what the points had unlocked, unless it was begun since: that is named", async () => {
    const [first] = await play(domain, projectId, { user: "locks", events: now("h", "h", "h") });
    assert.deepEqual((await rowOf("locks", "by-hand"))?.unlocked, ["hidden"]);
    await takeBack(domain, projectId, first!);
    assert.deepEqual((await rowOf("locks", "by-hand"))?.unlocked, []);
    const [fourth] = await play(domain, projectId, { user: "locks", events: now("h", "hide") });
    const { left } = await takeBack(domain, projectId, fourth!);
    assert.deepEqual(left, ["adventure by-hand: quest hidden, which it has unlocked"]);
    assert.deepEqual((await rowOf("locks", "by-hand"))?.unlocked, ["hidden"]);
  });

  it("name what followed a tier that another event has reached", async () => {
    const all = projectId;
    projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    for (const quest of QUESTS_OF_ADVENTURES) await define(domain, projectId, "quest", quest);
    await define(domain, projectId, "adventure", ADVENTURES[1]!);
    await publish(domain, projectId, {
      key: "on-tier",
      triggers: [{ kind: "EVENT", eventTypes: ["adventure.tier_reached"] }],
      actions: [{ type: "grant_xp", amount: 7 }],
    });
    const [first, second] = await play(domain, projectId, { user: "followed", events: now("h", "h") });
    assert.equal((await has("followed")).xp, 7);
    const { left } = await takeBack(domain, projectId, first!);
    assert.deepEqual([left, (await has("followed")).xp], [["adventure by-hand: what followed its tiers"], 7]);
    await takeBack(domain, projectId, second!);
    assert.equal((await has("followed")).xp, 0);
    projectId = all;
  });
});
