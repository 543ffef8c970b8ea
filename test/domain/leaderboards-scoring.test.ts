import assert from "node:assert/strict";
import * as fc from "fast-check";
import { sql } from "kysely";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import { revertEvent } from "../../src/domain/revert/revert-events.ts";
import { rowsOf } from "../support/domain/rule-projects.ts";
import {
  aHistory,
  type Goal,
  histories,
  nameIn,
  nextRound,
  type History,
  reckoned,
  storedEntries,
  teamOf,
  wrongValues,
} from "../support/leaderboards/scored-history.ts";
import { madeOnce } from "../support/made.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const sorted = (entries: ReadonlyMap<string, number>) => [...entries].toSorted();

describe("scores over windows", () => {
  const { domain } = memoryDomain();
  const first = madeOnce(() => aHistory(domain));

  const play = async (history: History, batches: readonly (readonly Goal[])[]): Promise<string[]> => {
    const ids: string[] = [];
    for (const batch of batches) {
      const events = batch.map(({ user, at, points }) => ({
        user: nameIn(history, user),
        at: new Date(at),
        properties: { points, of: { team: teamOf({ at }) } },
      }));
      if (events.length > 0) ids.push(...(await domain.track(history.projectId, events)));
      await domain.process();
    }
    return ids;
  };

  it("are what a plain loop over each window gives, in any batches and any order, over DST", () =>
    fc.assert(
      fc.asyncProperty(histories, async (batches) => {
        const history = await nextRound(domain, first);
        await play(history, batches);
        assert.deepEqual(
          sorted(await storedEntries(domain, history)),
          sorted(reckoned(history, batches.flat())),
        );
        assert.deepEqual(await wrongValues(domain, history), []);
        const odd = await rowsOf(
          domain,
          sql`select period_key from leaderboard_periods where project_id = ${history.projectId}
            and (status <> 'OPEN' or is_late <> coalesce(ends_at <= created_at, false)
              or grants_prizes = is_late or close_at is distinct from ends_at + interval '60 s')`,
        );
        assert.deepEqual(odd, []);
      }),
      { numRuns: 8 },
    ));

  it("are without an event that was taken back, in the window of its time", () =>
    fc.assert(
      fc.asyncProperty(histories, fc.nat(), async (batches, which) => {
        const history = await nextRound(domain, first);
        const ids = await play(history, batches);
        const at = which % ids.length;
        const revert = { eventId: ids[at]!, reason: "t", onShortfall: "CLAMP" as const, actor: "test" };
        await domain.transact((work) => revertEvent(work, history.projectId, revert));
        const goals = batches.flat();
        const [before, expected] = [reckoned(history, goals), reckoned(history, goals.toSpliced(at, 1))];
        for (const [name, score] of await storedEntries(domain, history)) {
          const isKept = /^(monthly|fixed)/.test(name);
          // A place cannot be taken away: what adds up is left with nothing, what is one event's as it was.
          assert.equal(score, expected.get(name) ?? (isKept ? before.get(name) : 0), name);
        }
        assert.deepEqual(await wrongValues(domain, history), []);
      }),
      { numRuns: 5 },
    ));

  it("of both come together when players are merged, in every window", async () => {
    const history = await nextRound(domain, first);
    const { projectId } = history;
    const [day, hour] = [86_400_000, 3_600_000];
    const base = Date.parse("2026-03-29T10:00:00Z");
    const goals = ["ada", "bob", "ada", "bob"].map((user, i) => ({
      user,
      at: base + i * (day + hour),
      points: i + 1,
    }));
    await play(history, [goals]);
    await domain.transact(async (work) => {
      const [targetId, sourceId] = [
        (await getPlayer(work, projectId, `ext:${nameIn(history, "ada")}`)).id,
        (await getPlayer(work, projectId, `ext:${nameIn(history, "bob")}`)).id,
      ];
      await mergePlayers(work, { projectId, targetId, sourceId, strategy: DEFAULT_STRATEGY, cause: {} });
    });
    const expected = reckoned(
      history,
      goals.map((one) => ({ ...one, user: "ada" })),
    );
    const stored = sorted(await storedEntries(domain, history));
    // The merged player keeps the entries of cities that were the other's.
    const ofCities = ([name]: [string, number]): boolean => name.startsWith("cities");
    assert.deepEqual(
      stored.filter((one) => !ofCities(one)),
      sorted(expected).filter((one) => !ofCities(one)),
    );
    assert.deepEqual(
      stored.filter(ofCities).map(([name]) => name.split(" ").slice(2).join(" ")),
      ["Rome", "Oslo", "Rome", "Oslo"].map((city) => `${city} ${nameIn(history, "ada")}`),
    );
    assert.deepEqual(await wrongValues(domain, history), []);
  });

  it("leave a closed window as it is, and count in the others", async () => {
    const history = await nextRound(domain, first);
    const at = Date.parse("2026-04-10T10:00:00Z");
    await play(history, [[{ user: "ada", at, points: 4 }]]);
    await rowsOf(
      domain,
      sql`update leaderboard_periods set status = 'CLOSED' where project_id = ${history.projectId}
        and period_key in ('2026-04-10', '2026-04') returning 1`,
    );
    await play(history, [
      [
        { user: "ada", at: at + 1, points: 5 },
        { user: "bob", at: at + 2, points: 5 },
      ],
    ]);
    const stored = await storedEntries(domain, history);
    const scoreIn = (list: string, user: string) => stored.get(`${list}  ${nameIn(history, user)}`);
    assert.deepEqual(
      [
        scoreIn("daily 2026-04-10", "ada"),
        scoreIn("daily 2026-04-10", "bob"),
        scoreIn("xp 2026-04-10", "ada"),
      ],
      [4, undefined, 4],
    );
    assert.deepEqual(
      [scoreIn("monthly 2026-04", "ada"), scoreIn("fixed fixed", "ada"), scoreIn("total all-time", "ada")],
      [4, 5, 9],
    );
    assert.equal(scoreIn("earned 2026-W15", "ada"), 6);
  });
});
