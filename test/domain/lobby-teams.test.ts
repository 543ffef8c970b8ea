import assert from "node:assert/strict";
import fc from "fast-check";
import { assignTeams, spreadOf, type TeamPlayer } from "../../src/domain/social/lobbies/membership.ts";

const ratings = fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 1, maxLength: 16 });
const playersOf = (given: readonly number[]): TeamPlayer[] =>
  given.map((rating, i) => ({ playerId: `p${String(i).padStart(2, "0")}`, rating }));

const teamsOf = (players: readonly TeamPlayer[], places: ReturnType<typeof assignTeams>, count: number) =>
  Array.from({ length: count }, (_, i) =>
    players.filter(({ playerId }) => places.get(playerId)!.team === i + 1),
  );

describe("teams that are given at the start", () => {
  for (const assignment of ["RANDOM", "BALANCED"] as const)
    it(`have everybody in one place, and like sizes: ${assignment}`, () => {
      fc.assert(
        fc.property(ratings, fc.integer({ min: 1, max: 5 }), fc.string(), (given, count, seed) => {
          const players = playersOf(given);
          const size = Math.ceil(players.length / count);
          const places = assignTeams(players, { count, size, assignment }, seed);
          const taken = [...places.values()].map(({ team, slot }) => `${team}/${slot}`);
          assert.equal(new Set(taken).size, players.length);
          const sizes = teamsOf(players, places, count).map(({ length }) => length);
          assert.ok(Math.max(...sizes) - Math.min(...sizes) <= 1, String(sizes));
          for (const { slot } of places.values()) assert.ok(slot >= 1 && slot <= size);
          assert.deepEqual(assignTeams(players, { count, size, assignment }, seed), places);
        }),
      );
    });

  it("of like strength cannot be bettered by a swap between the strongest and the weakest", () => {
    fc.assert(
      fc.property(ratings, fc.integer({ min: 2, max: 4 }), (given, count) => {
        const players = playersOf(given);
        const size = players.length;
        const places = assignTeams(players, { count, size, assignment: "BALANCED" }, "");
        const teams = teamsOf(players, places, count);
        const order = teams.toSorted((a, b) => sumOf(b) - sumOf(a));
        const [strong, weak] = [order[0]!, order.at(-1)!];
        for (const a of strong)
          for (const b of weak) {
            const swapped = teams.map((team) => team.map((one) => (one === a ? b : one === b ? a : one)));
            assert.ok(spreadOf(swapped) >= spreadOf(teams));
          }
      }),
    );
  });

  it("by chance follow from the seed and from nothing else", () => {
    const players = playersOf([1, 2, 3, 4, 5, 6, 7, 8]);
    const teams = { count: 2, size: 4, assignment: "RANDOM" } as const;
    const byseed = ["a", "b", "c", "d"].map((seed) => JSON.stringify([...assignTeams(players, teams, seed)]));
    assert.ok(new Set(byseed).size > 1);
  });
});

const sumOf = (team: readonly TeamPlayer[]): number => team.reduce((sum, { rating }) => sum + rating, 0);
