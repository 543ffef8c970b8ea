import assert from "node:assert/strict";
import fc from "fast-check";
import { type Ranked, TIES, type Ties } from "../../src/domain/evaluation/boards/ranks.ts";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { createMemoryRanks } from "../../src/domain/leaderboards/rank-index.ts";
import { createRankMoves } from "../../src/domain/leaderboards/rank-moves.ts";
import { cases } from "../support/properties.ts";

const topics = {
  publish: () => undefined,
  publishIfSubscribed: async () => undefined,
  subscribe: async () => () => undefined,
};

const byPlace = (a: Ranked, b: Ranked): number => a.rankScore - b.rankScore || a.rankTie - b.rankTie;

/** The displayed rank, by counting. */
const rankOf = (entries: readonly Ranked[], { playerId }: Ranked, ties: Ties): number => {
  const own = entries.find((one) => one.playerId === playerId)!;
  const before = entries.filter((one) =>
    ties === "SHARED" || ties === "DENSE" ? one.rankScore < own.rankScore : byPlace(one, own) < 0,
  );
  return 1 + (ties === "DENSE" ? new Set(before.map(({ rankScore }) => rankScore)).size : before.length);
};

describe("ranks before and after a change", () => {
  it("are those of the two boards, also when the relay has been faster", async () => {
    const scores = fc.array(fc.nat(3), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(
        scores,
        fc.nat(),
        fc.nat(4),
        fc.constantFrom(...TIES),
        fc.boolean(),
        async (...given) => {
          const [all, who, score, ties, isLate] = given;
          const entries = all.map((rankScore, i) => ({ playerId: `p${i}`, rankScore, rankTie: i + 1 }));
          const source = async function* () {
            yield entries.map((one): EntryChange => [one.playerId, one.rankScore, one.rankTie, 1]);
          };
          const ranks = createMemoryRanks(source);
          const period = { projectId: "project", periodId: "period", ties };
          const before = entries[who % entries.length]!;
          const after = { ...before, rankScore: score, rankTie: entries.length + 1 };
          const change: EntryChange = [after.playerId, after.rankScore, after.rankTie, 2];
          await ranks.standings(period, []);
          if (isLate) await ranks.apply(period.projectId, period.periodId, [change]);
          const moved = await createRankMoves({ ranks, topics })({
            period,
            playerId: before.playerId,
            before,
            change,
          });
          const then = entries.map((one) => (one === before ? after : one));
          assert.deepEqual(moved, {
            rank: rankOf(then, after, ties),
            previousRank: rankOf(entries, before, ties),
          });
        },
      ),
      { numRuns: cases(1_000) },
    );
  });
});
