import assert from "node:assert/strict";
import * as fc from "fast-check";
import { sql } from "kysely";
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
