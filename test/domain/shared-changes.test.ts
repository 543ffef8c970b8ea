import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { changeBalance } from "../../src/domain/economy/currencies/holds.ts";
import { changeLives } from "../../src/domain/economy/lives/operations.ts";
import { changePlayer } from "../../src/domain/progression/change.ts";
import type { DomainError } from "../../src/domain/kernel/errors.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { submitPlayerScore } from "../../src/domain/leaderboards/record-scores.ts";
import { grantPlayerXp } from "../../src/domain/progression/players/players.ts";
import { listen, memoryDomain } from "../support/domain/domain.ts";
import { aProjectOfChanges, openSharing, type Share } from "../support/domain/sharing.ts";
import { cases } from "../support/properties.ts";

describe("changes of players that share a transaction", () => {
  let projectId: string;
  let share: Share;
  let statements: string[];

  const { database, domain } = memoryDomain();
  before(async () => {
    projectId = await aProjectOfChanges(domain);
    for (let n = 1; n <= 4; n++) await domain.addPlayer(projectId, `p${n}`);
    ({ share } = await openSharing(database, domain, projectId));
    statements = await listen(database);
  });

  it("go to the next transaction when one has taken long, which keeps its own", async () => {
    statements.length = 0;
    const order: string[] = [];
    const change = (player: string, ms: number) =>
      share(player, (work) =>
        changePlayer(work, { projectId, id: `ext:${player}` }, () => {
          for (const untilMs = performance.now() + ms; performance.now() < untilMs;);
          order.push(player);
          return () => work.now.getTime();
        }),
      );
    await Promise.all([change("p1", 0), change("p2", 250), change("p3", 0), change("p4", 0)]);
    assert.deepEqual(order, ["p1", "p2", "p3", "p4"]);
    assert.ok(statements.filter((text) => text.includes("set local role")).length >= 2);
  });

  type Asked = {
    player: number;
    kind: "xp" | "coins" | "lives" | "score";
    amount: number;
    reference: boolean;
  };
  const asked: fc.Arbitrary<Asked[]> = fc.array(
    fc.record({
      player: fc.nat(2),
      kind: fc.constantFrom("xp", "coins", "lives", "score"),
      amount: fc.integer({ min: -60, max: 60 }).filter((amount) => amount !== 0),
      reference: fc.boolean(),
    }),
    { minLength: 2, maxLength: 16 },
  );
  const cause = { kind: "API" } as const;

  const make = (work: Work, of: string, { player, kind, amount, reference }: Asked): Promise<unknown> => {
    const key = { projectId: of, id: `ext:q${player}` };
    const named = { amount, reason: "test", cause, ...(reference ? { reference: "order" } : {}) };
    if (kind === "xp") return grantPlayerXp(work, key, named);
    if (kind === "coins") return changeBalance(work, key, { ...named, currencyKey: "coins" });
    if (kind === "lives") return changeLives(work, key, { amount, reason: "test", cause });
    return submitPlayerScore((run) => run(work), of, "best", { playerId: key.id, score: amount });
  };

  /** What each request came to, and what is left of it. */
  const remains = async (of: string, outcomes: readonly PromiseSettledResult<unknown>[]) => {
    const codes = outcomes.map((one) =>
      one.status === "rejected" ? ((one.reason as DomainError).reason ?? String(one.reason)) : "done",
    );
    const rows = (text: string) => domain.sql`${sql.raw(text)}`;
    const names = `select id, external_user_id as name from players where project_id = '${of}'`;
    return {
      codes,
      players: await rows(`select external_user_id, xp, level, seq, ledger_seq, lives from players
        where project_id = '${of}' order by 1`),
      ledger: await rows(`select p.name, l.seq, l.asset, l.amount, l.balance_after, l.reason
        from ledger_entries l join (${names}) p on p.id = l.player_id order by 1, 2`),
      scores: await rows(`select p.name, e.rank_score from leaderboard_entries e
        join (${names}) p on p.id = e.player_id order by 1`),
      told: await rows(`select p.name, o.player_seq, o.type from outbox o
        join (${names}) p on p.id = o.player_id order by 1, 2`),
    };
  };

  it("come to the same as one after another, refusals included", () =>
    fc.assert(
      fc.asyncProperty(asked, async (requests) => {
        const [together, apart] = [await aProjectOfChanges(domain), await aProjectOfChanges(domain)];
        for (const id of [together, apart]) for (let n = 0; n < 3; n++) await domain.addPlayer(id, `q${n}`);
        const sharing = await openSharing(database, domain, together);
        const shared = await Promise.allSettled(
          requests.map((one) => sharing.share(`q${one.player}`, (work) => make(work, together, one))),
        );
        const single: PromiseSettledResult<unknown>[] = [];
        const { alone } = await openSharing(database, domain, apart);
        for (const one of requests)
          single.push(...(await Promise.allSettled([alone((work) => make(work, apart, one))])));
        assert.deepEqual(await remains(together, shared), await remains(apart, single));
      }),
      { numRuns: cases(15) },
    ));
});
