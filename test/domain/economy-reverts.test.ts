import { findingsOf, openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import { changeBalance } from "../../src/domain/economy/currencies/holds.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import type { Player } from "../../src/domain/players/player.ts";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import { revertEvent } from "../../src/domain/revert/revert-events.ts";
import { makeCrashing, processLeft } from "../support/domain/crashing.ts";
import { anEconomy, surviveCrash } from "../support/economy/economy.ts";
import { madeOnce } from "../support/made.ts";
import { cases } from "../support/properties.ts";

const PLAYERS = ["ada", "bob", "cy", "dee"];
const cause = { kind: "API" as const };

type Step =
  | { kind: "events"; user: number; points: number[] }
  | { kind: "spend"; user: number; amount: number }
  | { kind: "revert"; event: number }
  | { kind: "merge"; user: number; other: number };
type Item = { step: Step; crash: number; isAfter: boolean };

const user = fc.nat({ max: PLAYERS.length - 1 });
const points = fc.array(fc.integer({ min: -1, max: 9 }), { minLength: 1, maxLength: 3 });
const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("events" as const), user, points }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("revert" as const), event: fc.nat({ max: 9 }) }) },
  fc.record({ kind: fc.constant("spend" as const), user, amount: fc.integer({ min: 1, max: 5 }) }),
  fc.record({ kind: fc.constant("merge" as const), user, other: user }),
);
const programs: fc.Arbitrary<Item[]> = fc.array(
  fc.record({ step: steps, crash: fc.integer({ min: 1, max: 20 }), isAfter: fc.boolean() }),
  { minLength: 4, maxLength: 14 },
);

describe("what reverts and merges leave of the economy", () => {
  const database = madeOnce(openMemoryDatabase, (made) => made.close());

  const domain = madeOnce(() => openDomain(database, undefined, true));
  const crashing = madeOnce(() => makeCrashing(database));

  /** A game as a program goes on: its events in order, and those that were taken back. */
  type Game = { projectId: string; events: string[]; reverted: Set<string> };
  const survive = (item: Item, run: Parameters<typeof surviveCrash>[2]) =>
    surviveCrash({ crashing, domain }, item, run);
  const findPlayer = ({ projectId }: Game, name: string): Promise<Player> =>
    domain.transact((work) => getPlayer(work, projectId, `ext:${name}`));

  const playStep = async (game: Game, item: Item): Promise<void> => {
    const { projectId, events, reverted } = game;
    const { step } = item;
    if (step.kind === "events") {
      const sent = step.points.map((value) => ({
        user: PLAYERS[step.user]!,
        properties: { points: value },
      }));
      events.push(...(await domain.track(projectId, sent)));
      await crashing.crashAt(item.crash, item.isAfter, () => domain.process());
      return processLeft(domain);
    }
    if (step.kind === "spend") {
      const player = await findPlayer(game, PLAYERS[step.user]!);
      const change = { currencyKey: "coins", amount: -step.amount, reason: "t", cause };
      await survive(item, (work) => changeBalance(work, player, change));
      return;
    }
    if (step.kind === "merge") {
      const [target, source] = [
        await findPlayer(game, PLAYERS[step.user]!),
        await findPlayer(game, PLAYERS[step.other]!),
      ];
      const ids = { projectId, targetId: target.id, sourceId: source.id };
      await survive(item, (work) => mergePlayers(work, { ...ids, strategy: DEFAULT_STRATEGY, cause: {} }));
      return;
    }
    const eventId = events[step.event % Math.max(1, events.length)];
    if (eventId === undefined) return;
    const revert = { eventId, reason: "t", onShortfall: "CLAMP" as const, actor: "test" };
    await survive(item, (work) => revertEvent(work, projectId, revert));
    reverted.add(eventId);
    const again = await domain.transact((work) => revertEvent(work, projectId, revert));
    assert.equal(again.isReverted, false, "once is enough");
  };

  type Sum = { event_id: string; asset: string; given: number; taken: number | null };

  /** Of each event: what its entries gave, and what entries that reverse them took. */
  const sumsOf = ({ projectId }: Game): Promise<readonly Sum[]> =>
    domain.sql<Sum>`
          select l.event_id, l.asset, sum(l.amount) as given, sum(r.amount) as taken
          from ledger_entries l
          left join ledger_entries r on r.project_id = l.project_id and r.reverses = l.id
          where l.project_id = ${projectId} and l.event_id is not null and l.reverses is null
          group by l.event_id, l.asset`;

  const totalXp = async ({ projectId }: Game): Promise<number> => {
    const rows = await domain.sql<{ n: number }>`
      select sum(xp) as n from players where project_id = ${projectId}`;
    return rows[0]!.n;
  };

  it("adds up, wherever each step dies first: nothing is taken that was not given, nor from another", () =>
    fc.assert(
      fc.asyncProperty(programs, async (program) => {
        const projectId = await anEconomy(domain, { players: PLAYERS, coinsMax: 1_000 });
        const game: Game = { projectId, events: [], reverted: new Set() };
        for (const item of program) await playStep(game, item);
        assert.deepEqual(await findingsOf(domain, projectId), []);
        let standing = 0;
        for (const { event_id: eventId, asset, given, taken } of await sumsOf(game)) {
          const [gave, took] = [given, 0 - (taken ?? 0)];
          if (asset === "XP") standing += gave - took;
          if (!game.reverted.has(eventId)) assert.equal(took, 0, "of an event that stands");
          // XP is never spent here, so all of it comes back; coins as far as they are still there.
          else if (asset === "XP") assert.equal(took, gave);
          else assert.ok(took <= gave);
        }
        // Nothing else gives XP: what a merge moves is there once.
        assert.equal(await totalXp(game), standing);
      }),
      { numRuns: cases(25) },
    ));
});
