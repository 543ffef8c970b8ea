import { findingsOf, memoryDomain } from "../support/domain/domain.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import {
  captureHold,
  changeBalance,
  holdCurrency,
  listBalances,
  releaseHold,
} from "../../src/domain/economy/currencies/holds.ts";
import type { Player } from "../../src/domain/players/player.ts";
import { getPlayer, grantPlayerXp } from "../../src/domain/progression/players/players.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { makeCrashing, processLeft } from "../support/domain/crashing.ts";
import { anEconomy, surviveCrash } from "../support/economy/economy.ts";
import { madeOnce } from "../support/made.ts";
import { cases } from "../support/properties.ts";

const COINS_MAX = 40;
const PLAYERS = ["ada", "bob", "cy"];
const cause = { kind: "API" as const };

/** One step of a program, on one player. */
type Step =
  | { kind: "events"; user: number; points: number[] }
  | { kind: "xp"; user: number; amount: number }
  | { kind: "coins"; user: number; amount: number }
  | { kind: "hold"; user: number; amount: number }
  | { kind: "capture" | "release"; user: number; share: number };
type Program = { step: Step; crash: number; isAfter: boolean }[];

const user = fc.nat({ max: PLAYERS.length - 1 });
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("events" as const),
      user,
      points: fc.array(fc.integer({ min: -2, max: 9 }), { minLength: 1, maxLength: 4 }),
    }),
  },
  fc.record({ kind: fc.constant("xp" as const), user, amount: fc.integer({ min: -30, max: 30 }) }),
  fc.record({ kind: fc.constant("coins" as const), user, amount: fc.integer({ min: -15, max: 15 }) }),
  fc.record({ kind: fc.constant("hold" as const), user, amount: fc.integer({ min: 1, max: 12 }) }),
  fc.record({
    kind: fc.constantFrom("capture" as const, "release" as const),
    user,
    share: fc.nat({ max: 3 }),
  }),
);
const programs: fc.Arbitrary<Program> = fc.array(
  fc.record({ step: steps, crash: fc.integer({ min: 1, max: 14 }), isAfter: fc.boolean() }),
  { minLength: 3, maxLength: 14 },
);

/** What plain arithmetic says of one player. */
type Model = { xp: number; coins: number; held: number; bonuses: number };

/** A rule gives the points as XP and 3 coins, up to the maximum; the first two goals give 10 XP more. */
const scored = (model: Model, points: number): void => {
  if (points <= 0) return;
  model.xp += points;
  model.coins = Math.min(COINS_MAX, model.coins + 3);
  if (model.bonuses < 2) {
    model.bonuses++;
    model.xp += 10;
  }
};

describe("the player economy", () => {
  const { database, domain } = memoryDomain(undefined, true);
  const crashing = madeOnce(() => makeCrashing(database));

  const survive = (item: Program[number], run: (work: Work) => Promise<unknown>): Promise<boolean> =>
    surviveCrash({ crashing, domain }, item, run);

  type Hold = { id: string; amount: number };
  /** One player as a program goes on. */
  type Side = { projectId: string; name: string; model: Model; holds: Hold[]; player: Player };
  type Of<K extends Step["kind"]> = Extract<Step, { kind: K }>;

  const playEvents = async (
    { projectId, name, model }: Side,
    { points }: Of<"events">,
    item: Program[number],
  ) => {
    const events = points.map((value) => ({ user: name, type: "goal", properties: { points: value } }));
    await domain.track(projectId, events);
    // Processing dies too; what was not committed is done by the next round.
    await crashing.crashAt(item.crash, item.isAfter, () => domain.process());
    await processLeft(domain);
    for (const value of points) scored(model, value);
  };

  const playXp = async ({ model, player }: Side, step: Of<"xp">, item: Program[number]) => {
    const amount = step.amount || 1;
    const done = await survive(item, (work) => grantPlayerXp(work, player, { amount, reason: "t", cause }));
    assert.equal(done, model.xp + amount >= 0);
    if (done) model.xp += amount;
  };

  const playCoins = async ({ model, player }: Side, step: Of<"coins">, item: Program[number]) => {
    const amount = step.amount || 1;
    const change = { currencyKey: "coins", amount, reason: "t", cause };
    const done = await survive(item, (work) => changeBalance(work, player, change));
    const room = COINS_MAX - model.coins;
    assert.equal(done, amount > 0 ? room > 0 : model.coins - model.held >= -amount);
    if (done) model.coins += Math.min(amount, room);
  };

  const playHold = async ({ model, player, holds }: Side, { amount }: Of<"hold">, item: Program[number]) => {
    const hold = { currencyKey: "coins", amount, expiresInSeconds: 3_600 };
    let id = "";
    const done = await survive(item, async (work) => void ({ id } = await holdCurrency(work, player, hold)));
    assert.equal(done, model.coins - model.held >= amount);
    if (!done) return;
    model.held += amount;
    holds.push({ id, amount });
  };

  const settleHold = async (
    { model, player, holds }: Side,
    { kind, share }: Of<"capture" | "release">,
    item: Program[number],
  ) => {
    const [hold] = holds.splice(share % Math.max(1, holds.length), 1);
    if (!hold) return;
    const amount = kind === "capture" ? Math.max(1, Math.floor(hold.amount / (share + 1))) : 0;
    await survive(item, (work) =>
      kind === "capture"
        ? captureHold(work, player, { holdId: hold.id, amount, cause })
        : releaseHold(work, player, hold.id),
    );
    model.held -= hold.amount;
    model.coins -= amount;
  };

  const playStep = async (side: Side, item: Program[number]): Promise<void> => {
    const { step: one } = item;
    switch (one.kind) {
      case "events":
        return playEvents(side, one, item);
      case "xp":
        return playXp(side, one, item);
      case "coins":
        return playCoins(side, one, item);
      case "hold":
        return playHold(side, one, item);
      case "capture":
      case "release":
        return settleHold(side, one, item);
    }
  };

  const findPlayer = (projectId: string, name: string): Promise<Player> =>
    domain.transact((work) => getPlayer(work, projectId, `ext:${name}`));

  const play = async (projectId: string, program: Program): Promise<Model[]> => {
    const models = PLAYERS.map(() => ({ xp: 0, coins: 0, held: 0, bonuses: 0 }));
    const holds: Hold[][] = PLAYERS.map(() => []);
    for (const item of program) {
      const at = item.step.user;
      const name = PLAYERS[at]!;
      const player = await findPlayer(projectId, name);
      await playStep({ projectId, name, model: models[at]!, holds: holds[at]!, player }, item);
    }
    return models;
  };

  const assertTrue = async (projectId: string, models: readonly Model[]): Promise<void> => {
    assert.deepEqual(await findingsOf(domain, projectId), []);
    for (const [i, { xp, coins, held }] of models.entries()) {
      const player = await findPlayer(projectId, PLAYERS[i]!);
      const balances = await domain.transact((work) => listBalances(work, player));
      const found = balances.find(({ currencyKey }) => currencyKey === "coins")!;
      assert.deepEqual(
        { xp: player.xp, coins: found.balance, held: found.held },
        { xp, coins, held },
        PLAYERS[i]!,
      );
    }
  };

  it("is what plain arithmetic says after any program, wherever each step dies first (I1 to I9, I12)", () =>
    fc.assert(
      fc.asyncProperty(programs, async (program) => {
        const projectId = await anEconomy(domain, { players: PLAYERS, coinsMax: COINS_MAX });
        await assertTrue(projectId, await play(projectId, program));
      }),
      { numRuns: cases(25) },
    ));
});
